"""Schedules, operands and references for the tests of SDDMM and MTTKRP kernels.

Values are small integers, so that sums are exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from autosparse._native.ir.lower import supports
from hypothesis import strategies as st
from numpy.typing import NDArray

from autosparse import _native
from autosparse.core.formats import Format, Level, LevelKind
from autosparse.core.pattern import TensorPattern
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import Target
from tests.native import cases

Array = NDArray[Any]


def schedule(operation: str, fmt: str, loops: str, tile: int = 0, **fields: Any) -> SuperSchedule:
    """Return a schedule; `tile` columns where there is a column loop."""
    splits = (("j", tile),) if tile else ()
    made = Format.parse(fmt)
    return SuperSchedule(
        operation=operation, format=made, loop_order=tuple(loops.split()), dense_splits=splits, **fields
    )


def spec(
    made: SuperSchedule,
    dtype: str = "float32",
    index_dtype: str = "int32",
    isa: str | None = None,
    *,
    deterministic: bool = False,
) -> _native.KernelSpec:
    """Return the kernel spec of a schedule for this machine."""
    return _native.KernelSpec(made.operation, made, dtype, index_dtype, isa or Target.host().isa, deterministic)


SDDMM: Final = {
    "CSR": schedule("sddmm", "i1:U,k1:C", "i1 k1 j1 j0", 32, unroll=4),
    "CSR rows in registers": schedule("sddmm", "i1:U,k1:C", "i1 j1 k1 j0", 16, unroll=8, prefetch=4),
    "CSR one column": schedule("sddmm", "i1:U,k1:C", "i1 k1"),
    "CSR odd tile": schedule("sddmm", "i1:U,k1:C", "i1 k1 j1 j0", 20, unroll=3, prefetch=2),
    "CSR columns outside": schedule("sddmm", "i1:U,k1:C", "j1 i1 k1 j0", 8, unroll=2),
    "CSR columns of a tile outside": schedule("sddmm", "i1:U,k1:C", "j0 i1 k1 j1", 4),
    "CSR narrow": schedule("sddmm", "i1:U,k1:C | bits=16", "i1 k1 j1 j0", 16, unroll=8),
    "CSC by columns": schedule("sddmm", "k1:U,i1:C", "k1 i1 j1 j0", 16, unroll=8, parallel="k1"),
    "DCSR": schedule("sddmm", "i1:C,k1:C", "i1 k1 j1 j0", 16, partition="dynamic", chunk=3),
    "BCSR block of results": schedule("sddmm", "i1:U,k1:C,i0:U,k0:U | i=3,k=2", "i1 k1 j1 i0 k0 j0", 32, unroll=2),
    "BCSR entry by entry": schedule("sddmm", "i1:U,k1:C,i0:U,k0:U | i=4,k=4", "i1 k1 i0 k0 j1 j0", 32),
    "UCU": schedule("sddmm", "i1:U,k1:C,i0:U | i=4", "i1 k1 j1 i0 j0", 16),
    "UUC": schedule("sddmm", "k1:U,i1:U,k0:C | k=8", "k1 i1 k0 j1 j0", 16, unroll=4, parallel="k1"),
    "COO": schedule("sddmm", "i1:N,k1:Q", "i1 k1 j1 j0", 16, unroll=4, prefetch=2),
    "COO one by one": schedule("sddmm", "i1:N,k1:Q", "i1 j1 k1 j0", 8),
    "CSR, rows ordered": schedule("sddmm", "i1:U,k1:C | rows=rcm", "i1 k1 j1 j0", 32, unroll=8, prefetch=4),
    "CSR, rows ordered, registers": schedule("sddmm", "i1:U,k1:C | rows=first", "i1 j1 k1 j0", 16, unroll=4),
    "DCSR, rows ordered": schedule("sddmm", "i1:C,k1:C | rows=degree", "i1 k1 j1 j0", 16, unroll=2),
    "UCU, rows ordered": schedule("sddmm", "i1:U,k1:C,i0:U | i=4 | rows=first", "i1 k1 j1 i0 j0", 16, unroll=2),
    "UUC, rows ordered": schedule("sddmm", "k1:U,i1:U,k0:C | k=8 | rows=rcm", "k1 i1 k0 j1 j0", 16, unroll=4),
    "searched": schedule("sddmm", "k1:C,i1:C", "i1 k1 j1 j0", 16),
}
"""SDDMM schedules by the name of their format in the literature."""

MTTKRP: Final = {
    **{
        f"CSF {''.join(order)}": schedule(
            "mttkrp",
            ",".join(f"{index}1:C" for index in order),
            " ".join(f"{index}1" for index in order[: order.index("i") + 1])
            + " j1 "
            + " ".join(f"{index}1" for index in order[order.index("i") + 1 :])
            + " j0",
            16,
            parallel=f"{order[0]}1",
        )
        for order in itertools.permutations("ikl")
    },
    "rows dense": schedule("mttkrp", "i1:U,k1:C,l1:C", "i1 j1 k1 l1 j0", 16, unroll=4, prefetch=4),
    "one column": schedule("mttkrp", "i1:U,k1:C,l1:C", "i1 k1 l1", unroll=2),
    "one column, unlisted fibers": schedule("mttkrp", "i1:U,k1:U,l1:C", "i1 k1 l1", unroll=4),
    "odd tile": schedule("mttkrp", "i1:U,k1:U,l1:C", "i1 j1 k1 l1 j0", 20),
    "threads with outputs of their own": schedule(
        "mttkrp", "k1:U,i1:C,l1:C", "k1 i1 j1 l1 j0", 16, parallel="k1", partition="dynamic", chunk=2
    ),
    "blocked": schedule("mttkrp", "i1:U,k1:C,l1:C,i0:U,l0:U | i=2,l=2", "i1 j1 k1 l1 i0 l0 j0", 16),
    "blocked in both summed modes": schedule(
        "mttkrp", "i1:U,k1:C,l1:C,l0:U,k0:U | k=3,l=2", "i1 j1 k1 l1 l0 k0 j0", 16
    ),
    "COO": schedule("mttkrp", "i1:N,k1:Q,l1:Q", "i1 j1 k1 l1 j0", 16, parallel="i1"),
    "CSF, flat": schedule("mttkrp", "i1:U,k1:N,l1:Q", "i1 j1 k1 l1 j0", 16, unroll=2, prefetch=3),
    "CSF, flat, one column": schedule("mttkrp", "i1:U,k1:N,l1:Q", "i1 k1 l1", unroll=4),
    "searched": schedule("mttkrp", "i1:C,k1:C,l1:C", "l1 k1 i1 j1 j0", 8, parallel="i1"),
    "CSF of order 4": schedule("mttkrp", "i1:C,k1:C,l1:C,m1:C", "i1 j1 k1 l1 m1 j0", 16, unroll=2),
    "order 4, one mode blocked": schedule("mttkrp", "i1:C,k1:C,l1:C,m1:C,l0:U | l=2", "i1 j1 k1 l1 m1 l0 j0", 16),
    "CSF of order 5": schedule("mttkrp", "i1:C,k1:C,l1:C,m1:C,n1:C", "i1 j1 k1 l1 m1 n1 j0", 8),
}
"""MTTKRP schedules by the name of their format."""


def order_of(made: SuperSchedule) -> int:
    """Return the order of the tensors that an MTTKRP schedule is for."""
    return len({name[0] for name in made.format.order})


def n_columns(made: SuperSchedule) -> tuple[int, ...]:
    """Return widths to test: zero, below, at and above the tile, with a remainder."""
    tile = made.dense_split("j")
    return (1,) if not tile else tuple(sorted({0, 1, tile, 2 * tile + 7}))


def integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Return random integers from -2 to 2, or complex numbers with such parts."""
    return cases.integers(rng, shape, dtype, 2)


def run_sddmm(of: _native.KernelSpec, taken: cases.Sample, X: Array, Y: Array, n_threads: int) -> Array:
    """Return the generated kernel's result, written over NaN."""
    structure = _native.pack_structure(taken.pattern, of.schedule.format)
    out = np.full(taken.pattern.nnz, np.nan, dtype=taken.data.dtype)
    bound = cases.kernel(of).bind(structure)
    K, values = X.shape[1], taken.data.ctypes.data
    assert bound.run(X.ctypes.data, K, Y.ctypes.data, K, values, out.ctypes.data, K, n_threads)
    return out


def sddmm(taken: cases.Sample, X: Array, Y: Array) -> Array:
    """Return the reference result of NumPy."""
    rows = np.repeat(np.arange(taken.pattern.n_rows), taken.pattern.row_lengths)
    columns = taken.pattern.indices[: taken.pattern.nnz]
    return taken.data * (X[rows] * Y[columns]).sum(axis=1).astype(X.dtype)


def tensor(shape: tuple[int, ...], nnz: int, *, seed: int, index_dtype: str = "int32") -> TensorPattern:
    """Return a pattern with random coordinates, unsorted, some of them repeated."""
    rng = np.random.default_rng(seed)
    count = nnz if min(shape) else 0
    coords = np.stack([rng.integers(0, max(n, 1), count) for n in shape]).astype(index_dtype)
    return TensorPattern(shape, np.ascontiguousarray(coords))


@st.composite
def tensors(draw: st.DrawFn, order: int) -> tuple[TensorPattern, int]:
    """Draw a tensor pattern of small extents, some of them zero, and a mode."""
    shape = tuple(draw(st.integers(0, 7)) for _ in range(order))
    pattern = tensor(shape, draw(st.integers(0, 50)), seed=draw(st.integers(0, 2**16)))
    return pattern, draw(st.integers(0, order - 1))


def run_mttkrp(of: _native.KernelSpec, packed: _native.PackedTensor, factors: Sequence[Array], n_threads: int) -> Array:
    """Return the generated kernel's result, written over NaN; the kernel must report it as exact."""
    n_j = factors[0].shape[1]
    M = np.full((packed.sizes["i"], n_j), np.nan, dtype=factors[0].dtype)
    addresses = [factor.ctypes.data for factor in factors]
    bound = cases.kernel(of).bind(packed)
    assert bound.run(addresses, [n_j] * len(factors), M.ctypes.data, n_j, n_j, n_threads)
    return M


def mttkrp(pattern: TensorPattern, values: Array, factors: Sequence[Array], mode: int) -> Array:
    """Return the reference result of NumPy for the factors of the other modes."""
    others = [other for other in range(pattern.ndim) if other != mode]
    terms = values[:, None] * np.ones((1, factors[0].shape[1]), values.dtype)
    for other, factor in zip(others, factors, strict=True):
        terms = terms * factor[pattern.coords[other]]
    M = np.zeros((pattern.shape[mode], factors[0].shape[1]), values.dtype)
    np.add.at(M, pattern.coords[mode], terms)
    return M


def random_schedule(operation: str, indices: str, rng: np.random.Generator) -> SuperSchedule:
    """Return a random schedule over the sparse operand's `indices` that can be lowered, with small splits."""
    while True:
        splits = {index: int(rng.choice([1, 1, 1, 2, 3])) for index in indices}
        names = [f"{index}1" for index in indices] + [f"{index}0" for index, size in splits.items() if size > 1]
        kinds = rng.choice(["U", "C"], len(names)).tolist()
        levels = [Level(str(name), LevelKind(kind)) for name, kind in zip(rng.permutation(names), kinds, strict=True)]
        fmt = Format.of(levels, splits, index_bits=int(rng.choice([16, 32, 64])))
        tile = int(rng.choice([0, 1, 4, 8, 16, 20]))
        order = list(fmt.order) if rng.random() < 0.7 else rng.permutation(fmt.order).tolist()
        for name in ("j1", "j0") if tile else ():
            order.insert(int(rng.integers(0, len(order) + 1)) if rng.random() < 0.3 else len(order), name)
        made = schedule(
            operation,
            str(fmt),
            " ".join(order),
            tile,
            parallel=str(rng.choice(order)),
            partition=str(rng.choice(["nnz", "dynamic"])),
            chunk=int(rng.choice([1, 2, 32])),
            unroll=int(rng.choice([1, 2, 4, 16])),
            prefetch=int(rng.choice([0, 0, 4])),
        )
        if supports(operation, made) is None:
            return made
