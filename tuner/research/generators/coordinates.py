"""Nonzero positions of a matrix or tensor, between a generator or file and a Pattern."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from autosparse.tuner.features.panels import FEATURE_LIMIT, panel_spans
from autosparse.tuner.features.pattern_vector import VECTOR_WIDTHS, matrix_vector, tensor_vector
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowIndex, NarrowReal, WideIndex
from autosparse.core.pattern import Pattern, TensorPattern

Ints = NDArray[WideIndex]

MAX_CELLS: Final = 1 << 62
"""Maximum number of cells, so that one 64-bit number identifies each position."""
MAX_EXTENT: Final = (1 << 31) - 1


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Positions ``(indices[0][n], indices[1][n], ...)`` in an array of `shape`, sorted by rows, without duplicates."""

    shape: tuple[int, ...]
    indices: tuple[Ints, ...] = field(repr=False)  # one array (nnz,) per dimension

    @property
    def nnz(self) -> int:
        """Return the number of positions."""
        return int(self.indices[0].size)

    @classmethod
    def of(cls, shape: Sequence[int], indices: Sequence[NDArray[np.integer]]) -> Coordinates:
        """Build from positions in any order; duplicates and positions outside `shape` are dropped.

        Raises ValueError when an extent is not in 1 .. 2**31 - 1 or when 64 bits cannot number the cells.
        """
        extents = tuple(int(extent) for extent in shape)
        if not all(1 <= extent <= MAX_EXTENT for extent in extents) or math.prod(extents) > MAX_CELLS:
            raise ValueError(f"extents must be in 1 .. {MAX_EXTENT} with at most {MAX_CELLS} cells: got {extents}")
        columns = [np.asarray(column, dtype=WideIndex).ravel() for column in indices]
        inside = np.logical_and.reduce(
            [(column >= 0) & (column < extent) for column, extent in zip(columns, extents, strict=True)]
        )
        keys = np.zeros(int(np.count_nonzero(inside)), WideIndex)
        for column, extent in zip(columns, extents, strict=True):
            keys = keys * extent + column[inside]
        return cls(extents, _unravelled(_distinct(keys), extents))

    def to_structure(self) -> Pattern | TensorPattern:
        """Return the pattern that products take: compressed rows of a matrix, or 32-bit coordinates of a tensor."""
        if len(self.shape) == 2:
            return self.to_pattern()
        return TensorPattern(self.shape, np.array(self.indices, NarrowIndex).reshape(len(self.shape), self.nnz))

    def to_pattern(self) -> Pattern:
        """Return compressed rows with 32-bit indices; tensors are matricised along mode 0, (n_0, n_1 * n_2 ...).

        Raises ValueError when the matricised columns exceed 31 bits.
        """
        n_rows, n_cols = self.shape[0], math.prod(self.shape[1:])
        if n_cols > MAX_EXTENT or self.nnz > MAX_EXTENT:
            raise ValueError(f"{n_cols} columns and {self.nnz} entries need more than 31 bits")
        columns = np.zeros(self.nnz, WideIndex)
        for column, extent in zip(self.indices[1:], self.shape[1:], strict=True):
            columns = columns * extent + column
        indptr = np.zeros(n_rows + 1, NarrowIndex)
        np.cumsum(np.bincount(self.indices[0], minlength=n_rows), out=indptr[1:])
        return Pattern(n_rows, n_cols, indptr, columns.astype(NarrowIndex))

    def looked_at(self, limit: int = FEATURE_LIMIT) -> Coordinates:
        """Return the entries that `panel_spans` samples, about `limit`; self if there are no more than `limit`."""
        if self.nnz <= limit:
            return self
        per_row = np.bincount(self.indices[0], minlength=self.shape[0])
        spans = panel_spans(np.concatenate([[0], np.cumsum(per_row)]), limit)
        kept = np.concatenate([np.arange(start, stop) for start, stop in spans.tolist()])
        return Coordinates(self.shape, tuple(column[kept] for column in self.indices))

    def vector(self) -> NDArray[NarrowReal]:
        """Return the statistics vector, (VECTOR_WIDTHS[order],), of order 2 or 3; raise ValueError for other orders."""
        n_dims = len(self.shape)
        if n_dims not in VECTOR_WIDTHS:
            raise ValueError(f"a pattern of {n_dims} dimensions; there are statistics for {sorted(VECTOR_WIDTHS)}")
        return matrix_vector(self.to_pattern()) if n_dims == 2 else tensor_vector(self.shape, self.indices)


def _distinct(keys: Ints) -> Ints:
    keys.sort()
    return keys[np.concatenate(([True], keys[1:] != keys[:-1]))] if keys.size else keys


def _unravelled(keys: Ints, extents: tuple[int, ...]) -> tuple[Ints, ...]:
    found: list[Ints] = []
    for extent in reversed(extents):
        keys, inner = np.divmod(keys, extent)
        found.append(inner)
    return tuple(reversed(found))
