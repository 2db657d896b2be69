"""The door to the spaces: the same schedules for problems of one outline, and nobody's arrays kept."""

from __future__ import annotations

import gc
import weakref

import numpy as np
from autosparse.tuner import spaces

from autosparse.pattern import Pattern
from autosparse.problem import Problem
from autosparse.target import Target


def sampled(n: int) -> Problem:
    pattern = Pattern(n, n, np.arange(n + 1, dtype=np.int32), np.arange(n, dtype=np.int32))
    return Problem(
        operation="sddmm", pattern=pattern, transposed=False, n_dense_cols=32, dtype="float32", threads=2,
        deterministic=False, target=Target.host(),
    )  # fmt: skip


def all_can_be_lowered(operation, schedule):
    return None


def test_problems_of_one_outline_share_their_schedules_and_no_pattern_is_kept():
    problem = sampled(40)
    found = spaces.candidates(problem, all_can_be_lowered)
    assert found
    assert spaces.candidates(sampled(40), all_can_be_lowered) is found
    pattern = weakref.ref(problem.pattern)
    del problem
    gc.collect()
    assert pattern() is None


def test_few_spaces_are_remembered():
    for n in range(2, spaces.MOST_KNOWN + 10):
        spaces.candidates(sampled(n), all_can_be_lowered)
    assert len(spaces._known) <= spaces.MOST_KNOWN
