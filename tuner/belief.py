"""What is taken on a model's word alone, unmeasured (ADR 25)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from autosparse.tuner.space import WHOLE_ROW

from autosparse.problem import Problem
from autosparse.schedule import SuperSchedule

ESTIMATE_MARGIN: Final = 0.20
"""A schedule is taken unmeasured only when the model expects it to save this share: its errors are about that large."""
MARGINS: Final[Mapping[str, float]] = {"mttkrp": 0.10}
"""Of operations where that pays: of 27 such choices on generated tensors of order 4 and 5, 23 were faster."""
ORDERED_MARGIN: Final = 0.10
"""The same where the learned model wants SpMM by the runtime's own loops with rows in order: it knows these best."""


def believable_ratio(problem: Problem) -> float:
    """Predicted time over the default kernel's from which a schedule that keeps rows as they are is taken."""
    return 1.0 - MARGINS.get(problem.operation, ESTIMATE_MARGIN)


def is_believed(problem: Problem, schedule: SuperSchedule, ratio: float, *, is_learned: bool) -> bool:
    """Whether `schedule` is expected to save enough to be taken unmeasured; nothing ever is of sampled products.

    Orders of rows only in SpMM by the runtime's own loops, on the learned model's word, and only the cheap order:
    reverse Cuthill-McKee takes as long as some ten products.
    """
    order = schedule.format.rows
    if problem.operation == "sddmm":
        return False
    if not order:
        return ratio <= believable_ratio(problem)
    is_known = is_learned and problem.operation == "matmul"
    return is_known and order == "first" and schedule.dense_split("j") == WHOLE_ROW and ratio <= 1.0 - ORDERED_MARGIN
