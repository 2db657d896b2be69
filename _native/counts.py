"""Counts in patterns by the runtime: the numbers of `autosparse.tuner.features.counts`, in a pass over a sample."""

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
TOO_LARGE: Final = -2


def lengths(pattern: Pattern, n_slots: int, *, transposed: bool) -> list[int] | None:
    """Longest row, sum of squared lengths, empty rows, then `n_slots` pairs of slots and entries, flat.

    None where numbers could overflow. O(rows), or O(nnz) of the transpose. MemoryError.
    """
    found = np.empty(N_OF_LENGTHS + 2 * n_slots, np.int64)
    itype, indptr, indices = _arrays(pattern)
    starts, columns, room = map(runtime_api.pointer, (indptr, indices, found))
    if transposed:
        code = runtime_api.lib.asp_column_length_counts(itype, *pattern.shape, starts, columns, room)
    else:
        code = runtime_api.lib.asp_length_counts(itype, pattern.n_rows, starts, room)
    return _checked(code, found)


def sample(pattern: Pattern, n_sample: int, n_sizes: int) -> list[int] | None:
    """Entries, sum of gaps, gaps, entries on few diagonals, their cells, then blocks by `n_sizes` heights and widths.

    None where numbers do not fit. O(n_sample). MemoryError.
    """
    found = np.empty(N_OF_SAMPLE + n_sizes**2, np.int64)
    itype, indptr, indices = _arrays(pattern)
    starts, columns, room = map(runtime_api.pointer, (indptr, indices, found))
    code = runtime_api.lib.asp_sample_counts(itype, *pattern.shape, starts, columns, n_sample, room)
    return _checked(code, found)


def both(pattern: Pattern, n_slots: int, n_sample: int, n_sizes: int) -> tuple[list[int] | None, list[int] | None]:
    """`lengths` (of rows) and `sample`, each on a thread of its own where two may be used. MemoryError."""
    of_lengths = np.empty(N_OF_LENGTHS + 2 * n_slots, np.int64)
    of_sample = np.empty(N_OF_SAMPLE + n_sizes**2, np.int64)
    itype, indptr, indices = _arrays(pattern)
    status = runtime_api.ffi.new("int[2]")
    starts, columns, lengths_room, sample_room = map(runtime_api.pointer, (indptr, indices, of_lengths, of_sample))
    runtime_api.lib.asp_pattern_counts(
        itype, *pattern.shape, starts, columns, n_sample, lengths_room, sample_room, status, packing_threads()
    )
    return _checked(status[1], of_lengths), _checked(status[0], of_sample)


def distinct(pattern: Pattern, n_entries: int, n_windows: int) -> tuple[int, int]:
    """Sum of distinct columns over windows of `n_entries` entries, and how many windows there are. MemoryError."""
    itype, _, indices = _arrays(pattern)
    columns = runtime_api.pointer(indices)
    found = runtime_api.lib.asp_distinct_columns(itype, pattern.n_cols, columns, pattern.nnz, n_entries, n_windows)
    if found < 0:
        raise MemoryError("no memory to count columns")
    return found >> 3, found & 7


def walks(pattern: Pattern, sizes: Sequence[int], n_walks: int) -> list[tuple[int, int]]:
    """Distinct columns and entries of `n_walks` breadth-first walks, for each of `sizes` (ascending). MemoryError."""
    itype, indptr, indices = _arrays(pattern)
    ends, found = np.array(sizes, np.int64), np.empty((len(sizes), 2), np.int64)
    starts, columns, at, room = map(runtime_api.pointer, (indptr, indices, ends, found))
    code = runtime_api.lib.asp_walks(itype, pattern.n_rows, starts, columns, ends.size, at, n_walks, room)
    if code:
        raise MemoryError("no memory to walk over a pattern")
    return [(n_columns, n_entries) for n_columns, n_entries in found.tolist()]


def _arrays(pattern: Pattern) -> tuple[int, NDArray[Any], NDArray[Any]]:
    """Index type, row starts and columns, which the caller keeps alive."""
    return (
        runtime_api.INDEX_CODES[pattern.index_dtype],
        np.ascontiguousarray(pattern.indptr),
        np.ascontiguousarray(pattern.indices[: pattern.nnz]),
    )


def _checked(code: int, found: NDArray[np.int64]) -> list[int] | None:
    if code == TOO_LARGE:
        return None
    if code:
        raise MemoryError("no memory to count in a pattern")
    numbers: list[int] = found.tolist()
    return numbers
