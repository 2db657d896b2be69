"""Acceptance rules: predicted ratios at which a schedule is used without being measured."""

from __future__ import annotations

from typing import Final

from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.ops import OPS
from autosparse.targets.priors import has, number, of_width, table

WIDE: Final = 128
"""Number of columns of B from which a product counts as wide."""


def acceptance_ratio(problem: Problem, *, is_learned: bool, is_foreign: bool = False, guess: float = 1.0) -> float:
    """Return the largest predicted ratio to the default kernel at which a schedule is used unmeasured; 0: never.

    A prediction errs by at most the margin of its model in nearly all cases, so that a schedule is accepted where even
    the worse end of this interval gains. `guess` is the analytic model's ratio of the schedule. The margins are data
    (`autosparse.targets`, docs/design/cost-models.md).
    """
    margin = _margin(problem, is_learned=is_learned, is_foreign=is_foreign, guess=guess)
    accepted = 0.0 if margin is None else max(0.0, 1.0 - margin)
    return accepted / number("acceptance", "factor of stale models") if _is_model_stale(problem) else accepted


def _margin(problem: Problem, *, is_learned: bool, is_foreign: bool, guess: float) -> float | None:
    """Return the margin of the model's prediction for `problem`, as a fraction of the default time; None: unknown."""
    priors, columns = OPS[problem.operation].tuning.priors, problem.n_dense_cols
    if not is_learned:
        margin: float | None = of_width(table(priors, "margin of statistics"), columns)
        return margin
    margins = dict(table(priors, "margin of learned models"))
    if guess <= number("acceptance", "agreed below"):
        margins |= table(priors, "margin where both models agree")
    margin = of_width(margins, columns)
    if margin is None or not is_foreign:
        return margin
    return margin * float(of_width(table("acceptance", "factor on unseen processors"), columns))


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
