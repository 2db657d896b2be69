"""Patterns: the index structure of a sparse matrix or tensor, without its values."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from autosparse.core.dtypes import WideIndex, Word
from autosparse.core.values import computed_once
from autosparse.scalar import INDEX_TEXT, INDICES

IndexArray = NDArray[Any]  # int32 or int64
_INT32_MAX: Final = 2**31 - 1
ORDER_SAMPLE: Final = 4096
"""Number of entries that are sampled to choose the order of a tensor's levels."""


class Pattern:
    """Compressed rows of an ``n_rows`` x ``n_cols`` matrix: row i holds columns ``indices[indptr[i]:indptr[i+1]]``.

    Columns of a row may be unsorted and may repeat, as in SciPy. The arrays are borrowed, never written, and must be
    valid (`indptr` nondecreasing from 0, `indices` within the shape). Two patterns are equal when their hashes are.
    """

    def __init__(
        self,
        n_rows: int,
        n_cols: int,
        indptr: IndexArray,
        indices: IndexArray,
        hashes: tuple[int, int] | None = None,
    ) -> None:
        self.n_rows = n_rows
        self.n_cols = n_cols
        self.indptr = indptr
        self.indices = indices
        self.hashes = hashes  # `runtime_api.structure_hashes`, once computed
        self.counts: dict[Hashable, Any] = {}  # that other modules keep here (tuner.features.statistics)

    def __repr__(self) -> str:
        return f"Pattern(n_rows={self.n_rows}, n_cols={self.n_cols})"

    @property
    def shape(self) -> tuple[int, int]:
        """Extents (n_rows, n_cols)."""
        return self.n_rows, self.n_cols

    @property
    def nnz(self) -> int:
        """Number of stored entries, duplicates and explicit zeros included: ``indptr[-1]``, not `indices.size`."""
        return int(self.indptr[-1])

    @computed_once
    def index_dtype(self) -> str:
        """Name of the index arrays' dtype: int32 or int64."""
        return str(self.indptr.dtype.name)

    def csr_bytes(self, value_bytes: int) -> int:
        """Return the bytes of this pattern as CSR with values of `value_bytes` each, the unit of memory limits."""
        item = self.indptr.dtype.itemsize
        return (self.n_rows + 1) * item + self.nnz * (item + value_bytes)

    @computed_once
    def sparsity_hash(self) -> str:
        """Hash of shape, index width, indptr and indices, without values: 32 hex digits, by the C runtime."""
        from autosparse._native import runtime_api

        indices = self.indices[: self.nnz]
        if self.hashes is None:
            self.hashes = runtime_api.structure_hashes(self.indptr, indices)
        return runtime_api.sparsity_hash(self.shape, self.indptr, indices, self.hashes)

    @computed_once
    def has_identical_rows(self) -> bool:
        """Return whether samples of the rows contain three consecutive rows with identical columns (supernodes)."""
        from autosparse._native import runtime_api

        return runtime_api.available and runtime_api.has_identical_rows(self.indptr, self.indices)

    @computed_once
    def row_lengths(self) -> NDArray[WideIndex]:
        """Number of stored entries of each row, (n_rows,)."""
        return np.diff(self.indptr).astype(WideIndex, copy=False)

    def forget(self) -> None:
        """Drop the row lengths, 8 bytes per row that only tuning reads often; they are computed again on demand."""
        self.__dict__.pop("row_lengths", None)

    def rows_of_entries(self, dtype: DTypeLike = WideIndex) -> NDArray[Any]:
        """Return the row of each stored entry, (nnz,)."""
        return np.repeat(np.arange(self.n_rows, dtype=dtype), self.row_lengths)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pattern):
            return NotImplemented
        return self is other or self.sparsity_hash == other.sparsity_hash

    def __hash__(self) -> int:
        return hash(self.sparsity_hash)


class TensorPattern:
    """Coordinates of a tensor's entries: entry e is at ``coords[0, e], coords[1, e], ...`` in an array of shape
    `shape`.

    `coords` is (ndim, nnz), its rows contiguous. Entries may come in any order and may repeat (their values add up).
    The array is borrowed, never written, and must be valid (every coordinate within the shape). Two patterns are equal
    when their hashes are.
    """

    def __init__(self, shape: tuple[int, ...], coords: IndexArray) -> None:
        self.shape = shape
        self.coords = coords
        self._orders: dict[int, tuple[int, ...]] = {}
        if self.coords.ndim != 2 or self.coords.shape[0] != len(self.shape) or self.coords.dtype.name not in INDICES:
            found = f"coords {self.coords.dtype} {self.coords.shape} for shape {self.shape}"
            raise TypeError(f"coordinates must be {INDEX_TEXT} of shape (ndim, nnz): got {found}")
        if self.coords.size and self.coords.strides[1] != self.coords.itemsize:
            raise TypeError("coordinates of one mode must be contiguous: pass np.ascontiguousarray(coords)")

    @property
    def ndim(self) -> int:
        """Order of the tensor: its number of modes."""
        return len(self.shape)

    @property
    def nnz(self) -> int:
        """Number of stored entries, repeated ones and explicit zeros included."""
        return int(self.coords.shape[1])

    @property
    def index_dtype(self) -> str:
        """Name of the index type of the packed tensor: int32 if it holds every extent and `nnz`, else int64."""
        return INDICES[max((*self.shape, self.nnz)) > _INT32_MAX]

    def coo_bytes(self, value_bytes: int) -> int:
        """Return the bytes of the coordinates with values of `value_bytes` each, the unit of memory limits."""
        return self.nnz * (self.ndim * self.coords.itemsize + value_bytes)

    @computed_once
    def sparsity_hash(self) -> str:
        """Hash of shape, index width and coordinates, without values: 32 hex digits, by the C runtime."""
        from autosparse._native import runtime_api

        return runtime_api.tensor_hash(self.shape, self.coords)

    def forget(self) -> None:
        """Do nothing: a tensor's pattern keeps no array that can be computed again."""

    def rows_first(self, mode: int) -> TensorPattern:
        """Return the pattern with `mode` moved before the other modes; the pattern itself for mode 0."""
        if mode == 0:
            return self
        order = [mode, *(n for n in range(self.ndim) if n != mode)]
        return TensorPattern(tuple(self.shape[n] for n in order), self.coords[order])

    def level_order(self, mode: int) -> tuple[int, ...]:
        """Return `mode`, then the other modes in the order that gives a tree of levels with few nodes. The result is
        cached.

        Each level is the mode that splits the nodes above it least; ties go to the shortest mode. SPLATT (Smith et al.
        2015) always takes the shortest, which doubles the nodes where time stamps vary in every row. Nodes are counted
        among some `ORDER_SAMPLE` entries of whole rows of `mode`; finding these takes O(nnz).
        """
        if (known := self._orders.get(mode)) is not None:
            return known
        return self._orders.setdefault(mode, self._level_order(mode))

    def _level_order(self, mode: int) -> tuple[int, ...]:
        others = sorted((n for n in range(self.ndim) if n != mode), key=lambda n: (self.shape[n], n))
        if len(others) < 2 or self.nnz == 0:
            return (mode, *others)
        kept = self._sampled(mode)
        ids = {n: np.unique(self.coords[n, kept], return_inverse=True)[1].astype(WideIndex) for n in (mode, *others)}
        order, nodes = [mode], ids[mode]
        while len(others) > 1:
            trees = {n: np.unique(nodes * kept.size + ids[n], return_inverse=True) for n in others}
            best = min(others, key=lambda n: trees[n][0].size)
            order.append(best)
            others.remove(best)
            nodes = trees[best][1].astype(WideIndex)
        return (*order, *others)

    def _sampled(self, mode: int) -> NDArray[WideIndex]:
        """Return positions of sampled entries, whole rows of `mode`: about ORDER_SAMPLE, at most four times as many."""
        stride = 1 << max(0, (self.nnz // ORDER_SAMPLE).bit_length() - 1)
        rows = self.coords[mode].astype(Word, copy=False) * Word(0x9E3779B1) >> Word(8)
        kept = np.flatnonzero(rows & Word(stride - 1) == 0)[: 4 * ORDER_SAMPLE]
        return kept if kept.size else np.arange(min(self.nnz, ORDER_SAMPLE))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorPattern):
            return NotImplemented
        return self is other or self.sparsity_hash == other.sparsity_hash

    def __hash__(self) -> int:
        return hash(self.sparsity_hash)
