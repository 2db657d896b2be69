"""Parameters of a search for each driver: numbers of candidates, their order, and acceptance without measurement."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from autosparse.tuner.search.race import RaceRule

from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.values import dataclass, field
from autosparse.ops import OPS
from autosparse.targets.priors import has, number, of_width, table

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
    places = defaultdict[int, "itertools.count[int]"](itertools.count)  # of the next member of each format
    return sorted(order, key=lambda at: next(places[format_of[at]]) // n_per_format)


def acceptance_ratio(problem: Problem, *, is_learned: bool, is_foreign: bool = False) -> float:
    """Return the largest predicted ratio to the default kernel at which a schedule is used unmeasured; 0: never.

    The ratio is exp(-a), where the allowance a is the 0.7 quantile of the errors of earlier predictions: logarithms of
    measured over predicted ratio of what estimates chose. So a schedule is accepted if it gains even at the 0.3
    quantile of its expected gain. The allowance depends on the operation, on the number of columns and on the model:
    statistics, learned, or learned on processors unlike this one (`is_foreign`). Allowances are data
    (`autosparse.targets`), measured by `benchmarks/uncertainty.py` (docs/design/cost-models.md).
    """
    model = "statistics" if not is_learned else "learned models elsewhere" if is_foreign else "learned models"
    errors = table(OPS[problem.operation].tuning.priors, f"error of {model}")
    allowance: float | None = of_width(errors, problem.n_dense_cols)
    if allowance is None:
        return 0.0
    if _is_model_stale(problem):
        allowance += number("acceptance", "error of stale models")
    return math.exp(-allowance)


def _is_model_stale(problem: Problem) -> bool:
    """Return whether the default kernel uses a second thread here, but did not when models were trained."""
    priors = OPS[problem.operation].tuning.priors
    if problem.n_dense_cols > 1 or problem.transposed or problem.threads < 2 or not has(priors, "stale from ns"):
        return False
    entries_ns = number(priors, "serial ns per entry") * problem.matrix.nnz
    serial_ns = entries_ns + number(priors, "serial ns per row") * problem.matrix.n_rows
    return number(priors, "stale from ns") <= serial_ns < number(priors, "stale to ns")


def is_accepted(schedule: SuperSchedule, ratio: float, *, most: float, is_learned: bool) -> bool:
    """Return whether `schedule` may be used unmeasured: predicted `ratio` at most `most`, and a cheap row order.

    A learned model may choose the cheap row order "first". The analytic model does not predict row orders, and the
    other orders take as long as ten products to compute.
    """
    orders = ("", "first") if is_learned else ("",)
    return schedule.format.rows in orders and ratio <= most
