"""Tests of compressed rows that are selected by slices and by arrays of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse.errors import StructureError
from autosparse.light import selection
from tests.native.hooks import on_several_threads
from tests.scipy_versions import IS_RECENT

N, M = 23, 17
SLICES = [
    slice(3, 9), slice(0, 9), slice(9, None), slice(None, -4), slice(-5, None), slice(5, 5), slice(9, 3), slice(40, 50),
    slice(-90, 4), slice(4, 90), slice(None), slice(0, N), slice(3, 9, 1), slice(3, 9, 2), slice(9, 3, -1),
    slice(np.int64(3), np.int32(9)), slice(0, 1), slice(N - 1, N), slice(None, None, 2), slice(None, None, -3),
    slice(-2, None, -1), slice(3, 4, 2), slice(9, 3, 2), slice(1, None, np.int64(5)), slice(0, 90, 90),
]  # fmt: skip
KINDS = [sps.csr_array, sps.csc_array, sps.csr_matrix, sps.csc_matrix]


def plain(kind: Any = sps.csr_array, dtype: str = "float64") -> Any:
    rng = np.random.default_rng(0)
    return kind((sps.random_array((N, M), density=0.3, random_state=rng) * 9).astype(dtype))


def ours(m: Any) -> Any:
    return (asp.csr if m.format == "csr" else asp.csc)(m)


def same(found: Any, expected: Any, kind: type) -> None:
    """Assert that a matrix of class `kind` has the arrays of `expected`, bit by bit."""
    assert type(found) is kind
    assert found.shape == expected.shape
    for name in ("indptr", "indices", "data"):
        ours, scipys = getattr(found, name), getattr(expected, name)
        assert ours.dtype == scipys.dtype
        assert ours.tobytes() == scipys.tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int64", "bool"])
@pytest.mark.parametrize("rows", SLICES, ids=str)
def test_slices_are_scipys(kind: Any, dtype: str, rows: slice) -> None:
    m = plain(kind, dtype)
    A = ours(m)
    for key in (rows, (rows, slice(None)), (slice(None), rows), (rows, slice(2, 9)), (slice(None), slice(None))):
        same(A[key], m[key], type(A))
        x = np.ones(m[key].shape[1], dtype)
        np.testing.assert_allclose(A[key] @ x, m[key] @ x, rtol=1e-5)
        y = np.ones(m[key].shape[0], dtype)
        np.testing.assert_allclose(A[key].T @ y, m[key].T @ y, rtol=1e-5)


OTHERS = [slice("a", 3), slice(1.5, 3), (slice(1, 3), slice("a", None)), (1, slice(None)), (slice(1, 3),) * 3]


@pytest.mark.parametrize("key", OTHERS, ids=str)
def test_other_keys_are_scipys(key: Any) -> None:
    m = plain()
    try:
        expected = m[key]
    except (TypeError, IndexError, NotImplementedError) as error:
        with pytest.raises(type(error)):
            ours(m)[key]
    else:
        np.testing.assert_array_equal(ours(m)[key].toarray(), expected.toarray())


@pytest.mark.parametrize("kind", [sps.csr_array, sps.csr_matrix])
def test_wide_indices(kind: Any) -> None:
    m = plain(kind)
    m.indices, m.indptr = m.indices.astype(np.int64), m.indptr.astype(np.int64)
    same(ours(m)[2:7], m[2:7], type(ours(m)))


def test_duplicates_and_order_are_kept() -> None:
    m = sps.csr_array((np.arange(6.0), [3, 1, 1, 0, 2, 2], [0, 3, 3, 6]), shape=(3, 5))
    same(ours(m)[0:2], m[0:2], asp.csr_array)
    same(ours(m)[1:3], m[1:3], asp.csr_array)


def test_spare_room_is_left_out() -> None:
    m = plain()
    m.data, m.indices = np.append(m.data, [7.0] * 9), np.append(m.indices, [0] * 9).astype(m.indices.dtype)
    same(asp.csr_array(m)[20:], m[20:], asp.csr_array)


@pytest.mark.skipif(not IS_RECENT, reason="this SciPy has no one-dimensional csr_array")
def test_one_dimensional_arrays_are_scipys() -> None:
    m = sps.csr_array(np.arange(9.0))
    np.testing.assert_array_equal(asp.csr_array(np.arange(9.0))[2:5].toarray(), m[2:5].toarray())


def test_parts_are_copies() -> None:
    m = plain()
    A = ours(m)
    part, before = A[4:9], m[4:9].toarray()
    A.data[:] = 0.0
    np.testing.assert_array_equal(part.toarray(), before)
    part.data[:] = 1.0
    assert not A.data.any()
    assert part.owns_arrays


def test_writes_before_a_slice_are_in_it() -> None:
    m = plain()
    A = ours(m)
    A @ np.ones(M)
    kept = A.data
    for value in (2.0, 3.0):
        kept[:] = m.data[:] = value
        np.testing.assert_allclose(A[4:9] @ np.ones(M), m[4:9] @ np.ones(M))


def test_slices_are_no_exports() -> None:
    A = ours(plain())
    A @ np.ones(M), A._cell.validate()
    rows = A._cell.rows
    assert rows is not None
    A[4:9], A[:3, :]
    assert A._cell.rows is rows


def test_parts_of_a_broken_structure_are_checked() -> None:
    m = plain()
    A = ours(m)
    A @ np.ones(M)
    A.indices[5] = M + 3
    with pytest.raises(ValueError, match="indices"):
        A[0:9] @ np.ones(M)


class Named(asp.csr_array):
    """Subclass of a user."""


def test_subclasses_keep_their_class() -> None:
    m = plain()
    assert type(Named(m)[2:5]) is Named
    np.testing.assert_array_equal(Named(m)[2:5].toarray(), m[2:5].toarray())


def test_parts_of_shared_arrays_are_checked() -> None:
    m = plain()
    A = asp.csr(m, copy=False)
    A @ np.ones(M)
    m.indices[5] = M + 3
    with pytest.raises(ValueError, match="indices"):
        A[0:9] @ np.ones(M)


NUMBERS = [
    np.array([3, 1, 4, 1, 5]), np.array([-1, 0, -N, N - 1]), np.array([2], np.int32), np.array([7, 7], np.int8),
    np.arange(N), np.arange(0), np.array([3, 200], np.uint8) % N, np.array([[1, 2], [3, 4]]), np.array(3),
    np.arange(N) % 3 == 0, np.array([1.0, 2.0]), np.array([N]), np.array([-N - 1]), np.array([0, N + 5, 1]),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "complex128", "int32"])
@pytest.mark.parametrize("rows", NUMBERS, ids=repr)
def test_rows_by_number_are_scipys(kind: Any, dtype: str, rows: Any) -> None:
    m = plain(kind, dtype)
    A = ours(m)
    A @ np.ones(M, dtype)
    try:
        expected = m[rows]
    except (IndexError, ValueError, NotImplementedError) as error:
        with pytest.raises(type(error)):
            A[rows]
        return
    if expected.format != m.format:
        np.testing.assert_array_equal(A[rows].toarray(), expected.toarray())
        return
    same(A[rows], expected, type(A))
    np.testing.assert_allclose(A[rows] @ np.ones(M, dtype), expected @ np.ones(M, dtype), rtol=1e-5)


def test_rows_by_number_are_copies_and_no_exports() -> None:
    m = plain()
    A = ours(m)
    A @ np.ones(M), A._cell.validate()
    part, rows = A[np.array([4, 2])], A._cell.rows
    assert rows is not None
    part.data[:] = 1.0
    np.testing.assert_allclose(A @ np.ones(M), m @ np.ones(M))
    A.data[:] = 0.0
    assert part.data.all()


def test_rows_of_a_broken_structure_are_checked() -> None:
    A = ours(plain())
    A.indices[5] = M + 3
    with pytest.raises(ValueError, match="indices"):
        A[np.arange(9)] @ np.ones(M)
    A.indptr[4] = 10**6
    for key in (np.arange(9), slice(2, 4)):
        with pytest.raises(ValueError, match="ind"):
            A[key] @ np.ones(M)


def test_narrow_row_numbers() -> None:
    m = sps.vstack([plain()] * 12, format="csr")
    for rows in (np.array([127, -128, 5], np.int8), np.array([255, 0], np.uint8), np.array([130, -1], np.int16)):
        same(ours(m)[rows], m[rows.astype(np.int64)], asp.csr_array)


READING = [
    "A[3:5]", "A[3]", "A[:, 2:4]", "A[4:9:2, 1:3]", "A[3, 4]", "A.toarray()", "A.diagonal()", "A.tocoo()", "list(A)",
]  # fmt: skip


@pytest.mark.parametrize("method", READING)
@pytest.mark.parametrize("fmt", ["csr", "csc"])
def test_missing_row_starts_are_not_read(fmt: str, method: str) -> None:
    A = ours(plain().asformat(fmt))
    A.indptr = np.array([0, 1, A.nnz], A.indptr.dtype)
    with pytest.raises(StructureError, match="index pointer size 3 should be"):
        eval(method, {"A": A, "list": list})


@pytest.fixture
def _shared_copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the C runtime copy rows of small matrices too, in several ranges."""
    monkeypatch.setattr(selection, "COPIES_FROM_ENTRIES", 0)
    with on_several_threads(), asp.options(threads=3):
        yield


@pytest.mark.usefixtures("_shared_copies")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_rows_that_threads_copy_are_scipys(kind: Any, index: Any) -> None:
    rng = np.random.default_rng(1)
    m = kind(sps.random_array((700, 90), density=0.2, random_state=rng) * 9)[rng.integers(0, 700, 700)]
    m = m[:, np.arange(90) % 7 > 0] if m.format == "csr" else m
    n = m._swap(m.shape)[0]
    keys = [slice(None, None, 2), slice(n, None, -1), rng.permutation(n), rng.integers(-n, n, 2 * n)]
    keys.append(rng.random(n) < 0.5)
    for dtype in ("bool", "int16", "float32", "float64", "complex128"):
        stored = kind((m.data.astype(dtype), m.indices.astype(index), m.indptr.astype(index)), shape=m.shape)
        A = ours(stored)
        for key in keys:
            whole = key if m.format == "csr" else (slice(None), key)
            same(A[whole], stored[whole], type(A))


@pytest.mark.usefixtures("_shared_copies")
@pytest.mark.parametrize("key", [slice(None, None, 2), np.arange(9), np.arange(N) % 2 == 0], ids=repr)
def test_rows_beyond_the_arrays_are_not_copied(key: Any) -> None:
    A = ours(plain())
    A.indptr[5:] = 10**6
    with pytest.raises(ValueError, match="ind"):
        A[key]
    A = ours(plain())
    with pytest.raises(IndexError):
        A[np.array([0, N])]
    with pytest.raises(IndexError):
        A[np.ones(N + 1, bool)]
