"""Composites of whole rows that the runtime computes in one sweep over B: a panel of rows of B is read by all parts.

Dense rows stand side by side in panels; the others come by their first column, which a panel has just brought into a
core's own cache, or, where they are long themselves, in panels of one row. Nothing is compiled for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from autosparse import _native
from autosparse.core.composite import REST, Composite, Part, Rows
from autosparse.core.formats import Format
from autosparse.core.pattern import Pattern
from autosparse.core.schedule import RUNTIME, SuperSchedule
from autosparse.tuner.hybrid.divisions import LEAST_COLUMNS, Division
from autosparse.tuner.hybrid.schedules import runtime

PANEL: Final = 256
"""Columns of A, rows of B, of a panel."""
FULL: Final = 0.25
"""Share of its cells from which eight rows stand side by side: of fewer entries four waste fewer multiplications."""
AHEAD: Final = 8


def panels(operation: str, n_rows: int) -> SuperSchedule:
    """The runtime's loops over panels in which `n_rows` rows (1, 4 or 8) stand side by side."""
    fmt = f"k1:U,i1:U,k0:C,i0:U | i={n_rows},k={PANEL}" if n_rows > 1 else f"k1:U,i1:U,k0:C | k={PANEL}"
    loops = ("k1", "i1", "k0", "i0")[: 4 if n_rows > 1 else 3]
    return SuperSchedule(operation=operation, format=Format.parse(fmt), loop_order=loops, implementation=RUNTIME)


def sweeps(operation: str, pattern: Pattern, division: Division, n_cols: int) -> list[Composite]:
    """Of a division by dense rows of op(A), most promising first; none of any other, and of narrow products."""
    dense = division.selections[0]
    if division.kinds != ("dense", "rest") or not isinstance(dense, Rows) or n_cols < LEAST_COLUMNS:
        return []
    rest = pattern.row_lengths[pattern.row_lengths < dense.least]
    one_by_one, by_column = panels(operation, 1), runtime(operation, "first", AHEAD)
    last = one_by_one if rest.size and rest.mean() * PANEL >= pattern.n_cols else by_column
    made = (Composite(parts=(*parts, Part(REST, last))) for parts in _dense_parts(operation, pattern, dense))
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
