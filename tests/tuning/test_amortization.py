"""Property tests of the break-even arithmetic that decides which tuning steps are paid for."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import DEFAULT, choice_of
from autosparse.dispatch import state
from autosparse.dispatch.accounts import MAX_ADVANCE, advance_share
from autosparse.ops import OPS
from autosparse.tuning import amortization, session
from autosparse.tuning.amortization import Outlook, TuningAccount
from autosparse.tuning.trials.operand_adapter import LARGE_ENTRIES

seconds = st.floats(1e-7, 1e3)
accounts = st.builds(
    TuningAccount,
    n_calls=st.integers(1, 10**6),
    product_s=st.floats(1e-6, 1e4),
    tuning_s=st.floats(0, 1e3),
    saved_s=st.floats(-10, 1e3),
)
outlooks = st.builds(
    Outlook,
    overhead=st.floats(0, 1),
    total_runs=st.none() | st.floats(1, 1e7),
    gain=st.floats(0, 0.9),
    default_s=st.floats(1e-6, 10),
)
factors = st.floats(1.0, 100.0)


def pays(price_s: float, account: TuningAccount, outlook: Outlook) -> bool:
    return amortization.weigh(price_s, account=account, outlook=outlook).pays


@given(seconds, factors, accounts, outlooks)
def test_decision_is_monotonic_in_cost(price_s: float, f: float, account: TuningAccount, outlook: Outlook) -> None:
    if pays(price_s, account, outlook):
        assert pays(price_s / f, account, outlook)


@given(seconds, factors, accounts, outlooks)
def test_decision_is_monotonic_in_gain(price_s: float, f: float, account: TuningAccount, outlook: Outlook) -> None:
    if pays(price_s, account, outlook):
        assert pays(price_s, account, dataclasses.replace(outlook, gain=min(0.95, outlook.gain * f)))


@given(seconds, factors, accounts, outlooks)
def test_decision_is_monotonic_in_announced_runs(
    price_s: float, f: float, account: TuningAccount, outlook: Outlook
) -> None:
    assume(outlook.total_runs is not None and outlook.total_runs > account.n_calls)
    if pays(price_s, account, outlook):
        assert outlook.total_runs is not None
        assert pays(price_s, account, dataclasses.replace(outlook, total_runs=outlook.total_runs * f))


@given(seconds, st.integers(1, 10**6), accounts, outlooks)
def test_decision_is_monotonic_in_past_product_time(
    price_s: float, more: int, account: TuningAccount, outlook: Outlook
) -> None:
    outlook = dataclasses.replace(outlook, total_runs=None)
    later = dataclasses.replace(
        account, n_calls=account.n_calls + more, product_s=account.product_s + more * outlook.default_s
    )
    if pays(price_s, account, outlook):
        assert pays(price_s, later, outlook)


@given(accounts, outlooks, seconds)
def test_decision_in_advance_covers_past_time_and_stays_within_the_budget(
    account: TuningAccount, outlook: Outlook, price_s: float
) -> None:
    in_advance = amortization.weigh(price_s, account=account, outlook=outlook, in_advance=True).pays
    assert in_advance or not pays(price_s, account, outlook)
    if in_advance and price_s > amortization.NO_PRICE_S:
        rent_s = amortization.overhead_budget_s(account, outlook) + amortization.advance_budget_s(account, outlook)
        limit = max(rent_s, amortization.saving_budget_s(outlook))
        assert account.tuning_s + price_s <= limit * (1 + 1e-9)


@given(accounts, outlooks, seconds)
def test_a_look_in_advance_is_where_the_answer_can_turn(
    account: TuningAccount, outlook: Outlook, price_s: float
) -> None:
    outlook = dataclasses.replace(outlook, total_runs=None)
    look_s = amortization.next_look_s(price_s, account=account, outlook=outlook, in_advance=True)
    assert look_s >= account.product_s
    before_s = look_s * 0.99
    if math.isfinite(look_s) and before_s > account.product_s * 1.02:
        n_more = (before_s - account.product_s) / account.mean_s
        then = dataclasses.replace(account, n_calls=account.n_calls + int(n_more), product_s=before_s)
        assert not amortization.weigh(price_s, account=then, outlook=outlook, in_advance=True).pays


tiers = st.lists(
    st.builds(amortization.Tier, name=st.sampled_from("abc"), price_s=st.floats(0, 10), gain=st.floats(0, 0.9)),
    max_size=4,
)


@given(tiers, st.floats(1, 1e6), st.floats(1e-6, 1.0))
def test_the_tier_picked_is_the_best_of_all_and_better_than_none(
    offered: list[amortization.Tier], n_runs: float, default_s: float
) -> None:
    picked = amortization.pick(offered, n_runs=n_runs, default_s=default_s)
    totals = [tier.total_s(n_runs, default_s) for tier in offered]
    if picked is None:
        assert all(total_s >= n_runs * default_s for total_s in totals)
    else:
        assert picked.total_s(n_runs, default_s) == min(totals)
        assert min(totals) < n_runs * default_s


@given(tiers, st.floats(1, 1e5), factors, st.floats(1e-6, 1.0))
def test_more_products_never_pick_a_tier_that_saves_less(
    offered: list[amortization.Tier], n_runs: float, f: float, default_s: float
) -> None:
    few, many = (amortization.pick(offered, n_runs=n, default_s=default_s) for n in (n_runs, n_runs * f))
    if few is not None:
        assert many is not None
        # Tiers whose totals are equal within rounding may come in either order.
        slack_s = 1e-9 * (n_runs * f * default_s + few.price_s + many.price_s)
        apart_s = abs(few.total_s(n_runs, default_s) - many.total_s(n_runs, default_s))
        assert many.gain >= few.gain or apart_s <= slack_s


@given(accounts, outlooks, seconds)
def test_a_bought_step_stays_within_its_budget(account: TuningAccount, outlook: Outlook, price_s: float) -> None:
    if pays(price_s, account, outlook) and price_s > amortization.NO_PRICE_S:
        limit = max(amortization.overhead_budget_s(account, outlook), amortization.saving_budget_s(outlook))
        assert account.tuning_s + price_s <= limit * (1 + 1e-9)


@given(accounts, outlooks, seconds)
def test_next_look_is_where_the_answer_can_turn(account: TuningAccount, outlook: Outlook, price_s: float) -> None:
    look_s = amortization.next_look_s(price_s, account=account, outlook=outlook)
    assert look_s >= account.product_s
    if pays(price_s, account, outlook):
        assert look_s == account.product_s
    elif outlook.total_runs is None and math.isfinite(look_s):
        # Just before that moment (minus the few percent that a check is delayed at least) the step does not pay yet.
        before_s = look_s * 0.99
        if before_s > account.product_s * 1.02:
            n_more = (before_s - account.product_s) / account.mean_s
            then = dataclasses.replace(account, n_calls=account.n_calls + int(n_more), product_s=before_s)
            assert not pays(price_s, then, outlook)


@given(
    cost_estimates=st.lists(st.floats(1e-5, 1.0), min_size=1, max_size=8),
    default_s=st.floats(1e-5, 1e-2),
    true_gain=st.floats(-0.5, 0.8),
    overhead=st.floats(0.01, 0.2),
    n_runs=st.integers(1, 3000),
    in_advance=st.booleans(),
)
def test_ski_rental_total_is_bounded_whatever_tuning_brings(
    cost_estimates: list[float], default_s: float, true_gain: float, overhead: float, n_runs: int, in_advance: bool
) -> None:
    """Run steps in a row; the last one brings the gain `true_gain`, or none where its kernel lost the race.

    The total time is at most (1 + share) N d, with N runs of d seconds. With the speed-up s = d / t it is at most (1 +
    share) s OPT. `share` is the overhead, plus the share of advances where every step is bought in advance.
    """
    gain = max(0.0, true_gain)
    account, outlook = TuningAccount(), Outlook(overhead=overhead, gain=0.1, default_s=default_s)
    queue, tuned = list(cost_estimates), False
    share = overhead * (1 + advance_share(outlook.gain) if in_advance else 1)
    for _ in range(n_runs):
        run_s = default_s * (1 - gain) if tuned else default_s
        account = dataclasses.replace(
            account,
            n_calls=account.n_calls + 1,
            product_s=account.product_s + run_s,
            saved_s=account.saved_s + default_s - run_s,
        )
        terms = {"outlook": outlook, "in_advance": in_advance}
        while queue and amortization.weigh(queue[0], account=account, path_price_s=sum(queue), **terms).pays:
            account = dataclasses.replace(account, tuning_s=account.tuning_s + queue.pop(0))
            tuned = not queue
    total_s = account.product_s + account.tuning_s
    assert total_s <= (1 + share) * n_runs * default_s * (1 + 1e-9) + len(cost_estimates) * amortization.NO_PRICE_S
    best_s = min(n_runs * default_s, sum(cost_estimates) + n_runs * default_s * (1 - gain))
    assert total_s <= (1 + share) / (1 - gain) * best_s * (1 + 1e-9) + len(cost_estimates) * amortization.NO_PRICE_S


@given(accounts, outlooks, seconds, st.integers(2, 10**5))
def test_one_product_never_pays_for_a_step(account: TuningAccount, outlook: Outlook, price_s: float, n: int) -> None:
    """Check that one product buys no step whose price exceeds `overhead` times its own duration."""
    outlook = dataclasses.replace(outlook, total_runs=None, overhead=0.04)
    fresh = TuningAccount(n_calls=1, product_s=outlook.default_s)
    if price_s > 0.04 * outlook.default_s + amortization.NO_PRICE_S:
        assert not pays(price_s, fresh, outlook)


@given(st.floats(0, 0.9), st.lists(st.floats(1e-5, 1.0), min_size=1, max_size=8), st.integers(1, 3000))
def test_at_no_number_of_products_is_the_total_above_the_bound(gain: float, prices: list[float], n_runs: int) -> None:
    """Buy all steps on the advance, with the default overhead, for a kernel that then saves nothing."""
    account, outlook = TuningAccount(), Outlook(gain=gain, default_s=1e-4)
    for _ in range(n_runs):
        account = dataclasses.replace(account, n_calls=account.n_calls + 1, product_s=account.product_s + 1e-4)
        while prices and amortization.weigh(prices[0], account=account, outlook=outlook, in_advance=True).pays:
            account = dataclasses.replace(account, tuning_s=account.tuning_s + prices.pop(0))
        assert account.product_s + account.tuning_s <= 1.2 * account.n_calls * 1e-4 * (1 + 1e-9)


def test_the_advance_on_loading_modules_is_less_than_that_on_steps() -> None:
    assert advance_share(OPS["matmul"].tuning.measured_gain(1)) > state.FIRST_IMPORT_ADVANCE
    assert advance_share(OPS["matmul"].tuning.measured_gain(1)) == MAX_ADVANCE


def test_break_even_examples() -> None:
    assert amortization.break_even_runs(price_s=1.0, default_s=0.02, tuned_s=0.01) == pytest.approx(100)
    assert amortization.break_even_runs(price_s=1.0, default_s=0.01, tuned_s=0.01) is None
    assert amortization.break_even_runs(price_s=1.0, default_s=None, tuned_s=0.01) is None


def test_a_refusal_names_the_tier_that_comes_nearest_to_paying() -> None:
    untrusted = amortization.Tier(name="estimate", price_s=0.01, gain=0.0)
    offered = [untrusted, amortization.Tier(name="measure", price_s=3.0, gain=0.1)]
    assert amortization.pick(offered, n_runs=1_000_000, default_s=2e-5) is None
    why = amortization.refusal(offered, n_runs=1_000_000, default_s=2e-5)
    assert why == "1,000,000 products would save 2 s, tuning costs 3 s"
    assert "would save 0 s" in amortization.refusal([untrusted], n_runs=10, default_s=2e-5)


@given(st.floats(0, 0.5), st.integers(0, 1000), st.floats(0, 0.9))
def test_expected_gain_lies_between_prior_and_experience(prior: float, n_seen: int, mean: float) -> None:
    gain = amortization.shrunk_gain(prior, n_seen=n_seen, mean_seen=mean)
    assert min(prior, mean) - 1e-12 <= gain <= max(prior, mean) + 1e-12


@pytest.mark.parametrize("n_entries", [10_000, LARGE_ENTRIES, 100 * LARGE_ENTRIES])
@pytest.mark.parametrize("ratio", [None, 0.5, 0.99, 1.3])
def test_large_matrices_are_packed_only_on_predicted_gain(n_entries, ratio, monkeypatch):
    """Check that a large matrix is packed only for a gain that the model predicts.

    The mean gain of other matrices, 0.31, counts only for small matrices or where there is no model.
    """
    monkeypatch.setattr(session, "expected_gain", lambda context: 0.31)
    context: Any = SimpleNamespace(problem=SimpleNamespace(pattern=SimpleNamespace(nnz=n_entries)))
    queue = SimpleNamespace(ratios={} if ratio is None else {SuperSchedule(): ratio})
    search: Any = SimpleNamespace(queue=queue, default_s=None, measured_s={})
    gain = session._gain_after_ranking(context, search)
    if ratio is None:
        assert gain == 0.31, "the model was not asked"
    elif n_entries < LARGE_ENTRIES:
        assert gain == pytest.approx(0.155 + 0.5 * max(0.0, 1.0 - ratio))
    else:
        assert gain == max(0.0, 1.0 - ratio)


@pytest.mark.parametrize(
    ("measured", "won", "left"),
    [({}, None, None), ({"a": 0.6}, "a", 0.6 - 1.2 * 0.4), ({"a": 0.4}, "a", 0.4 - 0.8 * 0.4), ({"a": 1.3}, None, 0.05),
     ({"a": 0.3}, "a", 0.3 - 0.6 * 0.4), ({"a": 0.5, "b": 0.4, "c": 0.9}, "b", 0.05 * 0.4)],
)  # fmt: skip
def test_the_gain_left_after_a_race_is_that_over_the_best(measured: dict[str, float], won: str | None, left: float):
    """Check that predictions of candidates that were not raced are corrected by the errors of those that were."""
    schedules = {name: SuperSchedule(unroll=unroll) for name, unroll in (("a", 1), ("b", 2), ("c", 4))}
    choices = {name: choice_of(one) for name, one in schedules.items()}
    default_s = 2e-4
    search: Any = SimpleNamespace(
        queue=SimpleNamespace(ratios=dict(zip(schedules.values(), (0.5, 0.4, 0.9), strict=True))),
        default_s=default_s if measured else None,
        measured_s={choices[name]: ratio * default_s for name, ratio in measured.items()},
        incumbent=SimpleNamespace(choice=choices[won] if won else DEFAULT),
    )
    assert session._gain_after_race(search) == (None if left is None else pytest.approx(left))
