"""Composites of whole rows that the runtime computes in one sweep over B: a panel of rows of B is read by all parts.

Dense rows stand side by side in panels; rows with a few entries in every panel come one at a time, over tiles of B that
are copied near; the others by their first column, which a panel has just brought into a core's own cache. Nothing is
compiled for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from autosparse import _native
from autosparse.core.composite import REST, Composite, Part, Rows
from autosparse.core.formats import Format
from autosparse.core.pattern import Pattern
from autosparse.core.schedule import RUNTIME, SuperSchedule
from autosparse.tuner.hybrid.partitions import MIN_COLUMNS, MIN_SHARE, Partition
from autosparse.tuner.hybrid.schedules import runtime

PANEL: Final = 256
"""Columns of A, rows of B, of a panel."""
FULL: Final = 0.25
"""Share of its cells from which eight rows stand side by side: of fewer entries four waste fewer multiplications."""
AHEAD: Final = 8
RESIDENT: Final = (2, 4)
"""Entries that a row has in a panel on average, from which on it may stand in panels of one row."""
RESIDENT_READS: Final = 4
"""Of a row of B by such rows, from which on it is copied (`runtime/matmul/blocks.c`)."""
RESIDENT_COST: Final = 0.5
"""Of an entry of theirs, over one of CSR whose row of B is far: 1.15 to 1.5 were gained on nine matrices (Xeon)."""
SIDE_BY_SIDE: Final = 1 / 8
"""Share of its cells from which a row among these stands beside three others."""


def panels(operation: str, n_rows: int) -> SuperSchedule:
    """The runtime's loops over panels in which `n_rows` rows (1, 4 or 8) stand side by side."""
    fmt = f"k1:U,i1:U,k0:C,i0:U | i={n_rows},k={PANEL}" if n_rows > 1 else f"k1:U,i1:U,k0:C | k={PANEL}"
    loops = ("k1", "i1", "k0", "i0")[: 4 if n_rows > 1 else 3]
    return SuperSchedule(operation=operation, format=Format.parse(fmt), loop_order=loops, implementation=RUNTIME)


def resident_share(pattern: Pattern, n_dense_cols: int) -> float:
    """Share of the entries in rows that stand in panels of one row well; 0 where they do not pay for copies of B."""
    taken = pattern.row_lengths[pattern.row_lengths >= _resident_cut(pattern, RESIDENT[0])]
    n_entries, is_wide = int(taken.sum()), n_dense_cols >= MIN_COLUMNS
    return (
        n_entries / pattern.nnz if is_wide and taken.size > 1 and n_entries >= RESIDENT_READS * pattern.n_cols else 0.0
    )


def stands_in_panels(pattern: Pattern, n_dense_cols: int) -> bool:
    """Whether most rows are such rows: the whole matrix then races in panels of one row."""
    half = len(pattern.row_lengths) // 2
    n_resident = int((pattern.row_lengths >= _resident_cut(pattern, RESIDENT[0])).sum())
    return resident_share(pattern, n_dense_cols) > 0.0 and n_resident > half


def resident_partition(pattern: Pattern, n_dense_cols: int) -> list[Partition]:
    """By such rows: one division, or none where too little stands in them, or everything, or only in dense ones."""
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
    """Rows with entries in every panel: all one at a time, or those with many four by four."""
    one, four = panels(operation, 1), panels(operation, 4)
    dense = _dense_cut(pattern)
    n_dense = int((pattern.row_lengths >= dense).sum())
    for cut in dict.fromkeys(_resident_cut(pattern, n_entries) for n_entries in RESIDENT):
        yield (Part(Rows(cut), one),)
        if n_dense >= 2 and cut < dense:
            yield Part(Rows(dense), four), Part(Rows(cut, dense - 1), one)


def sweeps(operation: str, pattern: Pattern, partition: Partition, n_cols: int) -> list[Composite]:
    """Of a division by rows of op(A) that have many entries in panels, most promising first; none of any other."""
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
    """Ways of storing the dense rows: all alike, or the densest eight by eight and the others four by four.

    Two or three by themselves: four would be padded to more memory than there may be, and B comes near once anyway.
    """
    cut = int(FULL * pattern.n_cols) + 1
    n_dense, n_full = (int((pattern.row_lengths >= least).sum()) for least in (dense.least, cut))
    four, eight = panels(operation, 4), panels(operation, 8)
    alike = [(Part(dense, one),) for one in ((four, eight) if n_dense > 4 else (panels(operation, 1), four))]
    if dense.least < cut and 4 <= n_full < n_dense:
        yield Part(Rows(cut), eight), Part(Rows(dense.least, cut - 1), four)
    yield from alike[::-1] if dense.least >= cut and n_dense > 4 else alike
