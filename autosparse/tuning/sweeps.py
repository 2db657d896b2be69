"""Row-wise composites that the runtime computes in one sweep over B: all parts read one panel of rows of B in turn.

Dense rows are stored side by side in panels. Rows with a few entries in every panel are computed one at a time, on
tiles of B copied into the cache. All other rows follow in the order of their first column, whose row of B the current
panel has just brought into the L2 cache. No compilation is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from autosparse import _native
from autosparse.core.composite import REST, Composite, Part, Rows
from autosparse.core.formats import Format
from autosparse.core.pattern import Pattern
from autosparse.core.schedule import RUNTIME, SuperSchedule
from autosparse.targets.priors import number
from autosparse.tuner.hybrid.partitions import MIN_COLUMNS, MIN_SHARE, Partition
from autosparse.tuner.hybrid.schedules import runtime

PANEL: Final = 256
"""Number of columns of A, hence rows of B, in a panel."""
FULL: Final = number("composites", "fill of eight rows")
"""Minimum fill of dense rows for storing eight rows side by side; below it, four waste fewer multiplications."""
AHEAD: Final = 8
"""Prefetch distance of the rows outside panels, in entries."""
RESIDENT: Final = (2, 4)
"""Minimum mean number of entries of a row per panel for which the row may be stored in single-row panels."""
RESIDENT_READS: Final = 4
"""Minimum number of reads per row of B by these rows for which copying B pays off (`runtime/matmul/blocks.c`)."""
RESIDENT_COST: Final = 0.5
"""Cost per entry in single-row panels, as a fraction of the cost in CSR when rows of B are streamed from memory.

Source: speed-ups of 1.15 to 1.5 on nine matrices (Xeon).
"""
SIDE_BY_SIDE: Final = 1 / 8
"""Minimum fill of a row for storing it beside three others instead of in a single-row panel."""


def panels(operation: str, n_rows: int) -> SuperSchedule:
    """Return the schedule of the runtime's loops over column panels, with `n_rows` rows (1, 4 or 8) side by side."""
    fmt = f"k1:U,i1:U,k0:C,i0:U | i={n_rows},k={PANEL}" if n_rows > 1 else f"k1:U,i1:U,k0:C | k={PANEL}"
    loops = ("k1", "i1", "k0", "i0")[: 4 if n_rows > 1 else 3]
    return SuperSchedule(operation=operation, format=Format.parse(fmt), loop_order=loops, implementation=RUNTIME)


def resident_share(pattern: Pattern, n_dense_cols: int) -> float:
    """Return the fraction of entries in rows long enough for single-row panels; 0 if copying B would not pay."""
    taken = pattern.row_lengths[pattern.row_lengths >= _resident_cut(pattern, RESIDENT[0])]
    n_entries, is_wide = int(taken.sum()), n_dense_cols >= MIN_COLUMNS
    return (
        n_entries / pattern.nnz if is_wide and taken.size > 1 and n_entries >= RESIDENT_READS * pattern.n_cols else 0.0
    )


def stands_in_panels(pattern: Pattern, n_dense_cols: int) -> bool:
    """Return whether most rows are fit for single-row panels, so that the whole matrix races in that format."""
    half = len(pattern.row_lengths) // 2
    n_resident = int((pattern.row_lengths >= _resident_cut(pattern, RESIDENT[0])).sum())
    return resident_share(pattern, n_dense_cols) > 0.0 and n_resident > half


def resident_partition(pattern: Pattern, n_dense_cols: int) -> list[Partition]:
    """Return a list of one partition, into rows long enough for single-row panels and the rest, or an empty list.

    It is empty if these rows hold too few or all of the entries, or if nearly all of them are dense.
    """
    share, cut, lengths = (
        resident_share(pattern, n_dense_cols),
        _resident_cut(pattern, RESIDENT[0]),
        pattern.row_lengths,
    )
    n_between = int(lengths[(lengths >= cut) & (lengths < _dense_cut(pattern))].sum())
    if share in {0.0, 1.0} or n_between < MIN_SHARE * pattern.nnz:
        return []
    return [Partition((Rows(cut), REST), ("near", "rest"), 1.0 - share * (1.0 - RESIDENT_COST))]


def _dense_cut(pattern: Pattern) -> int:
    return int(SIDE_BY_SIDE * pattern.n_cols) + 1


def _resident_cut(pattern: Pattern, n_entries: int) -> int:
    return max(2, -(-n_entries * pattern.n_cols // PANEL))


def _resident_parts(operation: str, pattern: Pattern) -> Iterator[tuple[Part, ...]]:
    """Yield lists of parts that store these rows: all in single-row panels, or the denser ones in panels of four."""
    one, four = panels(operation, 1), panels(operation, 4)
    dense = _dense_cut(pattern)
    n_dense = int((pattern.row_lengths >= dense).sum())
    for cut in dict.fromkeys(_resident_cut(pattern, n_entries) for n_entries in RESIDENT):
        yield (Part(Rows(cut), one),)
        if n_dense >= 2 and cut < dense:
            yield Part(Rows(dense), four), Part(Rows(cut, dense - 1), one)


def sweeps(operation: str, pattern: Pattern, partition: Partition, n_cols: int) -> list[Composite]:
    """Return composites that sweep over column panels for the long rows of `partition`, most promising first.

    The list is empty for partitions of another kind.
    """
    dense = partition.selections[0]
    if partition.kinds[0] not in {"dense", "near"} or not isinstance(dense, Rows) or n_cols < MIN_COLUMNS:
        return []
    rest = pattern.row_lengths[pattern.row_lengths < dense.least]
    one_by_one, by_column = panels(operation, 1), runtime(operation, "first", AHEAD)
    last = one_by_one if rest.size and rest.mean() * PANEL >= pattern.n_cols else by_column
    if partition.kinds[0] == "near":
        ways, last = _resident_parts(operation, pattern), by_column
    else:
        ways = _dense_parts(operation, pattern, dense)
    made = (Composite(parts=(*parts, Part(REST, last))) for parts in ways)
    return [one for one in made if _native.composite_unsupported(operation, one) is None]


def _dense_parts(operation: str, pattern: Pattern, dense: Rows) -> Iterator[tuple[Part, ...]]:
    """Yield lists of parts that store the dense rows: all alike, or the densest in eights and the others in fours.

    Up to four dense rows are stored singly first, because panels of four may be padded beyond the memory limit.
    """
    cut = int(FULL * pattern.n_cols) + 1
    n_dense, n_full = (int((pattern.row_lengths >= least).sum()) for least in (dense.least, cut))
    four, eight = panels(operation, 4), panels(operation, 8)
    alike = [(Part(dense, one),) for one in ((four, eight) if n_dense > 4 else (panels(operation, 1), four))]
    if dense.least < cut and 4 <= n_full < n_dense:
        yield Part(Rows(cut), eight), Part(Rows(dense.least, cut - 1), four)
    yield from alike[::-1] if dense.least >= cut and n_dense > 4 else alike
