"""`Triangle`: a triangular matrix that the runtime solves with, and the schedule of its rows on several threads.

A row needs the results of the rows that it refers to. The level of a row is 1 + the maximum level of these rows; rows
of one level are independent. A schedule sorts rows by level, joins levels that are too small to be shared, and divides
the others into chunks. A triangle with many small levels, such as a chain, is solved row after row on one thread.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from autosparse._native import runtime_api
from autosparse.core.dtypes import NarrowIndex, WideIndex
from autosparse.linalg.triangular.rows import DTYPES, AnyArray, Rows, code_of, n_threads
from autosparse.scalar import NARROW_INDEX, WIDE_INDEX

SYNCHRONIZATION: Final = 500
"""Cost of the end of a stage, in entries (about 1 ns each): the threads wait for each other."""
JUMP: Final = 8
"""Cost of a row that does not follow the row before it in the matrix, in entries: its data are not prefetched."""
MIN_WORK: Final = 40_000
"""Minimum work of a triangle, in entries plus four per row, for which levels are computed."""
MAX_SHARE: Final = 0.75
"""Maximum estimated time of a schedule as a fraction of the time of the loop over the rows."""


class Schedule(NamedTuple):
    """Order of the rows of a triangle; without an order they are eliminated one after the other."""

    reason: str
    order: AnyArray | None = None
    chunks: AnyArray | None = None
    stage_of: AnyArray | None = None
    n_stages: int = 0


class Triangle(NamedTuple):
    """Entries off the diagonal of a triangular matrix, row by row, and the inverse of its diagonal.

    If `is_scattered`, the rows are the columns of the matrix.
    """

    start: AnyArray
    stop: AnyArray
    indices: AnyArray
    data: AnyArray
    inverse: AnyArray | None  # None: the diagonal is 1
    is_backward: bool  # the last row is eliminated first
    is_scattered: bool = False
    schedule: Schedule = Schedule("row after row")

    @classmethod
    def over(cls, rows: Rows, inverse: AnyArray | None, *, is_backward: bool) -> Triangle:
        """Return the triangle whose entries off the diagonal are all entries of `rows`."""
        return cls(rows.indptr[:-1], rows.indptr[1:], rows.indices, rows.data, inverse, is_backward)

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.start.size

    def record(self, threads: int) -> Any:  # Any: cffi objects carry no types
        """Return the asp_triangle structure; it is valid as long as the triangle."""
        record, address = runtime_api.ffi.new("asp_triangle *"), runtime_api.address_of
        record.dtype, record.itype = DTYPES.index(self.data.dtype.char), code_of(self.indices)
        record.is_backward, record.is_scattered, record.n_threads = self.is_backward, self.is_scattered, threads
        record.n = self.start.size
        record.start, record.stop, record.indices = address(self.start), address(self.stop), address(self.indices)
        record.data = address(self.data)
        if self.inverse is not None:
            record.inverse = address(self.inverse)
        order, chunks, stage_of = self.schedule[1:4]
        if order is not None and chunks is not None and stage_of is not None:
            record.order, record.chunks, record.stage_of = address(order), address(chunks), address(stage_of)
            record.n_chunks, record.n_stages = stage_of.size, self.schedule.n_stages
        return record

    def solve(self, X: AnyArray) -> AnyArray:
        """Solve in place for the C-ordered vector or columns X of the triangle's dtype; return the result.

        The result is X, or for some numbers of columns an array of its own.
        """
        n_columns = 1 if X.ndim == 1 else X.shape[1]
        width = n_columns
        if n_columns > 1:
            width = runtime_api.lib.asp_triangle_width(DTYPES.index(X.dtype.char), n_columns)
        padded = X
        if width != n_columns:
            padded = np.zeros((X.shape[0], width), X.dtype)
            padded[:, :n_columns] = X
        runtime_api.raise_for(
            runtime_api.lib.asp_triangle_solve(self.record(n_threads()), runtime_api.pointer(padded), width, n_columns)
        )
        return X if padded is X else np.ascontiguousarray(padded[:, :n_columns])

    def astype(self, dtype: np.dtype[Any]) -> Triangle:
        """Return the triangle with values of another dtype."""
        inverse = None if self.inverse is None else self.inverse.astype(dtype)
        return self._replace(data=self.data.astype(dtype), inverse=inverse)

    def reversed(self, *, is_conjugated: bool) -> Triangle:
        """Return the transpose, or the adjoint, over the same structure and without a schedule."""
        data, inverse = self.data, self.inverse
        if is_conjugated and data.dtype.kind == "c":
            data, inverse = data.conj(), None if inverse is None else inverse.conj()
        return self._replace(
            data=data, inverse=inverse, is_backward=not self.is_backward, is_scattered=not self.is_scattered,
            schedule=Schedule("the transpose is solved row after row"),
        )  # fmt: skip


def levels_of(triangle: Triangle, threads: int) -> tuple[AnyArray, int]:
    """Return the level of each row of a triangle that is not scattered, from 1 on, and the number of levels."""
    level = np.zeros(triangle.n, NarrowIndex)
    pointer = runtime_api.ffi.cast(NARROW_INDEX.pointer, runtime_api.address_of(level))
    return level, int(runtime_api.lib.asp_triangle_levels(triangle.record(threads), pointer))


def schedule_of(triangle: Triangle) -> Schedule:
    """Return the schedule of a triangle that is not scattered, for the present number of threads."""
    threads, n = n_threads(), triangle.n
    work = triangle.indices.size + 4 * n
    if threads < 2 or work < MIN_WORK:
        return Schedule(f"{n:,} rows one after the other: {'one thread' if threads < 2 else 'too few for threads'}")
    level, n_levels = levels_of(triangle, threads)
    if n_levels * SYNCHRONIZATION > 4 * work:  # most levels are small: sorting them is of no use
        return Schedule(f"{n:,} rows one after the other: {n_levels:,} levels, too many for threads")
    lib, ffi, address, counts = runtime_api.lib, runtime_api.ffi, runtime_api.address_of, np.empty(5, WideIndex)
    order, chunks, stage_of = np.empty(n, triangle.indices.dtype), np.empty(n + 1, WideIndex), np.empty(n, NarrowIndex)
    status = lib.asp_triangle_schedule(
        triangle.record(threads), ffi.cast(NARROW_INDEX.pointer, address(level)), n_levels, runtime_api.pointer(order),
        ffi.cast(WIDE_INDEX.pointer, address(chunks)), ffi.cast(NARROW_INDEX.pointer, address(stage_of)),
        ffi.cast(WIDE_INDEX.pointer, address(counts)),
    )  # fmt: skip
    runtime_api.raise_for(status)
    n_chunks, n_stages, serial, shared, n_jumps = counts.tolist()
    needed = serial + (shared + n_jumps * JUMP) / min(threads, 8) + n_stages * SYNCHRONIZATION
    if needed > MAX_SHARE * (serial + shared):
        return Schedule(f"{n:,} rows one after the other: {n_levels:,} levels, too small for threads")
    reason = f"{n_levels:,} levels in {n_stages:,} stages of {n_chunks:,} chunks"
    return Schedule(reason, order, chunks[: n_chunks + 1].copy(), stage_of[:n_chunks].copy(), n_stages)
