"""Space of SDDMM schedules: formats of the sparse operand, column tiles, jammed entries, prefetched rows of Y."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from autosparse.tuner.space import own
from autosparse.tuner.space.families import MAX_NARROW, READY_AHEAD, FormatFamily, member, tiles
from autosparse.tuner.space.own import SDDMM_FAMILIES

from autosparse.core.problem import Problem
from autosparse.core.schedule import L2_AHEAD, RUNTIME, SuperSchedule
from autosparse.scalar import NARROW_INDEX

JAMMED: Final = own.AXES["sampled"].unroll
"""Numbers of entries of a row whose dot products are computed together; they share the row of X and horizontal sums."""
FETCHED: Final = own.AXES["sampled"].prefetch
"""Prefetch distances of rows of Y, in entries."""
CSR_LEVELS: Final = "i1:U,k1:C"
BY_ROWS: Final = (CSR_LEVELS, "i1:C,k1:C")
"""Levels whose kernels keep a tile-wide row of X in registers, so that the widest tile is tried first."""
READY_FIRST: Final = (0, L2_AHEAD)
"""Members of READY_AHEAD that are among the first candidates."""
MAX_CELLS: Final = 16
"""Maximum number of accumulators for jammed entries, block rows and block columns together."""


def members(problem: Problem, *, is_whole: bool) -> Iterator[SuperSchedule]:
    """Yield the SDDMM schedules of `problem`: the whole space, or a few of every format unless `is_whole`."""
    shape, widths = problem.matrix.shape, tiles(problem) or (0,)
    is_streaming = shape[1] * problem.n_dense_cols * np.dtype(problem.dtype).itemsize > problem.target.l2_bytes
    if is_streaming and problem.pattern.index_dtype == NARROW_INDEX.name:
        yield from _ready(problem.operation, READY_AHEAD if is_whole else READY_FIRST)
    for row in SDDMM_FAMILIES:
        for size in row.sizes:
            if not _makes_sense(row, size, shape, is_whole=is_whole, is_streaming=is_streaming):
                continue
            bits = 16 if not row.name.startswith("csr") and _extent(size, shape) <= MAX_NARROW else 32
            n_cells = size.get("r", 1) * size.get("c", 1)
            jams = [jam for jam in (JAMMED if is_whole else (4, 8)) if jam * n_cells <= MAX_CELLS] or [1]
            ahead = FETCHED if is_whole else (0, 8)
            first = widths[:1] if row.levels in BY_ROWS else widths[:2]
            for tile, jam, fetched in itertools.product(widths if is_whole else first, jams, ahead):
                yield member(problem.operation, row, size, tile=tile, index_bits=bits, unroll=jam, prefetch=fetched)


def _ready(operation: str, aheads: Sequence[int]) -> Iterator[SuperSchedule]:
    """Yield the schedules of the runtime's precompiled loops: CSR, rows of Y prefetched, or rows reordered."""
    for row in SDDMM_FAMILIES:
        if row.levels != CSR_LEVELS:
            continue
        for size, ahead in itertools.product(row.sizes, aheads):
            if size or ahead:  # without both it would be the default kernel
                yield member(operation, row, size, implementation=RUNTIME, prefetch=ahead)


def _extent(size: Mapping[str, Any], shape: tuple[int, int]) -> int:
    """Return the largest extent whose coordinates the format stores as indices, for choosing the index width."""
    return max(int(size["k"]), shape[0]) if "k" in size else max(shape[0], -(-shape[1] // size.get("c", 1)))


def _makes_sense(
    row: FormatFamily, size: Mapping[str, Any], shape: tuple[int, int], *, is_whole: bool, is_streaming: bool
) -> bool:
    """Return whether `size` fits the problem; reordered rows only where Y exceeds the L2 cache (`is_streaming`)."""
    if "order" in size:
        return is_streaming
    if "k" in size:
        return size["k"] < shape[1] and (is_whole or size["k"] >= 4096)
    return is_whole or row.name != "bcsr" or size == {"r": 2, "c": 2}
