"""Matrices and schedules for the tests of generated kernels."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from autosparse._native.ir.lower import supports
from hypothesis import strategies as st
from numpy.typing import NDArray

from autosparse import _native, cache, config
from autosparse.core.formats import Format, Level, LevelKind
from autosparse.core.pattern import Pattern
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import Target
from autosparse.errors import ScheduleError


def schedule(fmt: str, loops: str, tile: int = 0, **fields: Any) -> SuperSchedule:
    """Return a matmul schedule; `tile` columns where there is a column loop."""
    splits = (("j", tile),) if tile else ()
    return SuperSchedule(format=Format.parse(fmt), loop_order=tuple(loops.split()), dense_splits=splits, **fields)


def label(made: SuperSchedule) -> str:
    """Return a short name for test ids."""
    return f"{made.format} loops {' '.join(made.loop_order)} {made.dense_split('j')} u{made.unroll}"


SPMV = (
    schedule("i1:U,k1:C", "i1 k1"),
    schedule("i1:U,k1:C", "i1 k1", unroll=2, prefetch=3),
    schedule("i1:U,k1:C", "i1 k1", unroll=8),
    schedule("i1:U,k1:C", "i1 k1", unroll=16),
    schedule("i1:U,k1:C", "i1 k1", unroll=32, partition="dynamic", chunk=3),
    schedule("i1:U,k1:C | bits=16", "i1 k1", unroll=16),
    schedule("i1:C,k1:C", "i1 k1", unroll=4),
    schedule("i1:U,k1:C,i0:U | i=8", "i1 k1 i0", unroll=2),
    schedule("i1:U,k1:C,k0:U | k=4", "i1 k1 k0"),
    schedule("i1:U,k1:C,i0:U,k0:U | i=2,k=4", "i1 k1 i0 k0"),
    schedule("i1:U,k1:C,i0:U,k0:U | i=3,k=3", "i1 k1 i0 k0", unroll=4),
    schedule("i1:U,k1:C,k0:U,i0:U | i=4,k=4", "i1 k1 k0 i0"),
    schedule("k1:U,i1:U,k0:C | k=8 | bits=16", "k1 i1 k0", unroll=8),
    schedule("k1:U,i1:C", "k1 i1", parallel="i1"),  # CSC: each iteration adds to many rows
    schedule("k1:C,i1:U", "i1 k1"),  # discordant: columns are searched
)
SPMM = (
    schedule("i1:U,k1:C", "i1 j1 k1 j0", 32),
    schedule("i1:U,k1:C", "i1 j1 k1 j0", 8, unroll=2, prefetch=4, partition="dynamic", chunk=2),
    schedule("i1:U,k1:C", "i1 j1 k1 j0", 24),
    schedule("i1:U,k1:C", "i1 j1 k1 j0", 1),
    schedule("i1:U,k1:C", "j1 i1 k1 j0", 16, parallel="j1"),
    schedule("i1:U,k1:C", "j0 i1 k1 j1", 4),
    schedule("i1:U,k1:C | bits=16", "i1 j1 k1 j0", 16),
    schedule("i1:U,k1:C,i0:U | i=4", "i1 j1 k1 i0 j0", 16),
    schedule("i1:U,k1:C,i0:U,k0:U | i=4,k=2", "i1 j1 k1 i0 k0 j0", 16, unroll=2, prefetch=2),
    schedule("i1:U,k1:C,i0:U,k0:U | i=3,k=3 | bits=16", "i1 j1 k1 k0 i0 j0", 32),
    schedule("i1:U,k1:C,i0:U,k0:U | i=4,k=2", "i1 i0 k1 j1 k0 j0", 16),
    schedule("k1:U,i1:U,k0:C | k=8 | bits=16", "k1 i1 j1 k0 j0", 32),
    schedule("k1:U,i1:U,k0:C | k=8", "i1 j1 k1 k0 j0", 32, prefetch=2),
    schedule("i1:C,k1:C", "i1 j1 k1 j0", 16),
    schedule("k1:U,i1:C", "k1 i1 j1 j0", 16, parallel="j1"),
    schedule("i1:U,k1:U", "i1 j1 k1 j0", 16),
)
FAMILY = SPMV + SPMM


@dataclass(frozen=True)
class Sample:
    """Matrix as CSR arrays with small integers as values, for which products are exact in any order of summation."""

    pattern: Pattern
    data: NDArray[Any]

    @property
    def matrix(self) -> sp.csr_array:
        """Matrix as a SciPy array."""
        return sp.csr_array((self.data, self.pattern.indices, self.pattern.indptr), shape=self.pattern.shape)


def integers(rng: np.random.Generator, shape: int | tuple[int, ...], dtype: str, most: int = 3) -> NDArray[Any]:
    """Return integers from -most to most, or complex numbers with such parts."""
    found = rng.integers(-most, most + 1, shape).astype(dtype)
    if found.dtype.kind == "c":
        found.imag = rng.integers(-most, most + 1, shape)
    return found


def sample(
    n_rows: int, n_cols: int, lengths: Sequence[int], *, seed: int, dtype: str = "float32", index_dtype: str = "int32"
) -> Sample:
    """Return rows of the given lengths with random columns: unsorted, repeated, explicit zeros among the values."""
    rng = np.random.default_rng(seed)
    wanted = np.asarray(lengths if n_cols else [0] * n_rows, dtype=np.int64)
    indptr = np.concatenate([[0], np.cumsum(wanted)]).astype(index_dtype)
    nnz = int(indptr[-1])
    indices = rng.integers(0, max(n_cols, 1), nnz).astype(index_dtype)
    data = integers(rng, nnz, dtype)
    return Sample(Pattern(n_rows, n_cols, indptr, indices), data)


@st.composite
def samples(draw: st.DrawFn, *, dtype: str, index_dtype: str, most: int = 40) -> Sample:
    """Draw a matrix: empty, hyper-sparse, with one dense row, or dense; tall or wide."""
    n_rows = draw(st.integers(0, most))
    n_cols = draw(st.integers(0, most))
    kind = draw(st.sampled_from(["sparse", "one dense row", "empty", "dense"]))
    seed = draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 4, n_rows) if kind == "sparse" else np.zeros(n_rows, dtype=int)
    if kind == "dense":
        lengths[:] = 2 * n_cols // 3
    if kind == "one dense row" and n_rows:
        lengths[rng.integers(n_rows)] = 2 * n_cols
    return sample(n_rows, n_cols, lengths.tolist(), seed=seed, dtype=dtype, index_dtype=index_dtype)


def random_schedule(rng: np.random.Generator) -> SuperSchedule:
    """Return a random legal matmul schedule of WACO's template with small splits and our additional parameters."""
    while True:
        splits = {index: int(rng.choice([1, 1, 2, 3, 4, 8])) for index in "ik"}
        names = [f"{index}1" for index in splits] + [f"{index}0" for index, size in splits.items() if size > 1]
        kinds = rng.choice(["U", "C"], len(names)).tolist()
        levels = [Level(str(name), LevelKind(kind)) for name, kind in zip(rng.permutation(names), kinds, strict=True)]
        fmt = Format.of(levels, splits, index_bits=int(rng.choice([16, 32, 64])))
        tile = int(rng.choice([0, 1, 4, 8, 16, 20]))
        loops = [*names, *(["j1", "j0"] if tile else [])]
        order = rng.permutation(loops).tolist() if rng.random() < 0.5 else _concordant(fmt, tile, rng)
        made = schedule(
            str(fmt),
            " ".join(order),
            tile,
            parallel=str(rng.choice([name for name in order if name[0] in "ij"])),
            partition=str(rng.choice(["nnz", "dynamic"])),
            chunk=int(rng.choice([1, 2, 32])),
            unroll=int(rng.choice([1, 2, 4, 16])),
            prefetch=int(rng.choice([0, 0, 4])),
        )
        if supports("matmul", made) is None:
            return made


def _concordant(fmt: Format, tile: int, rng: np.random.Generator) -> list[str]:
    order = list(fmt.order)
    if tile:
        order.insert(int(rng.integers(0, len(order) + 1)), "j1")
        order.append("j0")
    return order


def spec(
    made: SuperSchedule, dtype: str = "float32", index_dtype: str = "int32", isa: str | None = None
) -> _native.KernelSpec:
    """Return the kernel spec of a schedule for this machine."""
    return _native.KernelSpec("matmul", made, dtype, index_dtype, isa or Target.host().isa)


@functools.cache
def kernel(of: _native.KernelSpec) -> _native.CompiledKernel:
    """Return the built kernel of a spec; it is built once per process."""
    return _native.build(of, store=cache.open_store(), compiler=config.get_options().compiler)


def n_columns(made: SuperSchedule) -> tuple[int, ...]:
    """Return widths below, at and above the tile, with remainders; 1 where there is no column loop."""
    tile = made.dense_split("j")
    return (1,) if not tile else tuple(sorted({1, tile, tile + 1, 2 * tile + 7, 70}))


def fits(made: SuperSchedule, taken: Sample, *, transposed: bool) -> bool:
    """Return whether the pattern can be packed."""
    try:
        return _native.reason_unfit(taken.pattern, made.format, transposed=transposed) is None
    except ScheduleError:
        return False


def run(
    of: _native.KernelSpec, packed: _native.PackedOperand, B: NDArray[Any], n_threads: int
) -> tuple[NDArray[Any], bool]:
    """Return the generated kernel's product, written over NaN, and whether the kernel reports it as exact."""
    C = np.full((packed.sizes["i"], B.shape[1]), np.nan, dtype=B.dtype)
    bound = kernel(of).bind(packed)
    exact = bound.run(B.ctypes.data, B.shape[1], C.ctypes.data, B.shape[1], B.shape[1], n_threads)
    return C, exact
