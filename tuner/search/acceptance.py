"""Acceptance rules: predicted ratios at which a schedule is used without being measured."""

from __future__ import annotations

from typing import Final

from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.ops import OPS
from autosparse.ops.base import of_width

WIDE: Final = 128
"""Number of columns of B from which a product counts as wide."""
UNSEEN_CPU_MARGIN: Final = {1: 1.0, 2: 1.5}
"""Columns of B -> factor on a learned model's margin for a processor kind outside its training data
(docs/design/cost-models.md)."""
STALE_MODEL_MARGIN: Final = 2.0
"""Divisor of the accepted ratio for SpMV of 6 to 18 us that the default kernel computes on two threads.

It used one thread when the models were trained, so that predicted ratios are too low (`ops.matmul.is_model_stale`).
"""
AGREED: Final = 0.95
"""Maximum ratio of the analytic model at which it confirms the proposal of a learned model
(docs/design/cost-models.md)."""


def acceptance_ratio(problem: Problem, *, is_learned: bool, is_foreign: bool = False, guess: float = 1.0) -> float:
    """Return the largest predicted ratio to the default kernel at which a schedule is used unmeasured; 0: never.

    `guess` is the analytic model's ratio of the schedule. The margins are those of the operation's row in `OPS`
    (docs/design/cost-models.md).
    """
    row = OPS[problem.operation]
    agreed = row.agreed_margins if guess <= AGREED else {}
    margins = {**row.learned_margins, **agreed} if is_learned else row.statistics_margins
    margin = of_width(margins, problem.n_dense_cols)
    times = of_width(UNSEEN_CPU_MARGIN, problem.n_dense_cols) if is_foreign and is_learned else 1.0
    accepted = 0.0 if margin is None else max(0.0, 1.0 - float(margin) * times)
    return accepted / STALE_MODEL_MARGIN if _is_model_stale(problem) else accepted


def _is_model_stale(problem: Problem) -> bool:
    asked = OPS[problem.operation].is_model_stale
    if asked is None or problem.transposed or problem.threads < 2:
        return False
    return asked(problem.matrix.n_rows, problem.matrix.nnz, problem.n_dense_cols)


def is_accepted(schedule: SuperSchedule, ratio: float, *, most: float, is_learned: bool) -> bool:
    """Return whether `schedule` may be used unmeasured: predicted `ratio` at most `most`, and a cheap row order.

    A learned model may choose the cheap row order "first". The analytic model does not predict row orders, and the
    other orders take as long as ten products to compute.
    """
    orders = ("", "first") if is_learned else ("",)
    return schedule.format.rows in orders and ratio <= most
