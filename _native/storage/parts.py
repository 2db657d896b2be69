"""Parts of a sparse operand: the entries of op(A) that each `Selection` takes, as patterns of their own.

Parts take their entries in order, each by its rule from those that earlier parts left. A part of whole rows is a
pattern of these rows only. Parts that share rows are patterns of all remaining rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from autosparse._native import runtime_api
from numpy.typing import NDArray

from autosparse.core.composite import (
    ROW_SELECTIONS,
    Blocks,
    ColumnList,
    Diagonals,
    Rest,
    RowList,
    Rows,
    Selection,
)
from autosparse.core.dtypes import HalfBits, NarrowIndex, WideIndex
from autosparse.core.pattern import Pattern
from autosparse.core.values import dataclass

Array = NDArray[Any]  # indices of any supported dtype, or booleans
FULL: Final = 1e-9
"""Rounding tolerance when a fill is compared with the required fill."""


@dataclass(frozen=True, eq=False)
class View:
    """op(A) by rows, and the number of each of its entries in A's values (None: the same number)."""

    pattern: Pattern
    origin: Array | None = None

    @classmethod
    def of(cls, pattern: Pattern, *, transposed: bool) -> View:
        """Return op(A): A itself, or its transpose in compressed rows."""
        if not transposed:
            return cls(pattern)
        n_rows, n_cols = pattern.shape
        arrays = (pattern.indptr, np.ascontiguousarray(pattern.indices[: pattern.nnz]), None)
        indptr, indices, _, perm = runtime_api.transpose(arrays, pattern.shape, with_permutation=True)
        return cls(Pattern(n_cols, n_rows, indptr, indices), perm)


@dataclass(frozen=True, eq=False)
class Subset:
    """Entries of op(A) as a pattern of their own.

    `rows` are the rows of op(A) that correspond to the pattern's rows; None means the same rows. `numbers` are the
    numbers of the entries in A's values, in the order of `pattern`. Whole rows of A have `begin` instead, the number
    of each row's first entry.
    """

    pattern: Pattern
    rows: Array | None  # int32
    numbers: Array | None = None
    begin: Array | None = None

    @property
    def entries(self) -> Array:
        """Numbers of the entries in A's values, in the order of `pattern`; for whole rows they are computed at each
        access.
        """
        if self.numbers is not None:
            return self.numbers
        assert self.begin is not None
        indptr = self.pattern.indptr
        found = np.arange(self.pattern.nnz, dtype=indptr.dtype)
        found += np.repeat((self.begin - indptr[:-1]).astype(indptr.dtype), self.pattern.row_lengths)
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that locate the entries and rows in A."""
        return sum(array.nbytes for array in (self.rows, self.numbers, self.begin) if array is not None)


def subsets(pattern: Pattern, selections: Sequence[Selection], *, transposed: bool = False) -> tuple[Subset, ...]:
    """Return the entries that each selection takes from those that earlier ones left, whole rows first.

    Takes O(nnz) each.
    """
    view = View.of(pattern, transposed=transposed)
    found, left = [], np.arange(view.pattern.n_rows)
    n_row_parts = sum(isinstance(one, ROW_SELECTIONS) for one in selections)
    for selection in selections[:n_row_parts]:
        taken = _takes_rows(selection, view.pattern, left)
        found.append(_of_rows(view, left[taken]))
        left = left[~taken]
    remaining = _of_rows(view, left) if n_row_parts else _whole(view)
    if n_row_parts == len(selections) - 1:
        return (*found, remaining)
    return (*found, *_shared(remaining, selections[n_row_parts:]))


def _takes_rows(selection: Selection, pattern: Pattern, left: Array) -> Array:
    """Return, as booleans, which of the rows `left` a selection of whole rows takes."""
    if isinstance(selection, Rows):
        lengths = pattern.row_lengths[left]
        return (lengths >= selection.least) & (lengths <= (selection.most if selection.most is not None else np.inf))
    assert isinstance(selection, RowList)
    return np.isin(left, selection.numbers.below(pattern.n_rows))


def _whole(view: View) -> Subset:
    """Return op(A) as a subset of all its rows, with the entry numbers of `view`."""
    if view.origin is not None:
        return Subset(view.pattern, None, view.origin)
    return Subset(view.pattern, None, begin=view.pattern.indptr[:-1])


def _of_rows(view: View, rows: Array) -> Subset:
    """Return the subset of the rows `rows` (ascending) of `view`."""
    whole = view.pattern
    lengths = whole.row_lengths[rows]
    indptr = np.zeros(rows.size + 1, dtype=whole.indptr.dtype)
    np.cumsum(lengths, out=indptr[1:])
    begin = whole.indptr[rows]
    entries = np.arange(int(indptr[-1]), dtype=indptr.dtype)
    entries += np.repeat((begin - indptr[:-1]).astype(indptr.dtype), lengths)
    pattern = Pattern(int(rows.size), whole.n_cols, indptr, whole.indices[entries])
    if view.origin is None:
        return Subset(pattern, rows.astype(NarrowIndex), begin=begin)
    return Subset(pattern, rows.astype(NarrowIndex), view.origin[entries])


def _shared(whole: Subset, selections: Sequence[Selection]) -> list[Subset]:
    """Return what each selection takes from the entries of `whole` that earlier ones left, as subsets of its rows."""
    found, left = [], np.ones(whole.pattern.nnz, dtype=bool)
    for selection in selections:
        taken = left & TAKERS[type(selection)](selection, whole.pattern, left)
        left &= ~taken
        found.append(_of_entries(whole, taken))
    return found


def _of_entries(whole: Subset, taken: Array) -> Subset:
    pattern = whole.pattern
    before = np.zeros(pattern.nnz + 1, dtype=pattern.indptr.dtype)
    np.cumsum(taken, out=before[1:])
    indices = np.ascontiguousarray(pattern.indices[: pattern.nnz][taken])
    made = Pattern(pattern.n_rows, pattern.n_cols, before[pattern.indptr], indices)
    return Subset(made, whole.rows, whole.entries[taken])


def _remaining(pattern: Pattern, left: Array) -> Pattern:
    """Return the pattern restricted to the entries for which the mask `left` is true."""
    return pattern if left.all() else _of_entries(Subset(pattern, None, np.arange(pattern.nnz)), left).pattern


def block_fill(pattern: Pattern, r: int, c: int) -> Array:
    """Return the number of entries in the aligned r x c block of each entry, uint16 (nnz,)."""
    fill = np.empty(pattern.nnz, dtype=HalfBits)
    code = runtime_api.lib.asp_block_fill(
        runtime_api.INDEX_CODES[pattern.index_dtype],
        *pattern.shape,
        runtime_api.pointer(pattern.indptr),
        runtime_api.pointer(pattern.indices),
        *(r, c),
        runtime_api.pointer(fill),
    )
    if code < 0:
        raise MemoryError("no memory to count the entries of blocks")
    return fill


def _in_blocks(selection: Blocks, pattern: Pattern, left: Array) -> Array:
    r, c = selection.r, selection.c
    wanted = selection.fill * r * c - FULL
    found = np.zeros(pattern.nnz, dtype=bool)
    found[left] = block_fill(_remaining(pattern, left), r, c) >= wanted
    return found


def _on_diagonals(selection: Diagonals, pattern: Pattern, left: Array) -> Array:
    """Return the entries on sufficiently filled diagonals, which are numbered by column - row; cells outside the
    matrix do not count.
    """
    n_rows, n_cols = pattern.shape
    places: Array = pattern.indices[: pattern.nnz].astype(WideIndex) - pattern.rows_of_entries() + n_rows - 1
    counts = np.bincount(places[left], minlength=n_rows + n_cols - 1)
    offset = np.arange(n_rows + n_cols - 1) - (n_rows - 1)
    cells = np.minimum(n_rows, n_cols - offset) - np.maximum(0, -offset)
    is_full: Array = counts >= selection.fill * cells - FULL
    return is_full[places]


def _in_columns(selection: ColumnList, pattern: Pattern, left: Array) -> Array:
    return np.isin(pattern.indices[: pattern.nnz], selection.numbers.below(pattern.n_cols))


TAKERS: Final[Mapping[type, Callable[[Any, Pattern, Array], Array]]] = {
    Blocks: _in_blocks,
    Diagonals: _on_diagonals,
    ColumnList: _in_columns,
    Rest: lambda selection, pattern, left: left,
}
"""Rules about entries, by type of selection: (rule, pattern, mask of remaining entries) -> mask of the entries taken.
"""
