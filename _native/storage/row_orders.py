"""Row permutations that place rows with common columns next to each other, so that rows of B are reused from the
cache.

A permutation is an array: the row of op(A) at each position. A row order is a function and a row of `ORDERS`. Sources:
Cuthill and McKee 1969 (reverse order: George 1971). Sorting by the first column is a cheap alternative for patterns
that are banded after a permutation, and works for any shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from autosparse._native.storage.rows import KernelRows
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowIndex, Sign, WideIndex
from autosparse.core.formats import Format

if TYPE_CHECKING:
    from autosparse.core.composite import Composite

Array = NDArray[Any]  # indices of any supported dtype, or values

MAX_ROWS: Final = (1 << 31) - 1
"""Maximum number of rows, because positions are stored in 32 bits."""


def by_first_column(rows: KernelRows) -> Array:
    """Return row numbers by the rows' smallest column, then ascending; empty rows last. Takes O(nnz + n log n)."""
    first = np.full(rows.n_rows, rows.n_cols, dtype=WideIndex)
    filled = np.flatnonzero(rows.indptr[1:] > rows.indptr[:-1])
    if filled.size:
        first[filled] = np.minimum.reduceat(rows.indices, rows.indptr[filled])
    return np.argsort(first, kind="stable")


def by_length(rows: KernelRows) -> Array:
    """Return row numbers, longest rows first, rows of equal length in ascending order."""
    return np.argsort(rows.indptr[:-1] - rows.indptr[1:], kind="stable")


def by_number(rows: KernelRows) -> Array:
    """Return row numbers in ascending order, for parts of a matrix, whose rows are listed in any case."""
    return np.arange(rows.n_rows)


def by_rcm(rows: KernelRows) -> Array:
    """Return the reverse Cuthill-McKee order of the pattern of A + Aᵀ, restricted to A's rows if A is not square."""
    import scipy.sparse as sps
    from scipy.sparse import csgraph

    n = max(rows.n_rows, rows.n_cols)
    if n == 0:  # SciPy fails on an empty matrix
        return np.empty(0, dtype=WideIndex)
    indptr = np.concatenate([rows.indptr, np.full(n - rows.n_rows, rows.indptr[-1], dtype=rows.indptr.dtype)])
    ones = np.ones(rows.indices.size, dtype=Sign)
    pattern = sps.csr_matrix((ones, rows.indices, indptr), shape=(n, n), copy=True)
    pattern.data[...] = 1
    both = (pattern + pattern.T).tocsr()
    order = csgraph.reverse_cuthill_mckee(both, symmetric_mode=True)
    return np.asarray(order[order < rows.n_rows])


ORDERS: Final[Mapping[str, Callable[[KernelRows], Array]]] = {
    "first": by_first_column,
    "rcm": by_rcm,
    "degree": by_length,
    "listed": by_number,
}
"""Row orders that a format can name; see `formats.ROW_ORDERS`."""


EFFORT: Final[Mapping[str, float]] = {"": 1.0, "first": 3.0, "degree": 3.0, "rcm": 15.0, "listed": 2.0}
"""Estimated ratio of the packing time with this order to that without one, used before it has been measured."""


def order_effort(fmt: Format | Composite) -> float:
    """Return the estimated factor by which the row order of `fmt` lengthens packing."""
    return EFFORT[fmt.rows]


def order_of(rows: KernelRows, name: str) -> Array:
    """Return the order called `name`: int32 (n_rows,), a permutation of 0..n_rows-1."""
    return ORDERS[name](rows).astype(NarrowIndex)


def row_permutation(rows: KernelRows, name: str) -> tuple[Array, Array]:
    """Return the order called `name`, and its inverse: the position of each row."""
    order = order_of(rows, name)
    place = np.empty_like(order)
    place[order] = np.arange(order.size, dtype=order.dtype)
    return order, place


def ordered(rows: KernelRows, values: Array, order: Array) -> tuple[KernelRows, Array]:
    """Return op(A) and its values with rows in `order`; a row keeps the order of its entries. Takes O(nnz)."""
    lengths = np.diff(rows.indptr)[order]
    indptr = np.zeros_like(rows.indptr)
    np.cumsum(lengths, out=indptr[1:])
    entries = np.arange(rows.indices.size, dtype=indptr.dtype)
    entries += np.repeat(rows.indptr[order] - indptr[:-1], lengths)
    return KernelRows(rows.n_rows, rows.n_cols, indptr, rows.indices[entries], is_new=True), values[entries]
