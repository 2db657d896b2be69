"""How drivers like their searches, and the order in which candidates come."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Final

from autosparse.tuner.search.acceptance import WIDE
from autosparse.tuner.search.race import RaceRule

from autosparse.core.problem import Problem
from autosparse.core.values import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchStyle:
    """How a driver likes its steps."""

    n_candidates: int = 8
    hopeless: float = 1.5  # candidates predicted slower than this times the default kernel are not measured
    batch: int = 4  # candidates raced at once
    n_built: int = 1  # kernels that need no compiler and come first
    n_neighbours: int = 8  # tried at the end: of the incumbent, or
    n_corrected: int = 4  # ... so many favourites of a learned model that is asked again, knowing what was measured
    n_reraces: int = 5  # of the fastest with the incumbent, at last
    takes_all_proposals: bool = True  # of a learned model, beside favourites of the statistics
    asks_late: bool = False  # a learned model: after the candidates of the statistics, when what they save pays for it
    n_late: int = 4  # of its proposals, those that it expects to beat the incumbent
    warm_up: bool = False  # throw the first sample of each entrant away (drivers that take raw samples)
    rule: RaceRule = field(default_factory=RaceRule)


BLOCKING: Final = SearchStyle(rule=RaceRule(cut_short=3))
"""Who wins runs in a last race besides (`autosparse.tuning.confirmation`)."""
LIVE: Final = SearchStyle(
    n_candidates=5,
    hopeless=1.1,
    n_neighbours=2,
    n_corrected=0,
    n_reraces=0,
    takes_all_proposals=False,
    batch=1,
    n_built=2,
    warm_up=True,
    rule=RaceRule(margin=0.05, min_rounds=6, max_rounds=12, first_cut=1),
)
LIVE_NARROW: Final = dataclasses.replace(LIVE, asks_late=True)
"""Of few columns: reading a model and sketching the pattern take as long as hundreds of products
(docs/design/cost-models.md)."""


def live_style(problem: Problem) -> SearchStyle:
    """Of unasked tuning. Of many columns a model is asked before anything else: the statistics gain nothing there."""
    return LIVE if problem.n_dense_cols >= WIDE else LIVE_NARROW


def diverse(order: Sequence[int], format_of: Sequence[int], *, n_per_format: int) -> list[int]:
    """The given order, but at most `n_per_format` of one format before all formats had their turn.

    Within one format the model knows little (tiles, prefetch); between formats it errs in common ways.
    """
    rounds: dict[int, list[int]] = {}
    seen: dict[int, int] = {}
    for at in order:
        n_before = seen.get(format_of[at], 0)
        seen[format_of[at]] = n_before + 1
        rounds.setdefault(n_before // n_per_format, []).append(at)
    return list(itertools.chain.from_iterable(rounds[at] for at in sorted(rounds)))
