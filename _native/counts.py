"""Integer statistics of patterns, computed by the C runtime; `autosparse.tuner.features.statistics` defines them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from autosparse._native import runtime_api
from autosparse._native.storage.rows import packing_threads
from numpy.typing import NDArray

from autosparse.core.dtypes import WideIndex
from autosparse.core.pattern import Pattern

N_OF_LENGTHS: Final = 3
N_OF_SAMPLE: Final = 5
"""Number of values in the results before those of slices (rows) and of blocks (sample); see
``runtime/statistics/counts.c``."""


def of_rows(pattern: Pattern, n_slots: int, n_sample: int, n_sizes: int) -> tuple[list[int], list[int]]:
    """Return the statistics of all row lengths, and those of about `n_sample` entries; two threads compute them at
    once.

    The first list holds the longest row, the sum of squared lengths, the number of empty rows, and `n_slots` pairs of
    slots and entries. The second holds entries, sum and number of gaps, entries on few diagonals, cells of these
    diagonals, and blocks by `n_sizes` heights and widths. Takes O(rows + n_sample). Raises MemoryError.
    """
    of_lengths = np.empty(N_OF_LENGTHS + 2 * n_slots, WideIndex)
    of_sample = np.empty(N_OF_SAMPLE + n_sizes**2, WideIndex)
    itype, indptr, indices = _arrays(pattern)
    starts, columns, lengths_room, sample_room = map(runtime_api.pointer, (indptr, indices, of_lengths, of_sample))
    _check(
        runtime_api.lib.asp_pattern_counts(
            itype, *pattern.shape, starts, columns, n_sample, lengths_room, sample_room, packing_threads()
        )
    )
    return of_lengths.tolist(), of_sample.tolist()


def of_columns(pattern: Pattern, n_slots: int) -> list[int]:
    """Return the statistics of the columns' lengths, with the layout of the first list of `of_rows`.

    Takes O(nnz). Raises MemoryError.
    """
    found = np.empty(N_OF_LENGTHS + 2 * n_slots, WideIndex)
    itype, indptr, indices = _arrays(pattern)
    starts, columns, room = map(runtime_api.pointer, (indptr, indices, found))
    _check(runtime_api.lib.asp_column_length_counts(itype, *pattern.shape, starts, columns, room))
    numbers: list[int] = found.tolist()
    return numbers


def distinct(pattern: Pattern, n_entries: int, n_windows: int) -> tuple[int, int]:
    """Return the sum of distinct columns in evenly spread windows of `n_entries` entries, and the number of windows.

    Raises MemoryError.
    """
    itype, _, indices = _arrays(pattern)
    columns = runtime_api.pointer(indices)
    found = runtime_api.lib.asp_distinct_columns(itype, pattern.n_cols, columns, pattern.nnz, n_entries, n_windows)
    _check(found)
    return found >> 3, found & 7


def walks(pattern: Pattern, sizes: Sequence[int], n_walks: int) -> list[tuple[int, int]]:
    """Return (distinct columns, entries) among the first `size` entries of breadth-first walks, for each of `sizes`.

    `n_walks` walks start at evenly spread rows, and an entry in column k of row i leads to row k. A walk that is
    exhausted continues with the next unvisited row. Sizes must ascend; results are sums over the walks. Raises
    MemoryError.
    """
    itype, indptr, indices = _arrays(pattern)
    ends, found = np.array(sizes, WideIndex), np.empty((len(sizes), 2), WideIndex)
    starts, columns, at, room = map(runtime_api.pointer, (indptr, indices, ends, found))
    _check(runtime_api.lib.asp_walks(itype, pattern.n_rows, starts, columns, ends.size, at, n_walks, room))
    return [(n_columns, n_entries) for n_columns, n_entries in found.tolist()]


def _arrays(pattern: Pattern) -> tuple[int, NDArray[Any], NDArray[Any]]:
    """Return the code of the index type, the row starts and the columns; the caller keeps the arrays alive."""
    return (
        runtime_api.INDEX_CODES[pattern.index_dtype],
        np.ascontiguousarray(pattern.indptr),
        np.ascontiguousarray(pattern.indices[: pattern.nnz]),
    )


def _check(status: int) -> None:
    if status < 0:
        raise MemoryError("no memory to count in a pattern")
