"""Parameters of a search for each driver, and the order of its candidates."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Final

from autosparse.tuner.search.race import RaceRule

from autosparse.core.problem import Problem
from autosparse.core.values import dataclass, field
from autosparse.targets.priors import number

WIDE: Final = 128
"""Number of columns of B from which a product counts as wide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchStyle:
    """Parameters of a search: numbers of candidates, order and rules, which differ for live and explicit tuning."""

    n_candidates: int = 8
    hopeless: float = number("candidates", "hopeless")  # predicted ratio to the default kernel; slower: not measured
    batch: int = 4  # candidates raced at once
    n_built: int = 1  # number of available kernels that come first without compilation
    n_neighbours: int = 8  # neighbours of the incumbent tried at the end; n_corrected replaces as many
    n_corrected: int = 4  # schedules of a learned model corrected by the measurements
    n_reraces: int = 5  # close losers that race the incumbent again
    takes_all_proposals: bool = True  # measure all proposals of a learned model, besides the analytic model's best
    asks_late: bool = False  # run a learned model after the analytic candidates, when their savings pay for it
    n_late: int = 4  # proposals of a late learned model that are measured if predicted to beat the incumbent
    is_live: bool = False  # the incumbent serves products: a challenger must beat it, too, by the margin
    rule: RaceRule = field(default_factory=RaceRule)


BLOCKING: Final = SearchStyle(rule=RaceRule(cut_short=3))
"""Style of explicitly requested tuning; its winner also runs a last race (`autosparse.tuning.confirmation`)."""
LIVE: Final = SearchStyle(
    n_candidates=5,
    hopeless=number("live search", "hopeless"),
    n_neighbours=2,
    n_corrected=0,
    n_reraces=0,
    takes_all_proposals=False,
    batch=1,
    n_built=2,
    is_live=True,
    rule=RaceRule(margin=number("live search", "margin"), min_rounds=6, max_rounds=12, first_cut=1),
)
LIVE_NARROW: Final = dataclasses.replace(LIVE, asks_late=True)
"""Style of automatic tuning for few columns: a model, which costs hundreds of products, comes late."""


def live_style(problem: Problem) -> SearchStyle:
    """Return the style of automatic tuning; for wide products a learned model, which gains more, runs first."""
    return LIVE if problem.n_dense_cols >= WIDE else LIVE_NARROW


def diverse(order: Sequence[int], format_of: Sequence[int], *, n_per_format: int) -> list[int]:
    """Return `order` rearranged: at most `n_per_format` members of each format come before the next ones of any.

    Models rank members of one format poorly (tiles, prefetch) and err alike for members of a format.
    """
    rounds: dict[int, list[int]] = {}
    seen: dict[int, int] = {}
    for at in order:
        n_before = seen.get(format_of[at], 0)
        seen[format_of[at]] = n_before + 1
        rounds.setdefault(n_before // n_per_format, []).append(at)
    return list(itertools.chain.from_iterable(rounds[at] for at in sorted(rounds)))
