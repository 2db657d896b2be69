"""Acceptance rule: the predicted ratio at which a schedule is used without being measured."""

from __future__ import annotations

import math

from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.ops import OPS
from autosparse.targets.priors import has, number, of_width, table


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
