"""Tests of arrays behind whose end SciPy's compiled loops would read: StructureError where products have no kernel."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps

from autosparse.arrays import family  # the complete classes
from autosparse.errors import StructureError

KINDS = ("csr_array", "csc_array", "csr_matrix", "csc_matrix")
N = 30
WILD = 10**8

SPOILED: dict[str, Callable[[Any], Any]] = {
    "index too large": lambda A: A.indices.__setitem__(4, WILD),
    "index negative": lambda A: A.indices.__setitem__(4, -WILD),
    "row start too large": lambda A: A.indptr.__setitem__(slice(5, None), WILD),
    "row starts too few": lambda A: setattr(A, "indptr", A.indptr[:-1]),
    "indices too short": lambda A: setattr(A, "indices", A.indices[:0]),
    "values too short": lambda A: setattr(A, "data", A.data[:0]),
    "indices of two types": lambda A: setattr(A, "indices", np.full(A.nnz, WILD)),
}
RUNS: dict[str, Callable[[Any], Any]] = {
    "vector": lambda A: A @ np.ones(N),
    "one column": lambda A: A @ np.ones((N, 1)),
    "columns": lambda A: A @ np.ones((N, 3)),
    "transposed": lambda A: A.T @ np.ones(N),
    "toarray": lambda A: A.toarray(),
    "diagonal": lambda A: A.diagonal(),
    "tocoo": lambda A: A.tocoo(),
    "sum": lambda A: A + A,
    "maximum": lambda A: type(A)(A.shape, dtype=A.dtype).maximum(A),
}


def matrix(kind: str, dtype: str) -> Any:
    m = sps.random_array((N, N), density=0.2, format="coo", random_state=np.random.default_rng(0))
    m.data = np.arange(1, m.nnz + 1) % 7 + 1
    return getattr(family, kind)(getattr(sps, kind)(m.astype(dtype)))


@pytest.mark.parametrize("is_used", [False, True])
@pytest.mark.parametrize("dtype", ["bool", "int16", "int64", "float32", "longdouble"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_read_out_of_bounds(kind: str, dtype: str, is_used: bool) -> None:
    for spoil in SPOILED.values():
        for run in RUNS.values():
            A = matrix(kind, dtype)
            if is_used:
                run(A)
            spoil(A)
            with pytest.raises(StructureError):
                run(A)


@pytest.mark.parametrize("dtype", ["int64", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_row_starts_that_scipys_loops_accept_have_scipys_results(kind: str, dtype: str) -> None:
    A = matrix(kind, dtype)
    m = A.to_scipy().copy()
    for starts in ([3, *m.indptr[1:]], [*m.indptr[:5], 0, *m.indptr[6:]], [*m.indptr, m.nnz]):
        for M in (A, m):
            M.indptr = np.array(starts, m.indptr.dtype)
        np.testing.assert_array_equal(A.toarray(), m.toarray())
        np.testing.assert_array_equal(A.diagonal(1), m.diagonal(1))


CHANGED: dict[str, Callable[[Any], Any]] = {
    "another dtype": lambda d: setattr(d, "dtype", "int64"),
    "a wider dtype": lambda d: setattr(d, "dtype", "complex64"),
    "other strides": lambda d: setattr(d, "strides", (0,)),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("changed", CHANGED)
@pytest.mark.parametrize("columns", [(), (3,)])
def test_values_changed_in_place_are_read_as_they_are_now(changed: str, columns: tuple[int, ...]) -> None:
    """The array stays the same object, whose dtype or layout changes after products have used it."""
    A, x = matrix("csr_array", "float64"), np.ones((N, *columns))
    m, values = A.to_scipy().copy(), A.data
    for is_open in (False, True):
        for _ in range(3 + 600 * is_open):
            A @ x
        if is_open:
            A.tune(effort="estimate")
        CHANGED[changed](m.data)
        CHANGED[changed](values)
        found, expected = A @ x, m @ x
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        values.dtype = m.data.dtype = "float64"
        values.strides = m.data.strides = (8,)


@pytest.mark.parametrize("n_products", [1, 600])
def test_arrays_that_other_code_shortens_or_writes_are_not_read_out_of_bounds(n_products: int) -> None:
    x = np.ones(N)
    A = matrix("csr_array", "float64")
    A.data = values = A.data.copy()  # an array with memory of its own
    for _ in range(n_products):
        A @ x
    values.resize(3, refcheck=False)
    with pytest.raises(StructureError):
        A @ x
    A = matrix("csr_array", "float64")
    indices = weakref.ref(A.indices)
    for _ in range(n_products):
        A @ x
    indices()[0] = WILD  # type: ignore[index]  # the matrix keeps it alive
    with pytest.raises(StructureError):
        A @ x
