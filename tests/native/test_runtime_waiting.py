"""Tests of how long a helper spins for the next job: the rules of waiting.h, with simulated times."""

from __future__ import annotations

import numpy as np
import pytest
from autosparse._native import runtime_api

from tests.native.hooks import hook, needs_hooks
from tests.native.runtime_cases import needs_runtime

pytestmark = [needs_runtime, needs_hooks]

US = 1_000
SHORT, LONG = 60 * US, 1_150 * US
AUTO, ACTIVE, PASSIVE = range(3)


def pointer(values: np.ndarray) -> object:
    return runtime_api.ffi.cast("const int64_t *", values.ctypes.data)


def linger_ns(gaps_us: list[float], *, how: int = AUTO, is_limited: bool = False) -> int:
    """Return how long a helper lingers after jobs of 100 us with these gaps between them."""
    begins = np.cumsum([1.0, *(100.0 + gap for gap in gaps_us)]) * US
    begins = begins.astype(np.int64)
    ends = begins + 100 * US
    return hook("asp_linger_after")(pointer(begins), pointer(ends), len(begins), how, is_limited)


@pytest.mark.parametrize("gap_us", [0, 80, 300, 1_000])
def test_short_gaps_keep_helpers_awake_for_a_millisecond(gap_us):
    assert linger_ns([gap_us] * 20) == LONG


@pytest.mark.parametrize("gap_us", [1_200, 10_000, 20_000])
def test_longer_gaps_keep_helpers_awake_only_briefly(gap_us):
    """Check gaps above 1.15 ms: a helper spins for 60 µs only, which is little CPU time per product."""
    assert linger_ns([gap_us] * 20) == SHORT


def test_a_quota_of_cpu_time_is_not_spent_on_waiting():
    assert linger_ns([100] * 20, is_limited=True) == SHORT


def test_a_single_long_gap_changes_nothing():
    assert linger_ns([100] * 20 + [20_000]) == LONG


def test_the_first_jobs_of_a_process_are_not_waited_for():
    assert linger_ns([100]) == SHORT


def test_callers_may_ask_for_either_way():
    assert linger_ns([20_000] * 20, how=ACTIVE) == LONG
    assert linger_ns([100] * 20, how=PASSIVE) == 0


def refusals(delays_us: np.ndarray, *, slices: int = 1, step_us: int = 10_000) -> int:
    """Return how many checks refuse long waiting, with one check every `step_us` and `slices` time slices."""
    delays = (np.asarray(delays_us) * US).astype(np.int64)
    n_slices = np.arange(len(delays), dtype=np.int64) * slices
    return hook("asp_looks_that_refuse")(pointer(delays), pointer(n_slices), len(delays), step_us * US)


def test_threads_that_wait_for_a_core_end_long_waiting():
    looks = np.arange(100)
    assert refusals(looks * 0) == 0
    assert refusals(looks * 100) == 0  # 1 % of the time: wake-ups
    assert refusals(looks * 5_000) >= 98  # a thread waits for a core half of the time
    assert refusals(looks * 1_500, slices=50) == 0  # fifty threads were woken, 30 us each


def test_one_delay_of_milliseconds_in_half_a_second_does_not_end_long_waiting():
    """Check delays by a service that wakes twice a second: waiting costs it nothing, and products two threads less."""
    delays = np.repeat(np.arange(4) * 2_500, 50)
    assert refusals(delays) == 0


def test_small_delays_end_long_waiting_once_they_have_added_up():
    assert 0 < refusals(np.arange(30) * 1_000) < 30


def test_waiting_is_refused_for_longer_each_time():
    """Check the feedback of waiting that itself occupies the cores: delays grow only while it is allowed."""
    delays, total = [], 0
    for look in range(1000):
        total += 5_000 if look % 6 == 0 else 0
        delays.append(total)
    assert refusals(np.array(delays)) > 900


def test_delays_that_are_not_known_refuse():
    assert refusals(np.full(10, -1.0)) == 10


def test_a_quiet_process_is_allowed_again():
    delays = np.concatenate([np.arange(20) * 5_000, np.full(300, 19 * 5_000)])
    assert refusals(delays) < 20 + 110
