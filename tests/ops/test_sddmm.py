"""Tests of `sddmm(A, X, Y)`: A ∘ (X @ Y) at the entries of A, in A's class and pattern, for any memory layout."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api
from hypothesis import given

import autosparse
from autosparse.errors import StructureError
from autosparse.operands.dense import by_rows
from tests.ops.test_spgemm import raw_csr

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "every second column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "rows backwards": lambda X: X[::-1].copy()[::-1],
    "columns backwards": lambda X: X[:, ::-1].copy()[:, ::-1],
    "rows of a wider array": lambda X: np.hstack([X, X])[:, : X.shape[1]],
    "unaligned": lambda X: np.frombuffer(b"\0" + X.tobytes(), X.dtype, offset=1).reshape(X.shape),
}
WIDTHS = (0, 1, 2, 3, 7, 8, 16, 17, 33, 64, 130, 257, 300)
DTYPES = ("float32", "float64", "complex64", "complex128")


def dense(rng: np.random.Generator, shape: tuple[int, int], dtype: str) -> Any:
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else values).astype(dtype)


def wanted(A: Any, X: Any, Y: Any) -> Any:
    """Return the expected values entry by entry, in the order of `A.data`."""
    coo = A.tocoo()
    rows, columns = (part[: A.nnz] for part in (coo.coords if hasattr(coo, "coords") else (coo.row, coo.col)))
    return A.data[: A.nnz] * (X @ Y)[rows, columns]


def assert_sampled(S: Any, A: Any, X: Any, Y: Any) -> None:
    """Check that S has A's shape and pattern, NumPy's dtype, and the expected values up to rounding."""
    assert S.shape == A.shape
    values = wanted(A, X, Y)
    assert S.dtype == values.dtype
    np.testing.assert_array_equal(S.indptr, A.indptr)
    np.testing.assert_array_equal(S.indices, A.indices[: A.nnz])
    # Every order of summation keeps |S - values| <= (k + 4) eps |A| (|X| @ |Y|), in the coarsest of the dtypes.
    eps = max(np.finfo(part.dtype).eps for part in (A.data, X, Y))
    size = np.abs(wanted(A._with_data(np.abs(A.data)), np.abs(X), np.abs(Y)))
    assert np.all(np.abs(S.data - values) <= 4 * (X.shape[1] + 4) * eps * size)


@given(
    seed=st.integers(0, 2**31),
    shape=st.tuples(st.integers(0, 30), st.integers(0, 30)),
    width=st.sampled_from(WIDTHS),
    density=st.sampled_from((0.0, 0.01, 0.2, 0.9)),
    dtypes=st.tuples(*[st.sampled_from(DTYPES)] * 3),
    index=st.sampled_from(("int32", "int64")),
    layouts=st.tuples(*[st.sampled_from(tuple(LAYOUTS))] * 2),
    fmt=st.sampled_from(("csr", "csc")),
    same=st.booleans(),
)
def test_values_are_those_of_the_dense_product(
    seed: int, shape: Any, width: int, density: float, dtypes: Any, index: str, layouts: Any, fmt: str, same: bool
) -> None:
    rng = np.random.default_rng(seed)
    (m, n), (a, x, y) = shape, dtypes if not same else dtypes[:1] * 3
    A = raw_csr(rng, (m, n), density, a, index) if fmt == "csr" else raw_csr(rng, (n, m), density, a, index).T
    X, Y = LAYOUTS[layouts[0]](dense(rng, (m, width), x)), LAYOUTS[layouts[1]](dense(rng, (width, n), y))
    ours = (autosparse.csr_array if fmt == "csr" else autosparse.csc_array)(A)
    for matrix in (A, ours):
        S = autosparse.sddmm(matrix, X, Y)
        assert type(S) is type(ours)
        assert_sampled(S, A, X, Y)
    assert_sampled(autosparse.sddmm(ours.T, Y.T, X.T), A.T, Y.T, X.T)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_copied_from_any_layout(layout: str, dtype: str) -> None:
    if not runtime_api.available:
        pytest.skip("the C runtime was not built")
    rng = np.random.default_rng(0)
    for shape in ((0, 3), (3, 0), (1, 1), (15, 17), (16, 16), (33, 40), (64, 300), (700, 65)):
        X = LAYOUTS[layout](dense(rng, shape, dtype))
        for array in (X, X.T):
            rows = by_rows(array, threads=2)
            assert rows.flags.aligned
            assert array.size == 0 or array.shape[1] == 1 or rows.strides[1] == rows.itemsize
            np.testing.assert_array_equal(rows, array)


def test_few_entries_of_a_large_matrix() -> None:
    rng = np.random.default_rng(1)
    A = sps.csr_array(([1.0, 2.0, -3.0], ([5, 5, 900], [7, 1999, 3])), shape=(1000, 2000))
    X, Y = dense(rng, (1000, 40), "float64"), dense(rng, (40, 2000), "float64")
    for matrix in (A, A.tocsc()):
        for one in (X, np.asfortranarray(X)):
            assert_sampled(autosparse.sddmm(matrix, one, Y), matrix, X, Y)


@pytest.mark.parametrize("make", ["csr_array", "csc_array", "csr_matrix", "csc_matrix"])
def test_class_and_pattern_stay_and_arrays_are_not_shared(make: str) -> None:
    rng = np.random.default_rng(2)
    A = getattr(autosparse, make)(sps.random_array((20, 30), density=0.3, random_state=rng))
    S = autosparse.sddmm(A, dense(rng, (20, 4), "float64"), dense(rng, (4, 30), "float64"))
    assert type(S) is type(A)
    for name in ("data", "indices", "indptr"):
        assert not np.may_share_memory(getattr(S, name), getattr(A, name))
    # the result works in further products and sums
    np.testing.assert_allclose((S @ np.ones(30)), S.toarray() @ np.ones(30))
    np.testing.assert_allclose((S + S).toarray(), 2 * S.toarray())


def test_duplicates_and_explicit_zeros_stay_entries() -> None:
    A = autosparse.csr_array(
        (np.array([1.0, 2.0, 0.0, 4.0]), np.array([2, 2, 0, 1]), np.array([0, 3, 4])), shape=(2, 3)
    )
    X, Y = np.array([[1.0], [2.0]]), np.array([[3.0, 5.0, 7.0]])
    S = autosparse.sddmm(A, X, Y)
    np.testing.assert_array_equal(S.data, [7.0, 14.0, 0.0, 40.0])
    np.testing.assert_array_equal(S.indices, [2, 2, 0, 1])


def test_values_beyond_nnz_are_not_entries() -> None:
    A = sps.csr_array((np.arange(9.0), np.zeros(9, np.int32), np.array([0, 1, 3])), shape=(2, 2))
    S = autosparse.sddmm(A, np.ones((2, 3)), np.ones((3, 2)))
    np.testing.assert_array_equal(S.data, [0.0, 3.0, 6.0])


@pytest.mark.parametrize("dtypes", ["iii", "bbb", "fii", "?ff", "f??", "eee", "ffe", "gff", "dff", "iDf", "fdf"])
def test_other_dtypes_are_numpys(dtypes: str) -> None:
    rng = np.random.default_rng(3)
    A = sps.csr_array(sps.random_array((9, 11), density=0.4, random_state=rng))
    A.data = rng.integers(0, 3, A.nnz).astype(dtypes[0] if dtypes[0] != "e" else "f")
    X, Y = (rng.integers(0, 3, shape).astype(char) for shape, char in (((9, 5), dtypes[1]), ((5, 11), dtypes[2])))
    S = autosparse.sddmm(A, X, Y)
    values = wanted(A, X, Y)
    assert S.dtype == values.dtype
    np.testing.assert_array_equal(S.data, values)


def test_written_values_and_structure_are_seen() -> None:
    rng = np.random.default_rng(4)
    A = autosparse.csr_array(sps.random_array((20, 20), density=0.3, random_state=rng))
    X, Y = dense(rng, (20, 6), "float64"), dense(rng, (6, 20), "float64")
    for _ in range(3):
        assert_sampled(autosparse.sddmm(A, X, Y), A.base, X, Y)
        A.data[:] *= -2
        A.indices[0] = (A.indices[0] + 3) % 20
        X[0] += 1


def test_out_takes_the_values() -> None:
    rng = np.random.default_rng(5)
    A = autosparse.csr_array(sps.random_array((30, 20), density=0.3, random_state=rng, dtype=np.float32))
    for width in (3, 700):
        X, Y = dense(rng, (30, width), "float32"), dense(rng, (width, 20), "float32")
        values = autosparse.sddmm(A, X, Y).data
        for out in (np.empty(A.nnz, np.float32), np.empty(2 * A.nnz, np.float32)[::2]):
            assert autosparse.sddmm(A, X, Y, out=out) is out
            np.testing.assert_array_equal(out, values)
        B = A.copy()
        autosparse.sddmm(B, X, Y, out=B.data)  # values are read before they are overwritten
        np.testing.assert_array_equal(B.data, values)
        assert_sampled(autosparse.sddmm(B, X, Y), B.base, X, Y)


MISTAKES = {
    "X with a row for each of the 4 rows of A": ((5, 3), (3, 6), ValueError),
    "Y with a column for each of the 6 columns of A": ((4, 3), (3, 5), ValueError),
    "Y.T has them": ((4, 3), (6, 3), ValueError),
    "Y with a row for each of the 3 columns of X": ((4, 3), (2, 6), ValueError),
    "two-dimensional X": ((4,), (3, 6), ValueError),
}


@pytest.mark.parametrize("hint", MISTAKES)
def test_shapes_that_do_not_fit_are_explained(hint: str) -> None:
    x_shape, y_shape, error = MISTAKES[hint]
    A = autosparse.csr_array((4, 6))
    with pytest.raises(error, match="shapes do not fit") as caught:
        autosparse.sddmm(A, np.ones(x_shape), np.ones(y_shape))
    assert hint in str(caught.value)


def test_other_mistakes_are_explained() -> None:
    A = autosparse.csr_array(np.eye(4))
    X, Y = np.ones((4, 2)), np.ones((2, 4))
    with pytest.raises(TypeError, match=r"X must be dense(.|\n)*X\.toarray"):
        autosparse.sddmm(A, sps.csr_array(X), Y)
    with pytest.raises(ValueError, match="out has shape"):
        autosparse.sddmm(A, X, Y, out=np.empty(3))
    with pytest.raises(TypeError, match="out has dtype"):
        autosparse.sddmm(A, X, Y, out=np.empty(4, np.float32))
    with pytest.raises(TypeError, match="ArrayType"):
        autosparse.sddmm(A, X, Y, out=[0.0] * 4)
    with pytest.raises(ValueError, match="read-only"):
        autosparse.sddmm(A, X, Y, out=np.broadcast_to(0.0, 4))
    A.indices[0] = 77
    for right in (Y, Y.astype(np.longdouble)):
        with pytest.raises(ValueError, match="77"):
            autosparse.sddmm(A, X, right)


def test_text_is_refused_with_the_hint():
    A = sps.csr_array(np.eye(3))
    for X, Y, name in ((np.full((3, 2), "a"), np.ones((2, 3)), "X"), (np.ones((3, 2)), np.full((2, 3), "a"), "Y")):
        with pytest.raises(TypeError, match=rf"{name} holds no numbers(.|\n)*<U1(.|\n)*convert"):
            autosparse.sddmm(A, X, Y)


@pytest.mark.parametrize("fmt", ["csr", "csc"])
@pytest.mark.parametrize("values", ["float64", "complex64", "int64"])
def test_indices_of_any_integers_are_followed(fmt: str, values: str) -> None:
    """Check index arrays of every integer dtype; indices out of bounds and floating-point indices must raise."""
    rng = np.random.default_rng(8)
    X, Y = rng.standard_normal((13, 20)), rng.standard_normal((20, 9))
    plain = raw_csr(rng, (13, 9), 0.3, values, "int32")
    plain = plain if fmt == "csr" else plain.tocsc()
    expected = wanted(plain, X, Y)
    for indices, indptr in itertools.product("bBhHiIlL", repeat=2):
        for library in (sps, autosparse):
            A = getattr(library, f"{fmt}_array")(plain)
            A.indices, A.indptr = plain.indices.astype(indices), plain.indptr.astype(indptr)
            S = autosparse.sddmm(A, X, Y)
            np.testing.assert_allclose(S.data, expected, rtol=1e-5)
            assert (S.indices.dtype, S.indptr.dtype) == (A.indices.dtype, A.indptr.dtype)
            A.indices[-1] = 100
            with pytest.raises(StructureError, match="indices must be <"):
                autosparse.sddmm(A, X, Y)
    for indices, indptr in ("ff", "if", "fi", "OO"):
        A = autosparse.csr_array(plain)
        A.indices, A.indptr = A.indices.astype(indices), A.indptr.astype(indptr)
        with pytest.raises(StructureError, match="must hold integers"):
            autosparse.sddmm(A, rng.standard_normal((13, 20)), rng.standard_normal((20, 9)))
