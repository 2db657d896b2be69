"""Einsums of one or two matrices without sums over pairs of entries: elementwise products, sums and diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sps

from autosparse import light
from autosparse._native import memory
from autosparse.arrays.family import csr_array
from autosparse.config import get_options
from autosparse.contraction.kinds import AnyArray, arrays_of, canonical


def by_rows(A: Any) -> Any:
    """Return `A` as CSR with sorted, distinct entries."""
    return canonical(A if A.format == "csr" else A.tocsr())


def copied(A: Any) -> Any:
    """Return a copy of `A` as CSR with sorted, distinct entries."""
    rows = by_rows(A)
    return with_values(rows, arrays_of(rows)[2].copy())


def with_values(A: Any, values: AnyArray) -> Any:
    """Return a csr_array of this library with a copy of the pattern of `A` and with the array `values`."""
    indptr, indices, _ = arrays_of(A)
    return of_arrays(tuple(A.shape), (indptr.copy(), indices.copy(), values))


def of_arrays(shape: tuple[int, ...], arrays: Sequence[AnyArray]) -> Any:
    """Return a csr_array of this library over (indptr, indices, data) in canonical format."""
    (n_rows, n_cols), (indptr, indices, data) = shape, arrays
    made = csr_array._of_rows((n_rows, n_cols), (indptr, indices, data))
    made.has_canonical_format = True
    return made


def product(A: Any, B: Any) -> Any:
    """Return the elementwise product as CSR; SciPy's entry order is kept if an operand is not sorted."""
    if A is B:
        left = by_rows(A)
        values = arrays_of(left)[2]
        return with_values(left, values * values)
    left, right = (arrays_of(one if one.format == "csr" else one.tocsr()) for one in (A, B))
    are_alike = all(one.dtype == other.dtype for one, other in zip(left, right, strict=True))
    runtime, threads = light.runtime() if are_alike else None, get_options().threads or 0
    merged = None if runtime is None else runtime.sum_of("_elmul_", (left, right), memory.empty_output, threads)
    if merged is not None:
        return of_arrays(tuple(A.shape), merged)
    made = _plain(A).multiply(_plain(B))
    return csr_array._of_rows(tuple(A.shape), (made.indptr, made.indices, made.data))


def _plain(A: Any) -> Any:
    """Return `A` as a SciPy CSR array that shares its arrays but no flags, so that SciPy checks the order itself."""
    A = A if A.format == "csr" else A.tocsr()
    indptr, indices, data = arrays_of(A)
    return sps.csr_array((data, indices, indptr), shape=A.shape)


def row_of_entry(A: Any) -> AnyArray:
    """Return the row of each entry."""
    indptr, indices, _ = arrays_of(A)
    return np.repeat(np.arange(indptr.size - 1, dtype=indices.dtype), np.diff(indptr))


def at_entries(A: Any, X: AnyArray) -> Any:
    """Return the elementwise product of `A` and a dense matrix, on the pattern of `A`."""
    rows = by_rows(A)
    _, indices, values = arrays_of(rows)
    return with_values(rows, values * X[row_of_entry(rows), indices])


def rows_scaled(A: Any, x: AnyArray) -> Any:
    """Return `A` with each row multiplied by the corresponding element of `x`."""
    rows = by_rows(A)
    indptr, _, values = arrays_of(rows)
    return with_values(rows, values * np.repeat(x, np.diff(indptr)))


def columns_scaled(A: Any, x: AnyArray) -> Any:
    """Return `A` with each column multiplied by the corresponding element of `x`."""
    rows = by_rows(A)
    _, indices, values = arrays_of(rows)
    return with_values(rows, values * x[indices])


def total(A: Any) -> AnyArray:
    """Return the sum of all entries; for booleans, whether any is true."""
    return added(arrays_of(A)[2])


def added(values: AnyArray) -> AnyArray:
    """Return the sum of an array in its own dtype; for booleans, whether any is true."""
    how: np.ufunc = np.logical_or if values.dtype == bool else np.add
    return np.asarray(how.reduce(values, dtype=values.dtype))


def row_sums(A: Any) -> AnyArray:
    """Return the sum of each row, in the dtype of `A`; for booleans, whether any entry is true."""
    rows = A if A.format == "csr" else A.tocsr()
    indptr, _, values = arrays_of(rows)
    found = np.zeros(indptr.size - 1, values.dtype)
    filled = np.flatnonzero(indptr[1:] > indptr[:-1])
    if filled.size:
        how: np.ufunc = np.logical_or if values.dtype == bool else np.add
        found[filled] = how.reduceat(values, indptr[filled])
    return found


def column_sums(A: Any) -> AnyArray:
    """Return the sum of each column."""
    if A.format == "csr" and A.dtype.char in "fd":
        _, indices, values = arrays_of(A)
        return np.bincount(indices, values, A.shape[1]).astype(A.dtype, copy=False)
    return row_sums(A.T)


def diagonal(A: Any) -> AnyArray:
    """Return the diagonal of a square matrix."""
    return np.asarray(A.diagonal())


def trace(A: Any) -> AnyArray:
    """Return the sum of the diagonal."""
    return added(diagonal(A))


def inner(A: Any, B: Any) -> AnyArray:
    """Return the sum of the elementwise product of two matrices."""
    return total(product(A, B))
