"""Parts of a sparse operand: the entries of op(A) that each `Selection` takes, as patterns of their own.

Parts take whole rows in order, each by its rule from those that earlier parts left; a part is a pattern of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from autosparse._native import runtime_api
from numpy.typing import NDArray

from autosparse.core.composite import REST, Rows, Selection
from autosparse.core.dtypes import NarrowIndex
from autosparse.core.pattern import Pattern
from autosparse.core.values import dataclass

Array = NDArray[Any]  # indices of any supported dtype, or booleans


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

    `rows` are the rows of op(A) that correspond to the pattern's rows; None means the same rows. For each entry,
    `numbers` has its position in A's values. If the rows are whole rows of A, `begin` takes the place of `numbers`: the
    position of each row's first entry.
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
    """Return the rows that each selection takes from those that earlier ones left; takes O(nnz) each."""
    view = View.of(pattern, transposed=transposed)
    found, left = [], np.arange(view.pattern.n_rows)
    for selection in selections:
        taken = _takes_rows(selection, view.pattern, left)
        found.append(_of_rows(view, left[taken]))
        left = left[~taken]
    return tuple(found)


def _takes_rows(selection: Selection, pattern: Pattern, left: Array) -> Array:
    """Return, as booleans, which of the rows `left` a selection of whole rows takes."""
    if selection == REST:
        return np.ones(left.size, dtype=bool)
    assert isinstance(selection, Rows)
    lengths = pattern.row_lengths[left]
    return (lengths >= selection.least) & (lengths <= (selection.most if selection.most is not None else np.inf))


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
