"""Prices learn from every step; one that was interrupted does not spoil them."""

from __future__ import annotations

import pytest
from autosparse.tuner.search.prices import DEFAULT_RATES_S, Prices


def test_a_step_that_was_stopped_for_a_minute_is_no_price():
    prices = Prices()
    for _ in range(6):
        prices = prices.observed("compile", 0.1)
    stopped = prices.observed("compile", 60.0)
    assert stopped.price_s("compile") < 0.3
    for _ in range(8):
        stopped = stopped.observed("compile", 0.1)
    assert stopped.price_s("compile") == pytest.approx(0.1, rel=0.5)


def test_what_stays_slow_is_believed_soon():
    prices = Prices()
    for _ in range(6):
        prices = prices.observed("compile", 0.1)
    for _ in range(12):
        prices = prices.observed("compile", 5.0)
    assert prices.price_s("compile") > 3.0


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
def test_the_first_observations_count_whatever_they_are(factor):
    rate_s = DEFAULT_RATES_S["pack"] * factor
    assert Prices().observed("pack", 100 * rate_s, 100).price_s("pack") == pytest.approx(rate_s)
