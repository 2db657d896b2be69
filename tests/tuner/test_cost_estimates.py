"""Tests of cost estimates: they learn from every step, except from one that was interrupted."""

from __future__ import annotations

import pytest
from autosparse.tuner.search.cost_estimates import CostEstimates

from autosparse.tuning.trials.operand_adapter import LARGE_ENTRIES, sized


def test_an_outlier_does_not_change_the_cost_estimate():
    cost_estimates = CostEstimates()
    for _ in range(6):
        cost_estimates.observe("compile", 0.1)
    cost_estimates.observe("compile", 60.0)
    assert cost_estimates.price_s("compile") < 0.3
    for _ in range(8):
        cost_estimates.observe("compile", 0.1)
    assert cost_estimates.price_s("compile") == pytest.approx(0.1, rel=0.5)


def test_persistent_slowness_soon_changes_the_cost_estimate():
    cost_estimates = CostEstimates()
    for _ in range(6):
        cost_estimates.observe("compile", 0.1)
    for _ in range(12):
        cost_estimates.observe("compile", 5.0)
    assert cost_estimates.price_s("compile") > 3.0


@pytest.mark.parametrize("factor", [1e-3, 1.0, 10.0])
def test_the_first_observation_counts_whatever_it_is(factor):
    cost_estimates = CostEstimates()
    seconds = cost_estimates.price_s("pack", 100) * factor
    cost_estimates.observe("pack", seconds, 100)
    assert cost_estimates.price_s("pack", 100) == pytest.approx(seconds)


def test_a_tiny_first_observation_does_not_inflate_costs_of_large_matrices():
    """Check that 2 ms for 844 bytes, most of it imports, is not taken as a rate: 120 MB would then cost 260 s."""
    cost_estimates = CostEstimates()
    cost_estimates.observe("hash", 1.84e-3, 844)
    cost_estimates.observe("features", 6.6e-4, 90)
    assert cost_estimates.price_s("hash", 120e6) < 0.5
    assert cost_estimates.price_s("features", 1e5) < 0.1


def test_a_price_of_a_busy_machine_does_not_hold_for_ever():
    """Check that an estimate of a minute per compilation does not persist: no step would be bought to correct it."""
    cost_estimates = CostEstimates()
    for _ in range(12):
        cost_estimates.observe("compile", 60.0)
    assert cost_estimates.price_s("compile") > 20.0
    again = CostEstimates.from_record(cost_estimates.to_record())
    assert again.price_s("compile") == pytest.approx(10 * CostEstimates().price_s("compile"))


@pytest.mark.parametrize("kind", ["pack", "compare"])
def test_cost_estimates_of_small_and_large_matrices_are_separate(kind):
    """Check that small and large matrices have separate rates, because large ones need new pages."""
    small, large = LARGE_ENTRIES // 100, LARGE_ENTRIES * 10
    cost_estimates = CostEstimates()
    before_s = cost_estimates.price_s(sized(kind, large), large)
    for _ in range(20):
        cost_estimates.observe(sized(kind, small), 1e-9 * small, small)
    assert cost_estimates.price_s(sized(kind, large), large) == before_s
    small_s = cost_estimates.price_s(sized(kind, small), small)
    cost_estimates.observe(sized(kind, large), 3 * before_s, large)
    assert cost_estimates.price_s(sized(kind, large), large) == pytest.approx(3 * before_s)
    assert cost_estimates.price_s(sized(kind, small), small) == small_s
    again = CostEstimates.from_record(cost_estimates.to_record())
    assert again.price_s(sized(kind, large), large) == pytest.approx(3 * before_s)
