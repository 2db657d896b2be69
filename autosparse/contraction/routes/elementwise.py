"""Einsums that entries of one or two matrices give without a sum over pairs: products by places, sums, diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sps

from autosparse.arrays.family import csr_array
from autosparse.contraction.kinds import AnyArray, arrays_of, canonical


def by_rows(A: Any) -> Any:
    """`A` by rows, its entries sorted and distinct."""
    return canonical(A if A.format == "csr" else A.tocsr())


def copied(A: Any) -> Any:
    """`A` by rows, in arrays of its own."""
    rows = by_rows(A)
    return with_values(rows, arrays_of(rows)[2].copy())


def with_values(A: Any, values: AnyArray) -> Any:
    """A matrix of the library with the places of `A`, in arrays of its own, and other values."""
    indptr, indices, _ = arrays_of(A)
    made = csr_array._of_rows(tuple(A.shape), (indptr.copy(), indices.copy(), values))
    made.has_canonical_format = True
    return made


def product(A: Any, B: Any) -> Any:
    """Entries of both, multiplied, by rows; SciPy's order where those of an operand are not sorted."""
    if A is B:
        left = by_rows(A)
        values = arrays_of(left)[2]
        return with_values(left, values * values)
    made = _plain(A).multiply(_plain(B))
    return csr_array._of_rows(tuple(A.shape), (made.indptr, made.indices, made.data))


def _plain(A: Any) -> Any:
    """The arrays of `A` by rows in SciPy's own class, which has no flag yet: SciPy looks at the entries."""
    A = A if A.format == "csr" else A.tocsr()
    indptr, indices, data = arrays_of(A)
    return sps.csr_array((data, indices, indptr), shape=A.shape)


def row_of_entry(A: Any) -> AnyArray:
    """Row of each entry."""
    indptr, indices, _ = arrays_of(A)
    return np.repeat(np.arange(indptr.size - 1, dtype=indices.dtype), np.diff(indptr))


def at_entries(A: Any, X: AnyArray) -> Any:
    """Entries of `A` times those of a dense matrix."""
    rows = by_rows(A)
    _, indices, values = arrays_of(rows)
    return with_values(rows, values * X[row_of_entry(rows), indices])


def rows_scaled(A: Any, x: AnyArray) -> Any:
    """Each row times an element of a vector."""
    rows = by_rows(A)
    indptr, _, values = arrays_of(rows)
    return with_values(rows, values * np.repeat(x, np.diff(indptr)))


def columns_scaled(A: Any, x: AnyArray) -> Any:
    """Each column times an element of a vector."""
    rows = by_rows(A)
    _, indices, values = arrays_of(rows)
    return with_values(rows, values * x[indices])


def total(A: Any) -> AnyArray:
    """Sum of all entries; of booleans, whether one is true."""
    return added(arrays_of(A)[2])


def added(values: AnyArray) -> AnyArray:
    """Sum of an array in its own type, pairwise; of booleans, whether one is true."""
    how: np.ufunc = np.logical_or if values.dtype == bool else np.add
    return np.asarray(how.reduce(values, dtype=values.dtype))


def row_sums(A: Any) -> AnyArray:
    """Sum of each row, pairwise."""
    rows = A if A.format == "csr" else A.tocsr()
    indptr, _, values = arrays_of(rows)
    found = np.zeros(indptr.size - 1, values.dtype)
    filled = np.flatnonzero(indptr[1:] > indptr[:-1])
    if filled.size:
        how: np.ufunc = np.logical_or if values.dtype == bool else np.add
        found[filled] = how.reduceat(values, indptr[filled])
    return found


def column_sums(A: Any) -> AnyArray:
    """Sum of each column."""
    if A.format == "csr" and A.dtype.char in "fd":
        _, indices, values = arrays_of(A)
        return np.bincount(indices, values, A.shape[1]).astype(A.dtype, copy=False)
    return row_sums(A.T)


def diagonal(A: Any) -> AnyArray:
    """The diagonal of a square matrix."""
    return np.asarray(A.diagonal())


def trace(A: Any) -> AnyArray:
    """Sum of the diagonal."""
    return added(diagonal(A))


def inner(A: Any, B: Any) -> AnyArray:
    """Sum of the products of entries at one place."""
    return total(product(A, B))


def row_dots(A: Any, B: Any) -> AnyArray:
    """The products of entries at one place, summed by rows."""
    return row_sums(product(A, B))


def column_dots(A: Any, B: Any) -> AnyArray:
    """The products of entries at one place, summed by columns."""
    return column_sums(product(A, B))
