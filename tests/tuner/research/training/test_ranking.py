"""Tests of ranking metrics: against SciPy, and on rankings of known quality, without torch."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
import scipy.stats
from autosparse.tuner.research.training.ranking import Ranking, kendall_tau, known_order, ordered_pairs, top_quality
from hypothesis import given
from hypothesis import strategies as st

NUMBERS = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 6)), min_size=2, max_size=40)


@given(NUMBERS)
def test_kendalls_tau_is_that_of_scipy(pairs):
    costs, ratios = np.array(pairs, dtype=np.float64).T
    want = scipy.stats.kendalltau(costs, ratios).statistic
    got = kendall_tau(costs, ratios, np.zeros(len(pairs), bool))
    np.testing.assert_allclose(got, want, rtol=1e-12, equal_nan=True)


@given(NUMBERS)
def test_ordered_pairs_count_what_a_loop_counts(pairs):
    costs, ratios = np.array(pairs, dtype=np.float64).T
    censored = ratios > 4
    right, known = 0.0, 0
    for i in range(len(pairs)):
        for j in range(len(pairs)):
            if ratios[i] > ratios[j] and not censored[j]:  # i certainly takes longer
                known += 1
                right += 1.0 if costs[i] > costs[j] else 0.5 if costs[i] == costs[j] else 0.0
    got = ordered_pairs(costs, ratios, censored)
    np.testing.assert_allclose(got, right / known if known else np.nan, equal_nan=True)


def test_a_lower_bound_orders_only_against_shorter_times():
    order = known_order(np.array([1.0, 2.0, 3.0]), np.array([False, True, False]))
    assert order.tolist() == [[0, -1, -1], [1, 0, 0], [1, 0, 0]]


def test_perfect_reversed_and_blind_rankings():
    ratios = np.linspace(0.5, 2.0, 40)
    exact = np.zeros(40, bool)
    assert ordered_pairs(ratios, ratios, exact) == kendall_tau(ratios, ratios, exact) == 1
    assert ordered_pairs(-ratios, ratios, exact) == 0
    assert kendall_tau(-ratios, ratios, exact) == -1
    assert ordered_pairs(np.zeros(40), ratios, exact) == 0.5
    assert top_quality(ratios, ratios, 1) == 1
    assert top_quality(-ratios, ratios, 1) == pytest.approx(0.25)
    assert top_quality(-ratios, ratios, 40) == 1


def test_rankings_of_many_patterns():
    exact = np.zeros(3, bool)
    good = (np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.0, 2.0]), exact)
    bad = (np.array([3.0, 2.0, 1.0]), np.array([0.5, 1.0, 2.0]), exact)
    both = Ranking.of([good, bad])
    assert (both.n_patterns, both.ordered_pairs, both.kendall_tau) == (2, 0.5, 0.0)
    assert both.top[1] == pytest.approx(0.5)  # geometric mean of 1 and 1/4
    assert both.top_low[1] == pytest.approx(0.25 + 0.05 * 0.75)
    assert both.top[5] == 1
    assert both.speedup[1] == pytest.approx(1.0)
    assert both.best_speedup == pytest.approx(2.0)
    assert Ranking.from_json(json.loads(json.dumps(asdict(both)))) == both
    with pytest.raises(ValueError, match="no pattern"):
        Ranking.of([])
