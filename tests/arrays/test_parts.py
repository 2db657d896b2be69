"""Tests of elements, rows, columns and blocks of a matrix, and of its sums and diagonals, against SciPy's."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from tests.scipy_versions import IS_RECENT, VERSION

KINDS = ["csr_array", "csc_array", "csr_matrix", "csc_matrix"]
SHAPES = [(6, 9), (9, 6), (1, 5), (5, 1), (1, 1), (7, 7)]
NUMBERS = [0, -1, 2, -6, 5, 8, -9, np.int64(1), np.int32(0), True, 3.0]
RANGES = [slice(None), slice(1, 3), slice(3, 1), slice(None, -1), slice(-2, None), slice(0, 100), slice(None, None, 2)]
KEYS = [*NUMBERS, *RANGES, *itertools.product([*NUMBERS, *RANGES], repeat=2), (Ellipsis, 1), (None, 1), ([0], [0])]


def plain(kind: str, shape: tuple[int, int], dtype: str = "float64", index: type = np.int32) -> Any:
    entries = sps.random_array(shape, density=0.4, random_state=np.random.default_rng(0), format="coo")
    entries.data = np.random.default_rng(1).integers(1, 9, entries.nnz).astype(float)
    m = getattr(sps, kind)(entries.astype(dtype))
    m.indices, m.indptr = m.indices.astype(index), m.indptr.astype(index)
    return m


def facts(found: Any) -> Any:
    """Return the class, shape, dtypes and contents of a result, without flags that SciPy keeps as a cache."""
    if sps.issparse(found):
        state = {name: value for name, value in vars(found).items() if not name.startswith("_has")}
        return type(found).__name__, {name: facts(value) for name, value in state.items()}
    if isinstance(found, tuple):
        return tuple(map(facts, found))
    if isinstance(found, np.ndarray | np.generic):
        return type(found).__name__, found.shape, found.dtype, found.tolist()
    return found


def outcome(run: Callable[[Any], Any], M: Any) -> Any:
    try:
        return facts(run(M))
    except (IndexError, ValueError, TypeError, NotImplementedError) as error:
        return type(error).__mro__[-4 if isinstance(error, IndexError) else -3 :]


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", ["float64", "complex64", "int64", "bool"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_parts_are_scipys(kind: str, shape: tuple[int, int], dtype: str, index: type) -> None:
    m = plain(kind, shape, dtype, index)
    A = getattr(asp, kind)(m)
    for key in KEYS:
        assert outcome(lambda M, key=key: M[key], A) == outcome(lambda M, key=key: M[key], m), key


@pytest.mark.parametrize("kind", KINDS)
def test_duplicates_and_order_are_kept(kind: str) -> None:
    arrays = (np.arange(1.0, 7.0), np.array([3, 1, 1, 0, 2, 2], np.int32), np.array([0, 3, 3, 6], np.int32))
    shape = (3, 5) if kind.startswith("csr") else (5, 3)
    m, A = (getattr(made, kind)(arrays, shape=shape) for made in (sps, asp))
    for key in [(0, 1), (2, 2), (1, 1), (0, slice(1, 4)), (slice(0, 2), 2), 0, 2, (slice(None), 1)]:
        assert outcome(lambda M, key=key: M[key], A) == outcome(lambda M, key=key: M[key], m), key


@pytest.mark.parametrize("kind", KINDS)
def test_parts_are_copies_and_no_exports(kind: str) -> None:
    A = getattr(asp, kind)(plain(kind, (6, 9))).copy()
    x = np.ones(9)
    before = A @ x
    A._cell.validate()
    rows = A._cell.rows
    parts = [A[1:4, 2:7], *((A[2], A[:, 3], A[2, 1:5]) if IS_RECENT or kind.endswith("matrix") else ())]
    A[2, 3], A.sum(axis=0), A.sum(axis=1), A.diagonal(1)
    assert A._cell.rows is rows is not None
    for part in parts:
        part.data[:] = 99.0
    np.testing.assert_array_equal(A @ x, before)
    for part in [A[1:4, 2:7], A[2:4]]:
        np.testing.assert_array_equal(part @ np.ones(part.shape[1]), part.toarray().sum(axis=1))


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_of_a_block_is_a_part_of_the_matrix(kind: str) -> None:
    A = getattr(asp, kind)(plain(kind, (9, 6)))
    np.testing.assert_array_equal(A[2:8, 1:5][1:4, 1:3].toarray(), A.toarray()[3:6, 2:4])


EXPRESSIONS = [
    "M.sum()", "M.sum(axis=0)", "M.sum(axis=1)", "M.sum(axis=-1)", "M.sum(axis=-2)", "M.sum(axis=2)",
    *(["M.sum((1,))"] if VERSION >= (1, 16) else []),
    "M.sum(0, dtype=M.dtype)", "M.sum(axis=0, dtype='complex128')", "M.sum(axis=True)", "M.sum(axis=1.0)",
    "M.diagonal()", "M.diagonal(1)", "M.diagonal(-2)", "M.diagonal(20)", "M.diagonal(-20)", "M.diagonal(k=3)",
    "M.nnz", "M.size", "M.dtype", "M.nonzero()", "M.count_nonzero(axis=0)", "M._getnnz(axis=1)", "M._getnnz(axis=-2)",
    "M.tocsr()", "M.tocsc()", "M.tocsr(copy=True)", "M.tocsc(copy=True)",
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "complex128", "int8", "bool"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_dense_results_are_scipys(kind: str, shape: tuple[int, int], dtype: str) -> None:
    m = plain(kind, shape, dtype)
    A = getattr(asp, kind)(m)
    for text in EXPRESSIONS:
        run = eval(f"lambda M: {text}")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert outcome(run, A) == outcome(run, m), text


class Bound:
    """Number that replaces the values of a matrix when it is asked for."""

    def __init__(self, M: Any, number: int) -> None:
        self.M, self.number = M, number

    def __index__(self) -> int:
        self.M.data = np.arange(self.M.nnz, dtype=np.int64)
        return self.number


@pytest.mark.parametrize("is_complete", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_of_slices_may_change_the_matrix(kind: str, *, is_complete: bool) -> None:
    m, A = (getattr(made, kind)(plain(kind, (6, 9))) for made in (sps, asp))
    if is_complete:
        A.explain()
    for first, end in ((1, 4), (None, 3), (2, None)):
        for M in (m, A):
            M.data = M.data.astype(float)
        keys = [slice(*(bound if bound is None else Bound(M, bound) for bound in (first, end))) for M in (m, A)]
        assert facts(A[keys[1]].toarray()) == facts(m[keys[0]].toarray())
        assert facts(A[:, keys[1]].toarray()) == facts(m[:, keys[0]].toarray())


def entries(M: Any) -> tuple[Any, ...]:
    """Return the stored entries of M and what M knows about their order."""
    return *(array.tolist() for array in (M.indptr, M.indices, M.data)), M.has_sorted_indices, M.has_canonical_format


@pytest.mark.parametrize("is_complete", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "complex128", "int8", "bool"])
@pytest.mark.parametrize("indices", [(2, 0, 1), (1, 1, 2), (0, 1, 2)], ids=["unsorted", "repeated", "canonical"])
@pytest.mark.parametrize("kind", KINDS)
def test_sums_leave_the_entries_that_scipys_leave(
    kind: str, indices: tuple[int, ...], dtype: str, *, is_complete: bool
) -> None:
    values, starts = np.array([1, -2, 3], dtype), np.array([0, 0, 3, 3])
    m, A = (getattr(made, kind)((values.copy(), np.array(indices), starts.copy()), shape=(3, 3)) for made in (sps, asp))
    if is_complete:
        A.explain()
    transposed, turned = m.T, A.T
    for axis in (0, 1, None, None):
        assert facts(A.sum(axis=axis)) == facts(m.sum(axis=axis))
        assert entries(A) == entries(m)
        np.testing.assert_array_equal(turned.toarray(), transposed.toarray())
    x = np.array([1, 2, 3], dtype)
    np.testing.assert_array_equal(A @ x, m @ x)


@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_negative_zeros_have_scipys_signs(kind: str) -> None:
    m = getattr(sps, kind)((np.full(3, -0.0), np.array([0, 1, 2]), np.array([0, 1, 2, 3])))
    A = getattr(asp, kind)(m)
    for axis in (None, 0, 1):
        np.testing.assert_array_equal(np.signbit(A.sum(axis=axis)), np.signbit(m.sum(axis=axis)))


@pytest.mark.parametrize("kind", KINDS)
def test_means_are_scipys(kind: str) -> None:
    m = plain(kind, (6, 9))
    A = getattr(asp, kind)(m)
    for axis in (None, 0, 1, -1):
        found, expected = A.mean(axis=axis), m.mean(axis=axis)
        assert type(found) is type(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("fmt", ["csr", "csc"])
def test_conversion_to_the_same_format_returns_the_object(fmt: str) -> None:
    for kind in (f"{fmt}_array", f"{fmt}_matrix"):
        A = getattr(asp, kind)(plain(kind, (6, 9)))
        assert getattr(A, f"to{fmt}")() is A


@pytest.mark.skipif(not IS_RECENT, reason="this SciPy has no rows of one dimension")
def test_rows_while_scipys_constructors_are_redirected() -> None:
    m = plain("csr_array", (6, 9))
    asp.install()
    try:
        found = sps.csr_array((m.data, m.indices, m.indptr), shape=m.shape)[2]
    finally:
        asp.uninstall()
    assert type(found) is asp.coo_array
    np.testing.assert_array_equal(found.toarray(), m.toarray()[2])


@pytest.mark.parametrize("name", ["data", "indices"])
@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_arrays_whose_shape_was_set_are_scipys(kind: str, name: str) -> None:
    """Row starts count elements, and a slice of an array with two axes selects rows of elements."""
    m, A = (getattr(made, kind)(np.arange(24.0).reshape(4, 6)[:, :5]) for made in (sps, asp))
    for M in (m, A):
        getattr(M, name).shape = (2, -1) if M.nnz % 2 == 0 else (-1, 1)
    for key in [slice(1, 3), 2, [0, 2], [1], (slice(None), 1), (1, 2), (slice(1, 3), slice(0, 2))]:
        assert outcome(lambda M, key=key: M[key], A) == outcome(lambda M, key=key: M[key], m), key
    assert outcome(lambda M: tuple(M), A) == outcome(lambda M: tuple(M), m)


@pytest.mark.parametrize("kind", KINDS)
def test_dense_results_of_values_in_the_other_byte_order_have_scipys_dtypes(kind: str) -> None:
    m, A = plain(kind, (6, 9)), getattr(asp, kind)(plain(kind, (6, 9)))
    for M in (m, A):
        M.data = M.data.astype(M.dtype.newbyteorder())
    for run in (lambda M: M.diagonal(1), lambda M: M.sum(), lambda M: M.sum(axis=0), lambda M: M.sum(axis=1)):
        assert outcome(run, A) == outcome(run, m)
