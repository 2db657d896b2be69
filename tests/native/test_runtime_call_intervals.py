"""Tests of the rules that keep a short job on one thread where that shortens the program's call interval.

Times are simulated.
"""

from __future__ import annotations

import numpy as np
import pytest
from autosparse._native import runtime_api

from tests.native.hooks import hook
from tests.native.runtime_cases import needs_runtime

pytestmark = needs_runtime

N = 20_000
OWN_NS = 40_000


def share_alone(
    shared_ns: np.ndarray, alone_ns: np.ndarray, *, own_ns: int = OWN_NS, n_asleep: int = 0, wake_ns: int = 0
) -> float:
    """Return the fraction of the calls that stays on one thread.

    After a call on one thread, the next `n_asleep` calls find helpers asleep, unless a helper is woken, which takes
    `wake_ns`.
    """
    shared, alone = (np.ascontiguousarray(one, dtype=np.int64) for one in (shared_ns, alone_ns))
    pointers = [runtime_api.ffi.cast("const int64_t *", one.ctypes.data) for one in (shared, alone)]
    return hook("asp_intervals_alone")(*pointers, len(shared), own_ns, n_asleep, wake_ns) / len(shared)


def noisy(rng: np.random.Generator, ns: float, n: int = N) -> np.ndarray:
    """Return intervals of about `ns`, one in twenty of them much longer."""
    return ns * rng.normal(1.0, 0.02, n) * np.where(rng.random(n) < 0.05, 20.0, 1.0)


@pytest.mark.parametrize("between_ns", [30_000, 200_000])
def test_the_faster_way_serves(between_ns):
    rng = np.random.default_rng(0)
    slow, quick = (noisy(rng, between_ns + OWN_NS + more) for more in (50_000, 0))
    assert share_alone(slow, quick) > 0.97
    assert share_alone(quick, slow) < 0.02


def test_no_trial_where_the_difference_is_small():
    rng = np.random.default_rng(0)
    assert share_alone(noisy(rng, 50 * OWN_NS), noisy(rng, 49 * OWN_NS)) == 0.0


def test_a_loop_of_products_alone_is_hardly_disturbed():
    """Check that the first trial of one thread comes late."""
    shared, alone = np.full(500, OWN_NS + 2_000), np.full(500, 2 * OWN_NS)
    assert share_alone(shared, alone) == 0.0
    assert share_alone(np.resize(shared, N), np.resize(alone, N)) < 0.005


def test_another_part_of_the_program_is_judged_for_itself():
    """Check a loop of products, followed by longer call intervals that are shorter on one thread."""
    n = 5_000
    shared = np.concatenate((np.full(n, OWN_NS + 2_000), np.full(n, 180_000)))
    alone = np.concatenate((np.full(n, 2 * OWN_NS), np.full(n, 150_000)))
    assert 0.47 < share_alone(shared, alone) < 0.51


@pytest.mark.parametrize("n_asleep", [0, 10, 100])
@pytest.mark.parametrize("between_ns", [1_000, 20_000])
def test_helpers_asleep_after_a_trial_do_not_bias_the_decision(between_ns, n_asleep):
    """Check that helpers that fall asleep during a trial do not make one thread look as fast.

    Products take 43 µs alone and 18 µs shared.
    """
    rng = np.random.default_rng(0)
    shared, alone = (noisy(rng, between_ns + own_ns) for own_ns in (18_000, 43_000))
    assert share_alone(shared, alone, own_ns=18_000, n_asleep=n_asleep) < 0.02


@pytest.mark.parametrize("wake_ns", [0, 16_000, 35_000])
def test_calls_shorter_than_waking_helpers_come_back_to_them(wake_ns):
    """Check a program part that is faster on one thread, followed by consecutive products that are faster on two."""
    n_before = 4_000
    shared = np.concatenate((np.full(n_before, 30_000), np.full(N, 2_600)))
    alone = np.concatenate((np.full(n_before, 20_000), np.full(N, 4_000)))
    n_alone = share_alone(shared, alone, own_ns=2_600, n_asleep=15, wake_ns=wake_ns) * len(shared)
    assert n_before - 200 < n_alone < n_before + 1_000


@pytest.mark.parametrize("between_ns", [100_000, 1_000_000])
def test_a_decision_for_one_thread_is_soon_tried_again(between_ns):
    """Check that sharing is used again after a slow phase, within 100 ms, or 40 calls and a trial."""
    own_ns, n_before = 100_000, 2_000
    alone = np.full(N, between_ns + 2 * own_ns)
    shared = np.concatenate((np.full(n_before, 2 * alone[0]), np.full(N - n_before, between_ns + own_ns)))
    revised = max(40, 100_000_000 // alone[0]) + 60
    n_alone = share_alone(shared, alone, own_ns=own_ns) * N
    assert n_before * 0.8 < n_alone < n_before + revised


def test_jobs_of_milliseconds_are_not_tried():
    """Check a job that both ways make last longer than sharing costs, in a program whose intervals vary."""
    rng = np.random.default_rng(0)
    own_ns = 3_500_000
    shared, alone = (31_000_000 + lasts_ns + 500_000 * rng.standard_normal(N) for lasts_ns in (own_ns, 6_000_000))
    assert share_alone(shared, alone, own_ns=own_ns) == 0.0


@pytest.mark.parametrize("n", [60, 100, 500, N])
@pytest.mark.parametrize("slower", [0.02, 0.1, 0.25, 0.5, 0.75, 2.0, 10.0])
@pytest.mark.parametrize("own_ns", [OWN_NS, 1_000_000])
def test_trials_cost_a_small_part_of_the_time(n, slower, own_ns):
    """Check that trials prolong a program that is faster with sharing by 1/25 at most, wherever it ends."""
    between_ns = max(own_ns, slower * own_ns)
    shared = np.full(n, own_ns + between_ns)
    alone = shared + slower * own_ns
    assert share_alone(shared, alone, own_ns=own_ns) * slower * own_ns < shared[0] / 25


@pytest.mark.parametrize("n_items", [2, 10_000])
def test_a_job_of_another_length_is_judged_for_itself(n_items):
    """Check that a short product in two parts does not keep a long one, which has two parts as well, on one thread."""
    are_one_job = hook("asp_are_one_job")
    assert are_one_job(n_items, 2, 30_000, 31_000)
    assert not are_one_job(n_items, 2, 30_000, 300_000)


def arrival_after(mean_ns: int, took_ns: list[int]) -> int:
    """Return the mean arrival time of woken helpers after arrivals that took these times."""
    took = runtime_api.ffi.new("int64_t[]", took_ns)
    return int(hook("asp_arrival_after")(mean_ns, took, len(took_ns)))


def test_a_helper_whose_core_served_another_process_keeps_no_job_on_one_thread():
    """Check jobs of 0.2 ms: sharing them needs a mean arrival time below their duration."""
    assert arrival_after(25_000, [30_000] * 50 + [4_000_000]) < 50_000
    assert arrival_after(25_000, [4_000_000, 30_000, 30_000] * 100) < 100_000
    assert arrival_after(25_000, [4_000_000] * 50) > 200_000


def test_the_mean_arrival_time_follows_common_times():
    assert 55_000 < arrival_after(25_000, [60_000] * 50) <= 60_000
    assert 25_000 <= arrival_after(2_000_000, [25_000] * 100) < 27_000
    assert arrival_after(100, [40_000] * 20) > 30_000
