"""Tests of the rules for concurrent callers (concurrent_callers.c), which get no helper threads, with simulated
times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from autosparse._native import runtime_api

from tests.native.hooks import hook
from tests.native.runtime_cases import needs_runtime

pytestmark = needs_runtime

Calls = Sequence[tuple[int, float]]


def concurrent_calls(calls: Calls) -> int:
    """Return in how many of the calls (thread, ms) another thread counted as a concurrent caller."""
    callers = np.array([thread for thread, _ in calls], np.int64)
    now_ns = np.array([1_000_000 * (1.0 + ms) for _, ms in calls]).astype(np.int64)
    pointers = [runtime_api.ffi.cast("const int64_t *", one.ctypes.data) for one in (callers, now_ns)]
    return hook("asp_concurrent_calls")(*pointers, len(calls))


def turns(begin: int, end: int) -> Calls:
    """Return calls of two threads that alternate, each every other millisecond."""
    return [(1 + ms % 2, ms) for ms in range(begin, end)]


def alone(begin: int, end: int) -> Calls:
    """Return calls of the first thread only, one per millisecond."""
    return [(1, ms) for ms in range(begin, end)]


def test_a_single_caller_is_not_concurrent():
    assert concurrent_calls(alone(0, 100)) == 0


def test_alternating_callers_are_concurrent():
    assert concurrent_calls(turns(0, 100)) == 99  # all but the first call


@pytest.mark.parametrize("away_ms", [25, 60, 90])
def test_a_neighbour_that_waits_for_a_lock_is_not_gone(away_ms):
    """Check that a thread still counts while it is blocked for a while by a lock or for want of a core."""
    calls, at = list(turns(0, 100)), 100
    for _ in range(10):
        calls += [*alone(at, at + away_ms), *turns(at + away_ms, at + away_ms + 10)]
        at += away_ms + 10
    assert concurrent_calls(calls) == len(calls) - 1


def test_a_neighbour_that_called_once_is_soon_forgotten():
    assert concurrent_calls([*alone(0, 50), (2, 50.0), *alone(51, 200)]) <= 22


@pytest.mark.parametrize(("beside_ms", "after_ms"), [(10, 20), (100, 100), (400, 400), (3_000, 500)])
def test_concurrency_persists_as_long_as_it_lasted_but_at_most_half_a_second(beside_ms, after_ms):
    calls = [*turns(0, beside_ms), *alone(beside_ms, beside_ms + 2_000)]
    assert concurrent_calls(calls) == pytest.approx(beside_ms + after_ms, abs=4)


def test_a_rare_caller_does_not_count_as_concurrent():
    """Check a thread that calls once in 50 ms for ten seconds: the other one has helpers most of the time."""
    calls = [one for begin in range(0, 10_000, 50) for one in [(2, float(begin)), *alone(begin + 1, begin + 50)]]
    assert concurrent_calls(calls) < 0.5 * len(calls)
