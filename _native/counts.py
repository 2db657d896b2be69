"""Counts in patterns by the runtime, in a pass over a sample; `autosparse.tuner.features.counts` says what they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from autosparse._native import runtime_api
from autosparse._native.storage.rows import packing_threads
from numpy.typing import NDArray

from autosparse.core.pattern import Pattern

N_OF_LENGTHS: Final = 3
N_OF_SAMPLE: Final = 5
"""Numbers before those of slices and of blocks; see ``runtime/statistics/counts.c``."""


def of_rows(pattern: Pattern, n_slots: int, n_sample: int, n_sizes: int) -> tuple[list[int], list[int]]:
    """Of all row lengths, and of about `n_sample` entries, each on a thread of its own where two may be used.

    Longest row, sum of squared lengths, empty rows, then `n_slots` pairs of slots and entries, flat; and: entries, sum
    of gaps, gaps, entries on few diagonals, their cells, then blocks by `n_sizes` heights and widths. O(rows +
    n_sample). MemoryError.
    """
    of_lengths = np.empty(N_OF_LENGTHS + 2 * n_slots, np.int64)
    of_sample = np.empty(N_OF_SAMPLE + n_sizes**2, np.int64)
    itype, indptr, indices = _arrays(pattern)
    starts, columns, lengths_room, sample_room = map(runtime_api.pointer, (indptr, indices, of_lengths, of_sample))
    _check(
        runtime_api.lib.asp_pattern_counts(
            itype, *pattern.shape, starts, columns, n_sample, lengths_room, sample_room, packing_threads()
        )
    )
    return of_lengths.tolist(), of_sample.tolist()


def of_columns(pattern: Pattern, n_slots: int) -> list[int]:
    """The first of `of_rows`, of the columns' lengths. O(nnz). MemoryError."""
    found = np.empty(N_OF_LENGTHS + 2 * n_slots, np.int64)
    itype, indptr, indices = _arrays(pattern)
    starts, columns, room = map(runtime_api.pointer, (indptr, indices, found))
    _check(runtime_api.lib.asp_column_length_counts(itype, *pattern.shape, starts, columns, room))
    numbers: list[int] = found.tolist()
    return numbers


def distinct(pattern: Pattern, n_entries: int, n_windows: int) -> tuple[int, int]:
    """Sum of distinct columns in evenly spread windows of `n_entries` entries, and how many windows. MemoryError."""
    itype, _, indices = _arrays(pattern)
    columns = runtime_api.pointer(indices)
    found = runtime_api.lib.asp_distinct_columns(itype, pattern.n_cols, columns, pattern.nnz, n_entries, n_windows)
    _check(found)
    return found >> 3, found & 7


def walks(pattern: Pattern, sizes: Sequence[int], n_walks: int) -> list[tuple[int, int]]:
    """Distinct columns among the first `size` entries of breadth-first walks, and entries, for each of `sizes`.

    `n_walks` walks over rows from evenly spread ones, column k of row i leading to row k; where a walk can go no
    further it goes on with the next row not met. Sizes ascend; sums over the walks. MemoryError.
    """
    itype, indptr, indices = _arrays(pattern)
    ends, found = np.array(sizes, np.int64), np.empty((len(sizes), 2), np.int64)
    starts, columns, at, room = map(runtime_api.pointer, (indptr, indices, ends, found))
    _check(runtime_api.lib.asp_walks(itype, pattern.n_rows, starts, columns, ends.size, at, n_walks, room))
    return [(n_columns, n_entries) for n_columns, n_entries in found.tolist()]


def _arrays(pattern: Pattern) -> tuple[int, NDArray[Any], NDArray[Any]]:
    """Index type, row starts and columns, which the caller keeps alive."""
    return (
        runtime_api.INDEX_CODES[pattern.index_dtype],
        np.ascontiguousarray(pattern.indptr),
        np.ascontiguousarray(pattern.indices[: pattern.nnz]),
    )


def _check(status: int) -> None:
    if status < 0:
        raise MemoryError("no memory to count in a pattern")
