"""Tests of the benchmark that replays which candidates each search policy would have measured."""

from __future__ import annotations

import itertools

import asked_again
import pytest
from autosparse.tuner.analytic.matmul import Proposal
from autosparse.tuner.space import families as space

from autosparse.core.schedule import SuperSchedule


def of_rows(r: int, prefetch: int, unroll: int) -> SuperSchedule:
    return space.schedule("matmul", "ucu", {"r": r}, tile=32, prefetch=prefetch, unroll=unroll)


SCHEDULES = [
    of_rows(r, ahead, unroll) for r, ahead, unroll in itertools.product((2, 3, 4, 8), (0, 4, 8, 16), (1, 2, 4))
]


def case_of(ratios: dict[int, float], expected: dict[int, float], *, is_held_out: bool = False) -> asked_again.Case:
    """Return a case with times and predictions by rows of a block; the predictions prefer early schedules slightly."""
    named = [
        Proposal(one, expected[one.format.split("i")] + 1e-3 * one.prefetch + 1e-4 * one.unroll) for one in SCHEDULES
    ]
    timed = [ratios[one.format.split("i")] for one in SCHEDULES]
    return asked_again.Case(named, [1.0] * len(named), timed, is_held_out)


def test_both_policies_choose_eighteen_and_the_same_first_ones() -> None:
    case = case_of({2: 0.9, 3: 0.9, 4: 0.9, 8: 0.9}, {2: 0.5, 3: 0.6, 4: 0.7, 8: 0.8})
    once, again = asked_again.at_once(case), asked_again.asked_again(case)
    for chosen in (once, again):
        assert len(chosen) == len(set(chosen)) == 18
    assert once[:10] == again[:10]
    formats = [case.named[at].schedule.format for at in once[:10]]
    assert [formats.count(one) for one in dict.fromkeys(formats)] == [4, 4, 2]


def test_quality_is_of_the_best_or_the_default_kernel() -> None:
    case = case_of({2: 2.0, 3: 0.8, 4: 0.9, 8: 0.4}, {2: 0.5, 3: 0.6, 4: 0.7, 8: 0.8})
    assert case.quality([0]) == pytest.approx(0.4)  # blocks of two rows: the default kernel is better
    assert case.quality(range(len(SCHEDULES))) == 1.0


def test_reports_keep_groups_apart() -> None:
    even = {2: 0.5, 3: 0.5, 4: 0.5, 8: 0.5}
    lines = asked_again.report("spmm32", [case_of(even, even), case_of(even, even, is_held_out=True)]).splitlines()
    assert [line.split("|")[2].strip() for line in lines[2:]] == ["at once", "asked again"]
    assert all(line.count("1.0000") == 2 for line in lines[2:])
    assert "| 0 |" in asked_again.report("spmm32", [case_of(even, even)])
