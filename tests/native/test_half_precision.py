"""Tests of half-precision values of A: the error bound, kernels on rounded values, and no rounding unless asked for."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse._native.ir.lower import lower
from autosparse._native.storage import half_precision as halves
from autosparse.tuner.space import spaces

import autosparse
from autosparse import _native, cache
from autosparse.core.formats import STORED_VALUES, Format
from autosparse.core.pattern import Pattern
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import VECTOR_BYTES, Target
from autosparse.errors import PackError, ScheduleError
from tests.covering import covering
from tests.native import cases
from tests.native.interpreter import interpret

LEVELS = (
    ("i1:U,k1:C", "i1 k1", 0, 16),
    ("i1:U,k1:C", "i1 k1", 0, 1),
    ("i1:U,k1:C | bits=16", "i1 k1", 0, 32),
    ("i1:U,k1:C", "i1 j1 k1 j0", 16, 2),
    ("i1:U,k1:C | rows=rcm", "i1 j1 k1 j0", 16, 1),
    ("i1:U,k1:C,i0:U | i=8", "i1 k1 i0", 0, 1),
    ("i1:U,k1:C,i0:U,k0:U | i=2,k=4", "i1 k1 i0 k0", 0, 1),
    ("i1:U,k1:C,i0:U,k0:U | i=3,k=3", "i1 j1 k1 i0 k0 j0", 16, 1),
    ("k1:U,i1:U,k0:C | k=8", "k1 i1 j1 k0 j0", 16, 1),
    ("i1:C,k1:C", "i1 j1 k1 j0", 16, 1),
)


def made_of(kind: str) -> list:
    return [
        cases.schedule(f"{levels} | values={kind}", loops, tile, unroll=unroll)
        for levels, loops, tile, unroll in LEVELS
    ]


def sample_of(seed: int) -> cases.Sample:
    taken = cases.sample(23, 31, [4, 0, 9, 1] * 5 + [7, 2, 0], seed=seed)
    taken.data[:] = np.where(taken.data == 0, 1, taken.data) * 1.0001  # values and their sums round to small integers
    return taken


@pytest.mark.parametrize("kind", STORED_VALUES)
def test_rounding_stays_within_the_bound(kind: str) -> None:
    rng = np.random.default_rng(0)
    fmt = Format.parse(f"i1:U,k1:C | values={kind}")
    values = (rng.standard_normal(10_000) * 10.0 ** rng.integers(-3, 4, 10_000)).astype(np.float32)
    values = values[np.abs(values) > 2.0**-14]  # float16 has fewer digits below this limit
    told = halves.widened(halves.narrowed(values, fmt), fmt)
    assert np.all(np.abs(told - values) <= halves.BOUNDS[kind] * np.abs(values))
    np.testing.assert_array_equal(halves.widened(halves.narrowed(told, fmt), fmt), told)


@pytest.mark.parametrize(
    ("kind", "bad"),
    [*(("bfloat16", bad) for bad in (np.nan, np.inf, 3.4e38)), *(("float16", bad) for bad in (7e4, 1e-9, np.nan))],
)
def test_values_beyond_the_bound_are_refused(kind: str, bad: float) -> None:
    fmt = Format.parse(f"i1:U,k1:C | values={kind}")
    taken = sample_of(1)
    packed = _native.pack(taken.pattern, taken.data, fmt, transposed=False)
    before = packed.values.copy()
    spoilt = taken.data.copy()
    spoilt[3] = bad
    with pytest.raises(PackError, match=kind):
        _native.pack(taken.pattern, spoilt, fmt, transposed=False)
    with pytest.raises(PackError, match=kind):
        packed.refresh(spoilt)
    np.testing.assert_array_equal(packed.values, before)


@covering(kind=STORED_VALUES, isa=["baseline", "avx2", "avx512"], turn=range(3))
def test_kernel_interpreter_and_rounded_reference_agree(kind: str, isa: str, turn: int) -> None:
    if VECTOR_BYTES[isa] > Target.host().vector_bytes:
        pytest.skip(f"no {isa} here")
    rng = np.random.default_rng(2)
    for at, made in list(enumerate(made_of(kind)))[turn::3]:
        taken = sample_of(at)
        packed = _native.pack(taken.pattern, taken.data, made.format, transposed=False)
        n = 16 + 5 if made.dense_split("j") else 1
        B = rng.integers(-3, 4, (taken.pattern.n_cols, n)).astype(np.float32)
        expected = dataclasses.replace(taken, data=np.round(taken.data)).matrix @ B
        spec = cases.spec(made, isa=isa)
        np.testing.assert_array_equal(interpret(spec, packed, B), expected)
        np.testing.assert_array_equal(run(cases.kernel(spec), packed, B), expected)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.full] * (n > 0)) for n, kind in enumerate(STORED_VALUES)]
)
def test_numba_computes_the_same(kind: str) -> None:
    pytest.importorskip("numba", reason="the extra numba is not installed")
    made, taken = made_of(kind)[3], sample_of(7)
    packed = _native.pack(taken.pattern, taken.data, made.format, transposed=False)
    B = np.random.default_rng(3).integers(-3, 4, (taken.pattern.n_cols, 21)).astype(np.float32)
    of = _native.build(cases.spec(made), store=cache.open_store(), compiler="numba")
    np.testing.assert_array_equal(run(of, packed, B), dataclasses.replace(taken, data=np.round(taken.data)).matrix @ B)


def run(of: _native.CompiledKernel, packed: _native.PackedOperand, B: np.ndarray) -> np.ndarray:
    n, C = B.shape[1], np.full((packed.sizes["i"], B.shape[1]), np.nan, np.float32)
    of.bind(packed).run(B.ctypes.data, n, C.ctypes.data, n, n, 2)
    return C


@pytest.mark.parametrize("kind", STORED_VALUES)
def test_small_and_negative_halves_are_widened_by_kernels(kind: str) -> None:
    made = made_of(kind)[0]
    taken = sample_of(5)
    taken.data[:] = (-1.0) ** np.arange(taken.data.size) * 2.0 ** -(np.arange(taken.data.size) % 25)
    packed = _native.pack(taken.pattern, taken.data, made.format, transposed=False)
    B = np.ones((taken.pattern.n_cols, 1), np.float32)
    for isa in ("baseline", None):
        told = run(cases.kernel(cases.spec(made, isa=isa)), packed, B)
        np.testing.assert_allclose(told, taken.matrix @ B, rtol=1e-6)


def test_only_float32_products_support_half_precision_values() -> None:
    made = made_of("bfloat16")[0]
    with pytest.raises(ScheduleError, match="float32"):
        lower(cases.spec(made, "float64"))
    sampled = dataclasses.replace(made, operation="sddmm")
    assert "values=bfloat16" in str(_native.supports("sddmm", sampled))
    with pytest.raises(ScheduleError, match="slices"):
        Format.parse("i1:U,k1:S,i0:U | i=8 | values=float16")


def test_values_are_rounded_only_on_request_and_within_the_bound() -> None:
    A = sp.random_array((300, 400), density=0.05, format="csr", dtype=np.float32, random_state=np.random.default_rng(0))
    x = np.random.default_rng(1).standard_normal(400).astype(np.float32)
    M = autosparse.csr(A, copy=True)
    assert not any(one.format.values for one in space_of(M, ""))
    assert {one.format.values for one in space_of(M, "bfloat16")} == {"", "bfloat16"}
    exact = A @ x
    np.testing.assert_allclose(M @ x, exact, rtol=1e-5, atol=1e-5)
    with autosparse.options(storage="bfloat16", effort="full", budget_s=1.0):
        M.tune("matmul", runs=10**6)
        told = M @ x
    assert np.all(np.abs(told - exact) <= 2.0**-8 * (abs(A) @ np.abs(x)) * 1.01 + 1e-6)
    np.testing.assert_allclose(M @ x, exact, rtol=1e-5, atol=1e-5)


def space_of(M: autosparse.csr_array, storage: str) -> tuple[SuperSchedule, ...]:
    pattern = Pattern(*M.shape, np.array(M.indptr), np.array(M.indices))
    problem = Problem(
        operation="matmul", pattern=pattern, transposed=False, n_dense_cols=1, dtype="float32", threads=1,
        deterministic=False, target=Target.host(), storage=storage,
    )  # fmt: skip
    return spaces.candidates(problem, _native.supports)
