"""Table of candidates in explanations, the same for products on a CPU, products on a GPU, and einsum programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from autosparse.core.plan import Candidate, Plan
from autosparse.core.solver import Choice
from autosparse.explain.loop_nest import choice_name
from autosparse.explain.section import Section
from autosparse.explain.units import n_bytes, seconds

HEADER: Final = ("", "measured", "predicted", "build", "pack", "memory", "")
"""Header of the table; the first column is the candidate's name, the last one a remark."""
N_LISTED: Final = 12
"""Maximum number of candidates listed, fastest first; the others are only counted."""
MAX_REMARK: Final = 300
"""Maximum number of characters of a remark: a compiler's message may have pages."""


def candidates_section(found: Sequence[Candidate], chosen: Choice, default_s: float | None = None) -> Section:
    """Return the section that lists candidates: measured ones by time, then predicted ones, then failed ones.

    The chosen one and the solvers that were refused are always listed. `default_s` scales predicted ratios.
    """
    ordered, shown = sorted(found, key=_order), list[Candidate]()
    for one in ordered:
        is_refused = one.failed is not None and one.choice.knobs is None
        if len(shown) < N_LISTED or one.choice == chosen or is_refused:
            shown.append(one)
    n_left, rows = len(ordered) - len(shown), [_row(one, chosen, default_s) for one in shown]
    return Section(title="Candidates", table=(HEADER, *rows), lines=(f"and {n_left:,} more",) if n_left else ())


def predicted(one: Plan | Candidate, default_s: float | None) -> str:
    """Return a text: the predicted seconds, or a multiple of the default kernel's time if that is unknown."""
    if one.predicted_s is None and one.predicted_ratio is not None:
        return seconds(one.predicted_ratio * default_s) if default_s else f"{one.predicted_ratio:.2f} x default"
    return seconds(one.predicted_s)


def _order(one: Candidate) -> tuple[bool, bool, float]:
    time_s = one.measured_s if one.measured_s is not None else one.predicted_s
    time_s = one.predicted_ratio if time_s is None else time_s
    return one.failed is not None, one.measured_s is None, float("inf") if time_s is None else time_s


def _row(one: Candidate, chosen: Choice, default_s: float | None) -> tuple[str, ...]:
    note = " ".join((one.failed or ("runs" if one.choice == chosen else "")).split())[:MAX_REMARK]
    prepared = seconds(one.build_s or None), seconds(one.pack_s or None), n_bytes(one.packed_bytes or None)
    name = one.name or choice_name(one.choice)
    return name, seconds(one.measured_s), predicted(one, default_s), *prepared, note
