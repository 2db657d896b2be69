"""Tests of tuning costs carried over from earlier processes: bounds for one run and for all runs together."""

from __future__ import annotations

from pathlib import Path

import pytest
from autosparse.cache.accounts.rows import Spent
from hypothesis import given
from hypothesis import strategies as st

from autosparse.dispatch.accounts import RUN_SHARE, ProblemAccount
from autosparse.tuning import amortization
from autosparse.tuning.amortization import Outlook, TuningAccount
from tests.tuner.fakes import FakeClock
from tests.tuning.test_live import FakeSession, make_live_tuner, simulate

START_S = 0.4
"""Seconds that a process takes before its first product."""


def account_of(spent: Spent) -> ProblemAccount:
    return ProblemAccount(Path("unused"), Path("unused"), b"k" * 16, spent=spent)


def runs_of(
    cost_estimates: list[float], *, n_processes: int, n_runs: int, default_s: float, overhead: float = 0.04
) -> tuple[list[float], list[float]]:
    """Return the seconds of each run, and how many of them went into tuning.

    Completed steps persist: a later process starts with the remaining ones.
    """
    spent, left, run_s, tuning_s = Spent(), list(cost_estimates), list[float](), list[float]()
    for _ in range(n_processes):
        live_tuner = make_live_tuner(overhead=overhead)
        live_tuner.state.account = account_of(spent)
        session = FakeSession(FakeClock(), left, misjudged=1.0, challenger_s=1.0)
        run_s.append(simulate(live_tuner, session, n_runs=n_runs, default_s=default_s))
        tuning_s.append(live_tuner.tuning_s)
        done_s = live_tuner.tuning_s + 1e-9
        while left and left[0] <= done_s:
            done_s -= left.pop(0)
        product_s = n_runs * default_s
        spent = spent + Spent(
            n_calls=n_runs, n_processes=1, product_s=product_s, tuning_s=live_tuner.tuning_s,
            life_s=START_S + run_s[-1],
        )  # fmt: skip
    return run_s, tuning_s


@given(
    cost_estimates=st.lists(st.floats(1e-4, 0.2), min_size=1, max_size=6),
    default_s=st.floats(1e-5, 1e-3),
    n_runs=st.integers(10, 300),
    overhead=st.sampled_from([0.01, 0.04, 0.2]),
)
def test_no_run_costs_more_than_its_share_and_all_together_no_more_than_theirs(
    cost_estimates, default_s, n_runs, overhead
):
    terms = {"n_processes": 8, "n_runs": n_runs, "default_s": default_s, "overhead": overhead}
    run_s, tuning_s = runs_of(cost_estimates, **terms)
    product_s = n_runs * default_s
    longest_s = START_S + max(run_s)
    assert max(tuning_s) <= max(overhead * product_s, RUN_SHARE * longest_s) + 1e-6
    assert sum(tuning_s) <= overhead * product_s * len(tuning_s) + 1e-6


def test_a_short_script_is_tuned_after_some_runs():
    """Simulate scripts of 0.3 s: steps take 30, 20 and 25 ms, and each run earns 12 ms for tuning."""
    run_s, tuning_s = runs_of([0.03, 0.02, 0.025], n_processes=12, n_runs=1500, default_s=2e-4)
    assert tuning_s[0] == 0.0
    assert sum(tuning_s) == pytest.approx(0.075, abs=1e-6)
    assert sum(tuning_s[9:]) == 0.0
    assert max(run_s) + START_S <= 1.1 * (run_s[0] + START_S)


def test_without_an_account_a_short_script_is_never_tuned():
    for _ in range(12):
        session = FakeSession(FakeClock(), [0.03], misjudged=1.0, challenger_s=1.0)
        live_tuner = make_live_tuner()
        simulate(live_tuner, session, n_runs=1500, default_s=2e-4)
        assert live_tuner.tuning_s == 0.0


@pytest.mark.parametrize(
    ("spent", "price_s", "is_earned"),
    [
        (None, 0.01, False),
        (Spent(n_calls=1500, n_processes=1, product_s=0.3, life_s=0.7), 0.01, True),
        (Spent(n_calls=1500, n_processes=1, product_s=0.3, life_s=0.7), 0.02, False),  # 4 % of 0.35 s
        (Spent(n_calls=9000, n_processes=6, product_s=1.8, life_s=4.2), 0.065, True),
        (Spent(n_calls=9000, n_processes=6, product_s=1.8, life_s=4.2), 0.072, False),  # 10 % of 0.7 s
        (Spent(n_calls=9000, n_processes=6, product_s=1.8, tuning_s=0.06, life_s=4.2), 0.05, False),
        (Spent(n_calls=9000, n_processes=6, product_s=1.8, tuning_s=0.06, saved_s=0.1, life_s=4.2), 0.05, True),
    ],
)
def test_budget_earned_by_earlier_processes(spent, price_s, is_earned):
    account = TuningAccount(n_calls=250, product_s=0.05)
    outlook = Outlook(overhead=0.04, gain=0.4, default_s=2e-4, total_runs=300.0)
    earlier = None if spent is None else account_of(spent)
    assert amortization.is_earned(price_s, earlier, account=account, outlook=outlook) == is_earned


@pytest.mark.parametrize(
    ("is_served", "price_s", "is_earned"), [(False, 0.5, True), (True, 0.02, True), (True, 0.03, False)]
)
def test_a_process_whose_plan_serves_from_the_start_spends_the_overhead_share(is_served, price_s, is_earned):
    """Check that what the plan saves in each process pays for no search: 4 % of 0.7 s may be spent."""
    earlier = account_of(Spent(n_calls=9000, n_processes=6, product_s=18.0, saved_s=9.0, life_s=4.2))
    earlier.is_served = is_served
    account = TuningAccount(n_calls=250, product_s=0.05, saved_s=0.5)
    outlook = Outlook(overhead=0.04, gain=0.4, default_s=2e-4, total_runs=None)
    assert amortization.is_earned(price_s, earlier, account=account, outlook=outlook) == is_earned
