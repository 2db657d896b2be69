"""Tests that kernel, interpreter and reference agree to the last bit for every schedule of every space.

Schedules are drawn from WACO's template and from our own space, for all four algorithms. Each kernel is run under
several sets of run-time arguments (partition, chunk, threads), each on another pattern. Values are small integers, so
that every order of summation gives the same number. ``--full`` runs more than 20,000 schedules and reports the time.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from autosparse._native.c.emit import emit
from autosparse.tuner.research.collect.sampling import KernelPool, with_run_time
from autosparse.tuner.research.space.waco import waco_space
from autosparse.tuner.space.own import own_space
from autosparse.tuner.space.template import TemplateSpace

from autosparse import _native, cache, config
from autosparse.core.formats import LevelKind
from autosparse.core.pattern import TensorPattern
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import VECTOR_BYTES, Target
from autosparse.errors import BuildError, PackError
from tests.native import cases, operands
from tests.native.interpreter import interpret, interpret_mttkrp, interpret_sddmm

SPACES: dict[str, Callable[[], TemplateSpace]] = {
    f"{make.__name__}-{algorithm}": lambda make=make, algorithm=algorithm: make(algorithm, threads=(1, 2))
    for algorithm in ("spmv", "spmm", "sddmm", "mttkrp")
    for make in (waco_space, own_space)
}
PER_KERNEL = 5
"""Number of schedules that share a kernel."""
FEW = 3
"""Kernels per space in `make test`: 120 schedules in total."""
MANY = 26
"""Kernels per space and shard with ``--full``."""
SHARDS = 20
"""Number of shards with ``--full``: 20,800 schedules in total."""
MAX_WORK = 4000
"""Maximum number of iterations for the interpreter."""
MAX_ALONE = 400
"""Maximum number of iterations for the interpreter where no kernel is compiled."""
LONG_TEXT = 500
"""Lines of C above which three of four kernels are left out, because they take seconds to compile."""
MAX_BYTES = 1 << 20
TYPES = (("float32", "int32"), ("float64", "int64"))
COMPLEX = ("complex64", "complex128")
"""Types of every fourth kernel of products of matrices, which `make test` does not reach."""


@dataclass(frozen=True)
class Run:
    """Schedule with its types and the seed of its operands."""

    spec: _native.KernelSpec
    seed: int


def drawn(name: str, n_kernels: int, seed: int) -> Iterator[Run]:
    """Yield PER_KERNEL schedules for each of `n_kernels` kernels."""
    rng = np.random.default_rng([seed, *name.encode()])
    isas = [isa for isa in VECTOR_BYTES if VECTOR_BYTES[isa] <= Target.host().vector_bytes]

    def spec_of(made: SuperSchedule, at: int) -> _native.KernelSpec:
        dtype, index_dtype = TYPES[at % 2]
        if made.operation == "matmul" and at % 4 == 3:
            dtype = COMPLEX[at // 4 % 2]
        isa = isas[-1] if at % 4 else isas[at // 4 % len(isas)]
        of = operands.spec(made, dtype, index_dtype, isa, deterministic=at % 8 == 1)
        return dataclasses.replace(of, gathers=at % 3 > 0)

    def suits(operation: str, made: SuperSchedule) -> str | None:
        reason = _native.supports(operation, made)
        if reason or not is_small(made):
            return reason or "too much work on any pattern here"
        is_long = emit(spec_of(made, 0)).count("\n") > LONG_TEXT
        return "long" if is_long and rng.random() < 0.75 else None

    space = SPACES[name]()
    for at, member in enumerate(KernelPool(space, n_kernels, seed=seed, supports=suits).members):
        variants = [member, *(with_run_time(space, member, rng) for _ in range(PER_KERNEL - 1))]
        for number, made in enumerate(variants):
            yield Run(spec_of(made, at), int(rng.integers(1 << 30)) + number)


def is_small(made: SuperSchedule) -> bool:
    """Return whether blocks that are stored or walked whole have at most 256 cells."""
    cells = 1
    for level in made.format.levels:
        if level.kind is LevelKind.UNCOMPRESSED and level.coordinate.endswith("0"):
            cells *= made.format.split(level.coordinate[0])
    order = made.loop_order
    loose = [name for name in order if name.endswith("0") and order.index(name) < order.index(f"{name[0]}1")]
    walked = math.prod(made.format.split(name[0]) for name in loose if name[0] != "j")
    return cells <= 256 and walked <= 256


def matmul(run: Run, kernel: _native.CompiledKernel | None) -> bool:
    """Check C = op(A) B; return False where the pattern does not suit the format."""
    spec, rng = run.spec, np.random.default_rng(run.seed)
    taken, transposed = matrix(spec, rng), bool(rng.integers(2))
    if not cases.fits(spec.schedule, taken, transposed=transposed):
        return False
    if _native.packed_bytes(taken.pattern, spec.schedule.format, 8, transposed=transposed) > MAX_BYTES:
        return False
    packed = _native.pack(taken.pattern, taken.data, spec.schedule.format, transposed=transposed)
    operand, n = taken.matrix.T if transposed else taken.matrix, columns(spec.schedule, rng)
    B = operands.integers(rng, (operand.shape[1], n), spec.dtype)
    if kernel is not None:
        C = np.full((operand.shape[0], n), np.nan, dtype=spec.dtype)
        assert kernel.bind(packed).run(B.ctypes.data, n, C.ctypes.data, n, n, 2)
        np.testing.assert_array_equal(C, operand @ B)
    return _equals(run, kernel, (packed, n), lambda: interpret(spec, packed, B, 2), operand @ B)


def sddmm(run: Run, kernel: _native.CompiledKernel | None) -> bool:
    """Check O = A ∘ (X Yᵀ); return False where the pattern does not suit the format."""
    spec, rng = run.spec, np.random.default_rng(run.seed)
    taken = matrix(spec, rng)
    if _native.reason_unfit(taken.pattern, spec.schedule.format, transposed=False):
        return False
    if _native.packed_bytes(taken.pattern, spec.schedule.format, 8, transposed=False) > MAX_BYTES:
        return False
    structure, n = _native.pack_structure(taken.pattern, spec.schedule.format), columns(spec.schedule, rng)
    X, Y = (operands.integers(rng, (extent, n), spec.dtype) for extent in taken.pattern.shape)
    out = np.full(taken.pattern.nnz, np.nan, dtype=spec.dtype)
    expected = operands.sddmm(taken, X, Y)
    if kernel is not None:
        addresses = (X.ctypes.data, n, Y.ctypes.data, n, taken.data.ctypes.data, out.ctypes.data)
        assert kernel.bind(structure).run(*addresses, n, 2)
        np.testing.assert_array_equal(out, expected)
    interpreted = lambda: interpret_sddmm(spec, structure, taken.data, X, Y, n_threads=2)  # noqa: E731
    return _equals(run, kernel, (structure, n), interpreted, expected)


def mttkrp(run: Run, kernel: _native.CompiledKernel | None) -> bool:
    """Check M[i,j] = sum T[i,k,l] B[k,j] C[l,j]; return False where the pattern does not suit the format."""
    spec, rng = run.spec, np.random.default_rng(run.seed)
    pattern, mode, n = tensor(spec, rng), int(rng.integers(3)), columns(spec.schedule, rng)
    values = operands.integers(rng, (pattern.nnz,), spec.dtype)
    if _native.tensor_bytes(pattern, spec.schedule.format, 8, mode) > MAX_BYTES:
        return False
    try:
        packed = _native.pack_tensor(pattern, values, spec.schedule.format, mode)
    except PackError:
        return False
    factors = [operands.integers(rng, (e, n), spec.dtype) for at, e in enumerate(pattern.shape) if at != mode]
    M = np.full((pattern.shape[mode], n), np.nan, dtype=spec.dtype)
    expected = operands.mttkrp(pattern, values, factors, mode)
    if kernel is not None:
        sources = [factor.ctypes.data for factor in factors]
        assert kernel.bind(packed).run(sources, [n] * len(factors), M.ctypes.data, n, n, 2)
        np.testing.assert_array_equal(M, expected)
    return _equals(run, kernel, (packed, n), lambda: interpret_mttkrp(spec, packed, factors, 2), expected)


def _equals(
    run: Run, kernel: object, product: tuple[object, int], interpreted: Callable[[], np.ndarray], expected: np.ndarray
) -> bool:
    """Compare the interpreter's result, unless it visits too many cells; return whether kernel or interpreter ran.

    `product` is (packed operand, number of columns). Without a kernel, results of zeros alone are left out.
    """
    if kernel is None and not expected.any():
        return False
    n_cells = work(run.spec.schedule, *product)
    if n_cells <= (MAX_WORK if kernel is not None else MAX_ALONE):
        np.testing.assert_array_equal(interpreted(), expected)
        return True
    return kernel is not None


CHECKS = {"matmul": matmul, "sddmm": sddmm, "mttkrp": mttkrp}


def matrix(spec: _native.KernelSpec, rng: np.random.Generator) -> cases.Sample:
    """Return a random matrix: empty, 0 x n, hyper-sparse, with one dense row, dense, tall or wide."""
    n_rows, n_cols = (int(n) for n in rng.choice((0, 1, 3, 9, 17, 40), 2, p=(0.04, 0.1, 0.16, 0.3, 0.3, 0.1)))
    kind = rng.choice(("sparse", "one dense row", "empty", "dense"), p=(0.6, 0.15, 0.05, 0.2))
    lengths = rng.integers(0, 4, n_rows) if kind == "sparse" else np.zeros(n_rows, dtype=int)
    if kind == "dense":
        lengths[:] = n_cols
    if kind == "one dense row" and n_rows:
        lengths[rng.integers(n_rows)] = 2 * n_cols
    seed = int(rng.integers(1 << 30))
    return cases.sample(n_rows, n_cols, lengths.tolist(), seed=seed, dtype=spec.dtype, index_dtype=spec.index_dtype)


def tensor(spec: _native.KernelSpec, rng: np.random.Generator) -> TensorPattern:
    """Return a tensor pattern of small extents, some of them zero."""
    shape = tuple(int(n) for n in rng.choice((0, 1, 2, 5, 8), 3, p=(0.03, 0.12, 0.15, 0.35, 0.35)))
    return operands.tensor(shape, int(rng.integers(0, 40)), seed=int(rng.integers(1 << 30)))


def columns(made: SuperSchedule, rng: np.random.Generator) -> int:
    """Return a number of columns below, at or above the tile."""
    tile = made.dense_split("j")
    return int(rng.choice((1, max(1, tile - 1), tile, tile + 1, min(2 * tile + 7, 80)))) if tile else 1


def work(made: SuperSchedule, packed: object, n_columns: int) -> float:
    """Return the approximate number of cells that the interpreter visits.

    It counts stored positions where loops follow the levels, and whole extents elsewhere. Positions found by a search
    count too; an empty loop counts as one.
    """
    fmt, total, bound = made.format, 1.0, set[str]()
    positions = dict(zip(fmt.order, packed.n_positions, strict=True))  # type: ignore[attr-defined]  # any packed one
    for name in made.loop_order:
        if name not in fmt.order:
            continue
        above = fmt.order[: fmt.order.index(name)]
        outer = positions[above[-1]] if above else 1
        split, n = fmt.split(name[0]), packed.sizes[name[0]]  # type: ignore[attr-defined]
        extent = split if name.endswith("0") else -(-n // split)
        total *= max(1.0, positions[name] / max(1, outer) if bound == set(above) else extent)
        bound.add(name)
    return max(total, positions[fmt.order[-1]]) * n_columns


def built(specs: dict[str, _native.KernelSpec]) -> dict[str, _native.CompiledKernel | BuildError]:
    """Build kernels and return them by key; those that exceeded the time limit are tried once more."""
    store, compiler = cache.open_store(), config.get_options().compiler
    found = dict(zip(specs, _native.build_many(list(specs.values()), store=store, compiler=compiler), strict=True))
    slow = [key for key, kernel in found.items() if isinstance(kernel, BuildError) and "took more" in str(kernel)]
    again = _native.build_many([specs[key] for key in slow], store=store, compiler=compiler)
    return found | dict(zip(slow, again, strict=True))


def check(name: str, n_kernels: int, seed: int) -> int:
    """Run drawn schedules; return how many were run."""
    runs = list(drawn(name, n_kernels, seed))
    index = {"mttkrp": "int32"}  # index dtype of small tensors
    runs = [Run(_with_index(run.spec, index.get(run.spec.operation)), run.seed) for run in runs]
    kernels = built({run.spec.key(): run.spec for run in runs})
    n_run = 0
    for run in runs:
        kernel = kernels[run.spec.key()]
        assert isinstance(kernel, _native.CompiledKernel), f"{kernel}\n{run.spec.schedule.to_json()}"
        same = _native.CompiledKernel(run.spec, kernel.path, kernel.address, kernel.needs_sorted, kernel.library)
        try:
            tries = (Run(run.spec, run.seed + step) for step in range(0, 1000, 100))
            n_run += any(CHECKS[run.spec.operation](one, same) for one in tries)
        except AssertionError as err:
            err.add_note(f"seed {run.seed}, {run.spec.dtype}, {run.spec.isa}: {run.spec.schedule.to_json()}")
            raise
    return n_run


def _with_index(spec: _native.KernelSpec, index_dtype: str | None) -> _native.KernelSpec:
    return dataclasses.replace(spec, index_dtype=index_dtype or spec.index_dtype)


@pytest.mark.parametrize("name", SPACES)
def test_every_schedule_equals_interpreter_and_reference(name: str) -> None:
    assert check(name, FEW, seed=0) == FEW * PER_KERNEL


@pytest.mark.parametrize("n", [50, pytest.param(250, marks=pytest.mark.full)])
@pytest.mark.parametrize("algorithm", ["spmv", "spmm", "sddmm", "mttkrp"])
def test_a_thousand_schedules_of_wacos_space_give_the_product(algorithm: str, n: int) -> None:
    """Interpret `n` schedules drawn from Table 3 of the paper, and check that every one drawn can be lowered."""
    space, rng, n_run = waco_space(algorithm, threads=(1, 2)), np.random.default_rng(5), 0
    while n_run < n:
        made = space.sample(rng)
        assert _native.supports(made.operation, made) is None, made.to_json()
        if not is_small(made):
            continue
        dtype, index_dtype = TYPES[n_run % 2]
        spec = operands.spec(made, dtype, "int32" if algorithm == "mttkrp" else index_dtype, "baseline")
        tries = (Run(spec, int(rng.integers(1 << 30))) for _ in range(10))
        n_run += any(CHECKS[made.operation](one, None) for one in tries)


@pytest.mark.full
@pytest.mark.parametrize("shard", range(1, SHARDS + 1))
@pytest.mark.parametrize("name", SPACES)
def test_twenty_thousand_schedules(name: str, shard: int, capsys: pytest.CaptureFixture[str]) -> None:
    start_s = time.perf_counter()
    n_run = check(name, MANY, seed=shard)
    with capsys.disabled():
        print(f"\n  {name} shard {shard}/{SHARDS}: {n_run} schedules, {time.perf_counter() - start_s:.1f} s", end="")
    assert n_run > 0.95 * MANY * PER_KERNEL
