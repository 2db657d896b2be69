"""Table of candidates in explanations, the same for products on a CPU, products on a GPU, and einsum programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from autosparse.core.solver import Choice
from autosparse.explain.section import Section
from autosparse.explain.units import n_bytes, seconds
from autosparse.tuner.search.selection import Considered

HEADER: Final = ("", "measured", "predicted", "build", "pack", "memory", "")
"""Header of the table; the first column is the candidate's name, the last one a remark."""
N_LISTED: Final = 12
"""Maximum number of candidates listed, fastest first; the others are only counted."""
MAX_REMARK: Final = 300
"""Maximum number of characters of a remark: a compiler's message may have pages."""


def candidates_section(considered: Sequence[Considered], chosen: Choice) -> Section:
    """Return the section that lists candidates: measured ones by time, then predicted ones, then failed ones."""
    ordered = sorted(considered, key=_order)
    rows = [_row(one, chosen) for n, one in enumerate(ordered) if n < N_LISTED or one.choice == chosen]
    return section_of(rows, n_left=len(ordered) - len(rows))


def section_of(rows: Sequence[tuple[str, ...]], *, n_left: int) -> Section:
    """Return the section with these rows, and a line on the `n_left` candidates that are not listed."""
    return Section(title="Candidates", table=(HEADER, *rows), lines=(f"and {n_left:,} more",) if n_left else ())


def remark(text: str) -> str:
    """Return `text` as one line of at most `MAX_REMARK` characters."""
    return " ".join(text.split())[:MAX_REMARK]


def _order(one: Considered) -> tuple[bool, bool, float]:
    time_s = one.cost.seconds if one.measured_s is None else one.measured_s
    return one.failed is not None, one.measured_s is None, float("inf") if time_s is None else time_s


def _row(one: Considered, chosen: Choice) -> tuple[str, ...]:
    note = one.failed or ("runs" if one.choice == chosen else "")
    set_up, memory = seconds(one.cost.setup_s or None), n_bytes(one.cost.n_bytes or None)
    return one.name, seconds(one.measured_s), seconds(one.cost.seconds), set_up, seconds(None), memory, remark(note)
