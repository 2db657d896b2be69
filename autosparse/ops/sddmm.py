"""S[i,j] = A[i,j] * sum_k X[i,k] * Y[k,j] at the stored entries (i, j) of A: X and Y dense, S with A's structure.

Only the sampled dot products are computed; duplicates of A are entries of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosparse._native import runtime_api
from autosparse.pattern import Pattern

AnyArray = NDArray[Any]  # of one native dtype


def sample(pattern: Pattern, X: AnyArray, Y_rows: AnyArray, *, threads: int = 0) -> AnyArray:
    """<X[i, :], Y_rows[j, :]> for each stored (i, j), without conjugation; X (n_rows, K), Y_rows (n_cols, K) → (nnz,).

    X and Y_rows of one native dtype; rows are copied unless their entries are adjacent.
    """
    X, Y_rows = _by_rows(X), _by_rows(Y_rows)
    if X.shape[0] != pattern.n_rows or Y_rows.shape != (pattern.n_cols, X.shape[1]) or X.dtype != Y_rows.dtype:
        raise ValueError(
            f"pattern {pattern.shape}, X {X.shape} {X.dtype} and Y {Y_rows.shape} {Y_rows.dtype} do not fit"
        )
    pointer, nnz = runtime_api.pointer, pattern.nnz
    dots = np.empty(nnz, dtype=X.dtype)
    scale = runtime_api.ffi.new("double[4]", [1.0, 0.0, 0.0, 0.0])
    status = runtime_api.lib.asp_sddmm(
        runtime_api.DTYPE_CODES[X.dtype.name], runtime_api.INDEX_CODES[pattern.index_dtype], *pattern.shape,
        pointer(pattern.indptr), pointer(pattern.indices), nnz, pointer(X), _step(X), pointer(Y_rows), _step(Y_rows),
        X.shape[1], 1, scale, runtime_api.ffi.NULL, pointer(dots), threads,
    )  # fmt: skip
    runtime_api.raise_for(status)
    return dots


def _by_rows(array: AnyArray) -> AnyArray:
    """`array` with adjacent entries in each row, aligned."""
    adjacent = array.shape[1] <= 1 or array.strides[1] == array.itemsize
    if adjacent and array.flags.aligned and array.strides[0] % array.itemsize == 0:
        return array
    return np.ascontiguousarray(array)


def _step(array: AnyArray) -> int:
    return array.strides[0] // array.itemsize


def reference(pattern: Pattern, data: AnyArray, X: AnyArray, Y: AnyArray) -> AnyArray:
    """Values of S by NumPy: every product of a pair of rows is gathered first."""
    rows = np.repeat(np.arange(pattern.n_rows), pattern.row_lengths)
    columns = pattern.indices[: pattern.nnz]
    values: AnyArray = data[: pattern.nnz] * np.einsum("pk,pk->p", X[rows], Y.T[columns])
    return values
