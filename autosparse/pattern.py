"""Pattern: the index structure of a sparse operand, without its values."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

IndexArray = NDArray[Any]  # int32 or int64


@dataclass(frozen=True, eq=False)
class Pattern:
    """Compressed rows of an ``n_rows`` x ``n_cols`` matrix: row i holds columns ``indices[indptr[i]:indptr[i+1]]``.

    Columns of a row may be unsorted and may repeat, as in SciPy. The arrays are borrowed, never written, and must be
    valid (`indptr` nondecreasing from 0, `indices` within the shape). Two patterns are equal when their hashes are.
    """

    n_rows: int
    n_cols: int
    indptr: IndexArray = field(repr=False)
    indices: IndexArray = field(repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_cols)."""
        return self.n_rows, self.n_cols

    @property
    def nnz(self) -> int:
        """Stored entries, duplicates and explicit zeros included (``indptr[-1]``, not the capacity of `indices`)."""
        return int(self.indptr[-1])

    @property
    def index_dtype(self) -> str:
        """Name of the index arrays' dtype: int32 or int64."""
        return str(self.indptr.dtype.name)

    def csr_bytes(self, value_bytes: int) -> int:
        """Bytes of this pattern as CSR with values of `value_bytes` each: the unit of the bound on extra memory."""
        item = self.indptr.dtype.itemsize
        return (self.n_rows + 1) * item + self.nnz * (item + value_bytes)

    @functools.cached_property
    def sparsity_hash(self) -> str:
        """32 hex digits over shape, index width, indptr and indices (xxh3 class, native; not over values)."""
        from autosparse._native import runtime_api

        return runtime_api.sparsity_hash(self.shape, self.indptr, self.indices[: self.nnz])

    @functools.cached_property
    def row_lengths(self) -> NDArray[np.int64]:
        """Stored entries of each row, (n_rows,)."""
        return np.diff(self.indptr).astype(np.int64, copy=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pattern):
            return NotImplemented
        return self is other or self.sparsity_hash == other.sparsity_hash

    def __hash__(self) -> int:
        return hash(self.sparsity_hash)
