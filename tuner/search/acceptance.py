"""What is taken on a model's word alone, unmeasured (docs/design/cost-models.md)."""

from __future__ import annotations

from typing import Final

from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.ops import OPS
from autosparse.ops.base import of_width

WIDE: Final = 128
"""Columns of B from which a product is a wide one."""
UNSEEN_CPU_MARGIN: Final = {1: 1.0, 2: 1.5}
"""Columns of B -> times the margin that a model is held to on a kind of processor that it has not seen
(docs/design/cost-models.md)."""
STALE_MODEL_MARGIN: Final = 2.0
"""Times as much that estimates must promise where the default kernel takes two threads since models were trained."""
AGREED: Final = 0.95
"""Ratio by the statistics from which they second a learned model's proposal (docs/design/cost-models.md)."""


def acceptance_ratio(problem: Problem, *, is_learned: bool, is_foreign: bool = False, guess: float = 1.0) -> float:
    """Predicted time over the default kernel's from which a schedule is taken, of which the statistics expect `guess`.

    0: none is (tables of docs/design/cost-models.md).
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
    """Whether `schedule` is taken unmeasured: `most` is the ratio believed; `is_learned`: on the learned model's word.

    Of orders of rows only the cheap one, and the statistics know none: the other takes as long as ten products.
    """
    orders = ("", "first") if is_learned else ("",)
    return schedule.format.rows in orders and ratio <= most
