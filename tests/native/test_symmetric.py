"""Tests of symmetric storage: one triangle gives the same product; other matrices are refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse.tuner.features.statistics import seems_symmetric
from autosparse.tuner.space import families as space
from autosparse.tuner.space import spaces

from autosparse import _native, cache
from autosparse.core.formats import Format
from autosparse.core.pattern import Pattern
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import VECTOR_BYTES, Target
from autosparse.errors import PackError, ScheduleError
from tests.covering import in_turn
from tests.native import cases
from tests.native.interpreter import interpret

MADE = (
    cases.schedule("i1:U,k1:C | symmetric=1", "i1 k1"),
    cases.schedule("i1:U,k1:C | symmetric=1", "i1 k1", unroll=4, partition="dynamic", chunk=3),
    cases.schedule("i1:U,k1:C | symmetric=1 | bits=16", "i1 j1 k1 j0", 16, unroll=2, prefetch=4),
    cases.schedule("i1:U,k1:C | symmetric=1", "i1 j1 k1 j0", 32),
    cases.schedule("i1:U,k1:C | symmetric=1", "i1 j1 k1 j0", 1),
    cases.schedule("i1:U,k1:C | symmetric=1 | values=float16", "i1 k1", unroll=2),
)
SIZES = (0, 1, 7, 40)


def symmetric(
    n: int, dtype: str = "float32", index_dtype: str = "int32", *, seed: int = 0
) -> tuple[Pattern, np.ndarray]:
    """Return a random symmetric pattern with unsorted rows, and small integers as values."""
    A = sp.random_array((n, n), density=0.2, format="coo", random_state=np.random.default_rng(seed))
    A.data[:] = np.random.default_rng(seed).integers(1, 4, A.nnz)
    A = sp.csr_array(A + A.T, dtype=dtype)
    A = sp.csr_array((A.data, A.indices.astype(index_dtype), A.indptr.astype(index_dtype)), shape=A.shape)
    for row in range(n):
        part = slice(A.indptr[row], A.indptr[row + 1])
        A.indices[part], A.data[part] = A.indices[part][::-1].copy(), A.data[part][::-1].copy()
    return Pattern(n, n, A.indptr, A.indices), A.data


def dense_of(pattern: Pattern, data: np.ndarray) -> np.ndarray:
    return sp.csr_array((data, pattern.indices, pattern.indptr), shape=pattern.shape).toarray()


def check(of: _native.CompiledKernel | None, spec: _native.KernelSpec, dtype: str, index_dtype: str) -> None:
    for seed, n in enumerate(SIZES):
        pattern, data = symmetric(n, dtype, index_dtype, seed=seed)
        packed = _native.pack(pattern, data, spec.schedule.format, transposed=bool(seed % 2))
        assert packed.values.size == (pattern.nnz + np.count_nonzero(dense_of(pattern, data).diagonal())) // 2
        assert packed.nbytes <= _native.packed_bytes(pattern, spec.schedule.format, data.itemsize, transposed=False)
        for width in (1,) if not spec.schedule.dense_split("j") else (1, 5, 32, 53):
            B = np.random.default_rng(seed).integers(-3, 4, (n, width)).astype(dtype)
            expected = dense_of(pattern, data) @ B
            np.testing.assert_array_equal(interpret(spec, packed, B, 2), expected)
            for threads in (1, 2, 3) if of is not None else ():
                C = np.full((n, width), np.nan, dtype)
                of.bind(packed).run(B.ctypes.data, width, C.ctypes.data, width, width, threads)
                np.testing.assert_array_equal(C, expected)


@in_turn(
    "made",
    "isa",
    first=MADE,
    second=[isa for isa in VECTOR_BYTES if VECTOR_BYTES[isa] <= Target.host().vector_bytes],
    label=cases.label,
)
def test_kernel_equals_interpreter_equals_scipy(made: SuperSchedule, isa: str) -> None:
    dtype, index_dtype = ("float32", "int32") if made.format.values or isa != "avx2" else ("float64", "int64")
    spec = cases.spec(made, dtype, index_dtype, isa)
    check(cases.kernel(spec), spec, dtype, index_dtype)


@pytest.mark.parametrize("made", [MADE[1], pytest.param(MADE[2], marks=pytest.mark.full)], ids=cases.label)
def test_numba_computes_the_same(made: SuperSchedule) -> None:
    pytest.importorskip("numba", reason="the extra numba is not installed")
    spec = cases.spec(made)
    check(_native.build(spec, store=cache.open_store(), compiler="numba"), spec, "float32", "int32")


def test_packing_is_inverted_and_refreshed() -> None:
    pattern, data = symmetric(30)
    packed = _native.pack(pattern, data, MADE[0].format, transposed=False)
    indptr, indices, values = packed.unpack()
    told = sp.csr_array((values, indices, indptr), shape=(30, 30)).toarray()
    np.testing.assert_array_equal(told, dense_of(pattern, data))
    packed.refresh(2 * data)
    np.testing.assert_array_equal(
        packed.values, 2 * _native.pack(pattern, data, MADE[0].format, transposed=False).values
    )


@pytest.mark.parametrize("spoil", ["value", "nan", "entry", "shape"])
def test_nonsymmetric_matrices_are_refused(spoil: str) -> None:
    pattern, data = symmetric(30)
    if spoil in ("value", "nan"):
        off = np.flatnonzero(pattern.indices != np.repeat(np.arange(30), pattern.row_lengths))[0]
        data[off] = np.nan if spoil == "nan" else data[off] + 1
    elif spoil == "entry":
        A = sp.csr_array(np.triu(dense_of(pattern, data)).astype(np.float32))
        pattern, data = Pattern(30, 30, A.indptr, A.indices), A.data
    else:
        pattern = Pattern(30, 31, pattern.indptr, pattern.indices)
    with pytest.raises(PackError):
        _native.pack(pattern, data, MADE[0].format, transposed=False)


def test_symmetric_storage_requires_rows_in_order() -> None:
    for text in ("i1:C,k1:C | symmetric=1", "k1:U,i1:C | symmetric=1", "i1:U,k1:C | rows=rcm | symmetric=1"):
        with pytest.raises(ScheduleError, match="symmetric"):
            Format.parse(text)
    assert "loops" in str(_native.supports("matmul", cases.schedule("i1:U,k1:C | symmetric=1", "j1 i1 k1 j0", 16)))
    for made in MADE:
        assert Format.parse(str(made.format)) == made.format
        assert SuperSchedule.from_json(made.to_json()) == made


def test_no_search_proposes_symmetric_storage() -> None:
    pattern, _ = symmetric(40)
    assert seems_symmetric(pattern)
    lower = sp.csr_array(np.tril(np.ones((40, 40))))
    assert not seems_symmetric(Pattern(40, 40, lower.indptr, lower.indices))
    found = space._space(space.Outline("matmul", 16, (), 1 << 20, is_streaming=True), _native.supports, True)
    assert found
    assert not any(one.format.symmetric for one in found)
    assert spaces.space_signature("matmul")
