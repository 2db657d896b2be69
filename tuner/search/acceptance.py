"""What is taken on a model's word alone, unmeasured (ADR 25)."""

from __future__ import annotations

from typing import Final

from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.ops import OPS
from autosparse.ops.base import of_width

WIDE: Final = 128
"""Columns of B from which a product is a wide one."""


def believable_ratio(problem: Problem, *, is_learned: bool) -> float:
    """Predicted time over the default kernel's from which a schedule is taken; 0: none is.

    The learned model was shown what it would choose: see the tables of ADR 25 and 28.
    """
    row = OPS[problem.operation]
    margin = of_width(row.learned_margins if is_learned else row.statistics_margins, problem.n_dense_cols)
    return 0.0 if margin is None else 1.0 - float(margin)


def is_believed(problem: Problem, schedule: SuperSchedule, ratio: float, *, is_learned: bool) -> bool:
    """Whether `schedule` is expected to save enough to be taken unmeasured; `is_learned`: on the learned model's word.

    Of orders of rows only the cheap one, and the statistics know none: reverse Cuthill-McKee takes as long as some ten
    products.
    """
    orders = ("", "first") if is_learned else ("",)
    return schedule.format.rows in orders and ratio <= believable_ratio(problem, is_learned=is_learned)
