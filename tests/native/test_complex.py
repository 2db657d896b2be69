"""Tests of complex kernels: kernel equals interpreter equals SciPy; what is left to real values is refused."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest
from autosparse._native.kernels.identity import has_numba

from autosparse import _native, cache
from autosparse.core.formats import Format
from autosparse.core.pattern import Pattern
from autosparse.core.schedule import RUNTIME, SuperSchedule
from autosparse.core.target import VECTOR_BYTES, Target
from autosparse.errors import ScheduleError
from autosparse.scalar import COMPLEX
from tests.native import cases
from tests.native.test_kernels import check
from tests.native.test_slices import NUMBERING, SLICED, banded

PLAIN: Final = tuple(made for made in SLICED if made not in NUMBERING)
ISAS: Final = [isa for isa in VECTOR_BYTES if VECTOR_BYTES[isa] <= Target.host().vector_bytes]
EVERY: Final = [
    (*one, n % 3 < 2) for n, one in enumerate(itertools.product((*cases.FAMILY, *PLAIN), COMPLEX, reversed(ISAS)))
]
"""Schedule, dtype, instruction set, and whether gather instructions are used."""
STEP: Final = 11
"""One case in so many is compiled in `make test`."""
ODD: Final = cases.schedule("i1:U,k1:C", "i1 j1 k1 j0", 8)
SLICES: Final = cases.schedule("i1:U,k1:D,i0:U | i=8 | sigma=16 | bits=16", "i1 k1 i0", unroll=4)


def taken(dtype: str, *, seed: int = 4) -> cases.Sample:
    """Return a matrix with empty and long rows."""
    return cases.sample(23, 31, [5] * 10 + [0, 9, 31] + [3] * 10, seed=seed, dtype=dtype)


def on_diagonals(dtype: str) -> cases.Sample:
    """Return a matrix with five full diagonals."""
    made = banded(45, dtype)
    return dataclasses.replace(made, data=made.data * (1 - 2j))


def rows() -> Iterator[Any]:  # Any: parameters of pytest
    for n, one in enumerate(EVERY):
        marks = [pytest.mark.full] * (n % STEP > 0)
        yield pytest.param(*one, id=f"{cases.label(one[0])}-{'-'.join(map(str, one[1:]))}", marks=marks)


@pytest.mark.parametrize(("made", "dtype", "isa", "gathers"), list(rows()))
def test_kernel_equals_interpreter_equals_scipy(made: SuperSchedule, dtype: str, isa: str, gathers: bool) -> None:
    for transposed in (False, True):
        check(made, taken(dtype), transposed=transposed, seed=1, isa=isa)
    check(made, on_diagonals(dtype), transposed=False, seed=2, isa=isa)
    if made.format.is_sliced and not gathers:
        of = dataclasses.replace(cases.spec(made, dtype, isa=isa), gathers=False)
        one = taken(dtype)
        x = cases.integers(np.random.default_rng(0), (31, 1), dtype)
        packed = _native.pack(one.pattern, one.data, made.format, transposed=False)
        np.testing.assert_array_equal(cases.run(of, packed, x, 1)[0], one.matrix @ x)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_operands_need_the_alignment_of_one_part_only(dtype: str) -> None:
    one, part = taken(dtype), np.dtype(dtype).itemsize // 2

    def moved(array: np.ndarray) -> np.ndarray:
        room = np.zeros(array.nbytes + 64 + part, np.uint8)
        at = -room.ctypes.data % 64 + part
        copy = room[at : at + array.nbytes].view(dtype).reshape(array.shape)
        copy[...] = array
        return copy

    for made in (ODD, SLICES, cases.schedule("i1:U,k1:C", "i1 k1", unroll=8)):
        n = 11 if made.dense_split("j") else 1
        B = moved(cases.integers(np.random.default_rng(1), (31, n), dtype))
        C = moved(np.full((23, n), np.nan, dtype))
        packed = _native.pack(one.pattern, moved(one.data), made.format, transposed=False)
        assert cases.kernel(cases.spec(made, dtype)).bind(packed).run(B.ctypes.data, n, C.ctypes.data, n, n, 2)
        assert B.ctypes.data % np.dtype(dtype).itemsize == C.ctypes.data % np.dtype(dtype).itemsize == part
        np.testing.assert_array_equal(C, one.matrix @ B)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("made", [ODD, SLICES], ids=cases.label)
def test_values_that_are_not_finite_are_scipys_or_reported(made: SuperSchedule, dtype: str) -> None:
    """Check that infinities are not recovered from NaN, as the product of complex numbers in C does."""
    bad = [complex(np.inf, 1), complex(1, -np.inf), complex(np.inf, np.nan), complex(np.nan, 0), complex(0, np.inf)]
    for value, is_dense in itertools.product(bad, (False, True)):
        one, B = taken(dtype), cases.integers(np.random.default_rng(5), (31, 3 if made.dense_split("j") else 1), dtype)
        (B[:, 0] if is_dense else one.data)[7] = value
        packed = _native.pack(one.pattern, one.data, made.format, transposed=False)
        C, exact = cases.run(cases.spec(made, dtype), packed, B, 1)
        with np.errstate(invalid="ignore"):
            expected = one.matrix @ B
        assert exact == (np.isfinite(expected).all() or not made.format.has_padding)
        if exact:
            np.testing.assert_array_equal(C.real, expected.real)
            np.testing.assert_array_equal(C.imag, expected.imag)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_thread_count_does_not_change_a_bit(dtype: str) -> None:
    rng = np.random.default_rng(5)
    one = cases.sample(60, 50, rng.integers(0, 30, 60).tolist(), seed=6, dtype=dtype)
    one.data[:] = rng.standard_normal(one.data.size) + 1j * rng.standard_normal(one.data.size)
    for made in (ODD, SLICES):
        B = (rng.standard_normal((50, 13)) + 1j * rng.standard_normal((50, 13))).astype(dtype)
        B = B if made.dense_split("j") else np.ascontiguousarray(B[:, :1])
        packed = _native.pack(one.pattern, one.data, made.format, transposed=False)
        results = [cases.run(cases.spec(made, dtype), packed, B, n_threads)[0] for n_threads in (1, 2, 3)]
        tolerance = 50 * np.finfo(dtype).eps
        np.testing.assert_allclose(results[0], one.matrix @ B, rtol=tolerance, atol=tolerance)
        for other in results[1:]:
            np.testing.assert_array_equal(results[0], other)


@pytest.mark.skipif(not has_numba(), reason="numba is not installed")
@pytest.mark.parametrize("dtype", [pytest.param("complex64", marks=pytest.mark.full), "complex128"])
@pytest.mark.parametrize("made", [SLICES, pytest.param(ODD, marks=pytest.mark.full)], ids=cases.label)
def test_numba_computes_the_same(made: SuperSchedule, dtype: str) -> None:
    one, n = taken(dtype), 11 if made.dense_split("j") else 1
    packed = _native.pack(one.pattern, one.data, made.format, transposed=False)
    kernel = _native.build(cases.spec(made, dtype), store=cache.open_store(), compiler="numba")
    B, C = cases.integers(np.random.default_rng(1), (31, n), dtype), np.full((23, n), np.nan, dtype)
    assert kernel.bind(packed).run(B.ctypes.data, n, C.ctypes.data, n, n, 2)
    np.testing.assert_array_equal(C, one.matrix @ B)
    B[3] = complex(1, np.inf)
    assert not made.format.has_padding or not kernel.bind(packed).run(B.ctypes.data, n, C.ctypes.data, n, n, 2)


def test_what_is_generated_for_real_values_only_is_refused() -> None:
    sampled = SuperSchedule(
        operation="sddmm", format=Format.parse("i1:U,k1:C"), loop_order=("i1", "k1", "j1", "j0"),
        dense_splits=(("j", 8),),
    )  # fmt: skip
    ready = SuperSchedule(format=Format.parse("i1:U,k1:C"), loop_order=("i1", "k1"), implementation=RUNTIME)
    for dtype in COMPLEX:
        assert "complex" in str(_native.reason_not_of_type(ready, dtype))
        for made, spec in ((sampled, "sddmm"), (NUMBERING[0], "matmul")):
            assert dtype in str(_native.reason_not_of_type(made, dtype))
            with pytest.raises(ScheduleError, match=dtype):
                cases.kernel(_native.KernelSpec(spec, made, dtype, "int32", "baseline"))
    assert _native.reason_not_of_type(NUMBERING[0], "float64") is None
    assert "int64" in str(_native.reason_not_of_type(ODD, "int64"))


def test_packed_copies_take_new_values() -> None:
    for dtype, made in itertools.product(COMPLEX, (SLICES, cases.SPMM[7], cases.SPMM[8], cases.SPMM[11])):
        one = taken(dtype)
        packed = _native.pack(one.pattern, one.data, made.format, transposed=True)
        fresh = one.data * (1 + 3j)
        packed.refresh(fresh)
        again = _native.pack(
            Pattern(*one.pattern.shape, one.pattern.indptr, one.pattern.indices), fresh, made.format, transposed=True
        )
        np.testing.assert_array_equal(packed.values, again.values)
