"""Measurement of the machine's rates as a step of tuning: paid for by products, or a small share of a user's budget."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from autosparse.targets.priors import number
from autosparse.tuner.search.trial import Steps
from autosparse.tuning.rates.record import KIND, measure_if_wanted
from autosparse.tuning.trials.context import TuningContext

BUDGET_SHARE: Final = number("measuring rates", "budget share")
"""Maximum share of the budget of an explicit tuning that the measurement may take."""


def rates_step(context: TuningContext) -> Steps:
    """Yield one step that measures the machine, if it has no record.

    It follows the search, whose plan it cannot change, so that a first search does not depend on whether products had
    paid for the measurement in time. Live tuning skips the step if products have not paid for it; a later session
    yields it again. The background thread does not measure, because products run beside it.
    """
    if context.options.background or not context.rates.is_wanted:
        return
    yield context.stats.work(KIND, partial(_measure, context), is_optional=True)


def measure_within(context: TuningContext, budget_s: float, *, clock: Callable[[], float]) -> None:
    """Measure the machine before an explicit search, if `budget_s` is long enough."""
    if context.stats.cost_estimates.price_s(KIND) <= BUDGET_SHARE * budget_s:
        start_s = clock()
        _measure(context)
        context.stats.cost_estimates.observe(KIND, clock() - start_s)


def _measure(context: TuningContext) -> None:
    measure_if_wanted(context.options, context.problem.target, context.store)
