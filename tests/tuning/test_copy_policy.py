"""Tests of the choice between a packed copy and its fallback, with scripted costs: no clock, no kernel."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosparse.tuning.trials.copy_policy import FIRST_PROBE, PROBE_LOOKS, THROUGH_PYTHON_S, CopyPolicy

US = 1e-6


def used(choice: CopyPolicy, n: int, *, look_s: float, repack_s: float | None = None, is_exposed: bool = True) -> int:
    """Run up to `n` products with a check before each; return how many the packed kernel computed."""
    for at in range(n):
        if not choice.looked(1, look_s=look_s, is_exposed=is_exposed, repack_s=repack_s):
            return at
    return n


def test_a_look_that_costs_more_than_the_kernel_saves_is_not_made() -> None:
    choice = CopyPolicy(gain_s=20 * US)
    assert used(choice, 10, look_s=40 * US) == 0
    assert not choice.serves_packed


def test_a_look_that_costs_less_is_made() -> None:
    choice = CopyPolicy(gain_s=50 * US)
    assert used(choice, 500, look_s=40 * US) == 500
    assert choice.n_changes == 0


def test_a_sharing_matrix_begins_with_the_fallback() -> None:
    choice = CopyPolicy(gain_s=20 * US)
    choice.expose(is_exposed=True, look_s=40 * US)
    assert not choice.serves_packed
    owning = CopyPolicy(gain_s=20 * US)
    owning.expose(is_exposed=False, look_s=0.0)
    assert owning.serves_packed


def test_unexposed_arrays_switch_to_the_packed_copy_at_the_next_check() -> None:
    choice = CopyPolicy(gain_s=20 * US)
    used(choice, 1, look_s=40 * US)
    assert not choice.recheck(64, n_invalidated=0, is_exposed=True)
    assert choice.recheck(64, n_invalidated=0, is_exposed=False)


def test_a_single_write_is_repacked_at_once() -> None:
    choice = CopyPolicy(gain_s=5 * US)
    for _ in range(20):
        assert choice.looked(1000, look_s=40 * US, is_exposed=False, repack_s=300 * US)
    assert choice.n_changes == 0


def test_values_that_change_at_every_product_are_repacked_where_that_pays() -> None:
    fast = CopyPolicy(gain_s=100 * US)
    assert used(fast, 500, look_s=20 * US, repack_s=40 * US, is_exposed=False) == 500
    slow = CopyPolicy(gain_s=30 * US)
    assert used(slow, 500, look_s=20 * US, repack_s=40 * US, is_exposed=False) < 40
    assert not slow.serves_packed


def test_values_that_stop_changing_bring_the_packed_copy_back() -> None:
    choice = CopyPolicy(gain_s=30 * US)
    used(choice, 500, look_s=20 * US, repack_s=40 * US, is_exposed=False)
    assert not choice.recheck(64, n_invalidated=64, is_exposed=False)
    assert choice.recheck(64, n_invalidated=0, is_exposed=False)


def test_costs_near_the_gain_do_not_cause_repeated_switching() -> None:
    """Check hysteresis: for check costs between 80 % and 100 % of the gain, the current kernel stays."""
    gain_s = 40 * US
    look_s = 0.9 * gain_s - THROUGH_PYTHON_S
    kept, gone = CopyPolicy(gain_s=gain_s), CopyPolicy(gain_s=gain_s)
    assert used(kept, 1000, look_s=look_s) == 1000
    used(gone, 1, look_s=2 * gain_s)
    gone.look_s = look_s
    for _ in range(FIRST_PROBE // 64 - 1):
        assert not gone.recheck(64, n_invalidated=0, is_exposed=True)


def test_a_fallback_is_tried_against_ever_more_rarely() -> None:
    """Check that retries of the packed copy, which detect cheaper checks, take less than 0.1 % of the products."""
    choice, n_looked, n_products = CopyPolicy(gain_s=20 * US), 0, 0
    used(choice, 1, look_s=40 * US)
    for _ in range(2000):
        n_products += 64
        if choice.recheck(64, n_invalidated=0, is_exposed=True):
            n_looked += used(choice, 10, look_s=40 * US) + 1
    assert PROBE_LOOKS <= n_looked < 0.001 * n_products
    assert not choice.serves_packed


def test_looks_that_became_cheaper_are_found_out() -> None:
    choice = CopyPolicy(gain_s=20 * US)
    used(choice, 1, look_s=40 * US)
    for _ in range(FIRST_PROBE // 64):
        choice.recheck(64, n_invalidated=0, is_exposed=True)
    assert choice.serves_packed
    assert used(choice, 100, look_s=5 * US) == 100


def test_an_unmeasured_gain_is_not_compared() -> None:
    assert used(CopyPolicy(), 100, look_s=1.0, repack_s=1.0) == 100


def test_samples_for_a_race_do_not_bring_a_kernel_back_or_send_it_away() -> None:
    choice = CopyPolicy(gain_s=20 * US)
    used(choice, 1, look_s=40 * US)
    n_changes = choice.n_changes
    assert used(choice, 10, look_s=40 * US, repack_s=1.0) == 10
    assert not choice.serves_packed
    assert choice.n_changes == n_changes


@given(
    gain_us=st.floats(1.0, 200.0), look_us=st.floats(0.0, 200.0), repack_us=st.floats(0.0, 500.0),
    events=st.lists(st.sampled_from(["quiet", "read", "write", "shared"]), min_size=300, max_size=600),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("bursts", [1, 40])
def test_never_much_slower_than_the_fallback_whatever_happens(
    gain_us: float, look_us: float, repack_us: float, events: list[str], bursts: int
) -> None:
    """Check the bound on the net loss by checks and repacking: 40 of them, and one for every eight events."""
    choice, lost_s, since, waited, touched = CopyPolicy(gain_s=gain_us * US), 0.0, 0, 0, 0
    for at in range(len(events)):
        event = events[at // bursts]
        if not choice.serves_packed:
            waited, touched = waited + 1, touched + (event in ("read", "write"))
            if waited == 64:
                choice.recheck(64, n_invalidated=touched, is_exposed=event == "shared")
                waited = touched = 0
            continue
        since += 1
        if event == "quiet":
            lost_s -= choice.gain_s or 0.0
            continue
        repack_s = repack_us * US if event == "write" else None
        lost_s += look_us * US
        is_kept = choice.looked(since, look_s=look_us * US, is_exposed=event == "shared", repack_s=repack_s)
        since = 0
        lost_s += ((repack_s or 0.0) - (choice.gain_s or 0.0)) if is_kept else 0.0
    worst_s = (look_us + repack_us) * US
    assert lost_s <= (40 + len(events) / 8) * worst_s
