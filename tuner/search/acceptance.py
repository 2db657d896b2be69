"""What is taken on a model's word alone, unmeasured (ADR 25)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule

STATISTICS_MARGINS: Final[Mapping[str, float]] = {"matmul": 0.20, "mttkrp": 0.10}
"""Operation -> share of the time that the statistics model must expect to save; without one nothing is believed.

Its errors are about that large. Of 27 choices on generated tensors of order 4 and 5, 23 were faster.
"""
LEARNED_MARGINS: Final[Mapping[str, float]] = {"matmul": 0.10, "sddmm": 0.08, "mttkrp": 0.10}
"""The same of the learned model, which was shown what it would choose: see the tables in ADR 25 and 28."""
WIDE: Final = 128
"""Columns of B from which a product is a wide one."""
STATISTICS_WIDE_MARGIN: Final = 0.30
"""The statistics' of wide products: seven that they expected to save 20 to 25 % came to nothing in the mean."""


def believable_ratio(problem: Problem, *, is_learned: bool) -> float:
    """Predicted time over the default kernel's from which a schedule is taken; 0: none is."""
    margin = (LEARNED_MARGINS if is_learned else STATISTICS_MARGINS).get(problem.operation)
    if margin is None:
        return 0.0
    if not is_learned and problem.operation == "matmul" and problem.n_dense_cols >= WIDE:
        margin = STATISTICS_WIDE_MARGIN
    return 1.0 - margin


def is_believed(problem: Problem, schedule: SuperSchedule, ratio: float, *, is_learned: bool) -> bool:
    """Whether `schedule` is expected to save enough to be taken unmeasured; `is_learned`: on the learned model's word.

    Of orders of rows only the cheap one, and the statistics know none: reverse Cuthill-McKee takes as long as some ten
    products.
    """
    orders = ("", "first") if is_learned else ("",)
    return schedule.format.rows in orders and ratio <= believable_ratio(problem, is_learned=is_learned)
