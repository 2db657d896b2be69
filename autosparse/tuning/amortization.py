"""Does it pay? Pure arithmetic of tuning against products; no clock, no state, no input or output.

Let d be the default kernel's time of one product, g the share of it that tuning is expected to save, N the products
run so far, and rho = `overhead`. Two budgets pay for tuning nobody asked for:

* rent: rho times the time already spent in products, plus half of what tuning has saved so far. Whatever N turns out
  to be, and however useless tuning proves, the total stays <= (1 + rho) * N * d;
* promise: with a run count from a hint or from history, SAVING_SHARE of the expected saving g * N_total * d;
* credit: g * ADVANCE times the rent, for steps that need no compiler and lead to a result soon: identifying the matrix,
  ranking, packed_copy for a kernel that is there. The total then stays <= (1 + (1 + g * ADVANCE) * rho) * N * d.

While a solver runs products, it says how many it will have run at least (`Expected`). Rent is then rho times the time
of that many products, and nothing is bought in advance: the total stays <= (1 + rho) * N * d where the solver is right.

A step is bought when its budget holds its price. docs/design/tuning-policy.md has the competitive argument. Where the
number
of products is known, `pick` says which tier of tuning makes the total least.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from autosparse.core.values import dataclass

if TYPE_CHECKING:
    from autosparse.dispatch.accounts import ProblemAccount
    from autosparse.dispatch.expectations import Expected

SAVING_SHARE: Final = 0.3
"""Share of an expected saving that may be spent to get it: a promise can be wrong, and so can the expected gain."""
REINVEST_SHARE: Final = 0.5
"""Share of time already saved that may be spent on further tuning."""
ADVANCE: Final = 10.0
"""How far cheap steps may overdraw the rent before any saving is measured, as a multiple of it, scaled by the expected
saving: with the default overhead, 0.4 of what tuning would have saved of the products that were run."""
ADVANCE_RUNS: Final = 3.0
"""Products expected for each one that was run, where a result is near: the median under a prior whose tail falls as
1 / sqrt(N), three more for each; a shorter life costs no more than the credit."""
NO_PRICE_S: Final = 1e-6
"""Steps cheaper than this are not worth weighing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningAccount:
    """What one problem has cost so far, seconds."""

    n_calls: int = 0
    product_s: float = 0.0  # spent in products
    tuning_s: float = 0.0  # spent on tuning, excess of slower candidates' products included
    saved_s: float = 0.0  # default time minus actual time over products that a faster kernel served

    @property
    def mean_s(self) -> float:
        """Mean time of a product; 0 before the first."""
        return self.product_s / self.n_calls if self.n_calls else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What is expected: total products (None: unknown), whether that is a promise, and the gain of tuning."""

    overhead: float = 0.04
    total_runs: float | None = None  # of this problem in this process: hint or history
    gain: float = 0.1  # expected share of the default time saved, in [0, 1)
    default_s: float = 0.0  # time of one default product
    expected: Expected | None = None  # by the solver that runs the products now; None: there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a price is paid now, and the sentence that `explain` shows."""

    pays: bool
    reason: str


def saved_s(served_s: float, *, looked_s: float, tuned_s: float, default_s: float) -> float:
    """Seconds that tuned products have saved, which took `served_s`, `looked_s` of it for looks and repackings.

    By the ratio of one product's times, `tuned_s` to `default_s` (0: unknown), not by difference: the machine gets
    faster and slower, both kernels with it.
    """
    if not tuned_s:
        return 0.0
    return max(0.0, served_s - looked_s) * (default_s / tuned_s - 1.0) - looked_s


def overhead_budget_s(account: TuningAccount, outlook: Outlook) -> float:
    """Seconds that rent allows for tuning in total (spent ones included)."""
    certain_s = outlook.expected.n_certain * outlook.default_s if outlook.expected is not None else 0.0
    return outlook.overhead * max(account.product_s, certain_s) + REINVEST_SHARE * max(0.0, account.saved_s)


def saving_budget_s(outlook: Outlook) -> float:
    """Seconds that a known run count allows for tuning in total; 0 when the count is unknown."""
    if outlook.total_runs is None:
        return 0.0
    return SAVING_SHARE * outlook.gain * outlook.total_runs * outlook.default_s


def advance_budget_s(account: TuningAccount, outlook: Outlook) -> float:
    """Seconds that steps in advance may take in total beyond rent, spent ones included; 0 where a solver knows more."""
    return 0.0 if outlook.expected is not None else ADVANCE * outlook.gain * outlook.overhead * account.product_s


def budget_s(account: TuningAccount, outlook: Outlook, *, in_advance: bool = False) -> float:
    """Seconds that may still be spent on tuning now; never negative."""
    overhead_s = overhead_budget_s(account, outlook) + (advance_budget_s(account, outlook) if in_advance else 0.0)
    return max(0.0, max(overhead_s, saving_budget_s(outlook)) - account.tuning_s)


def expected_runs_left(account: TuningAccount, outlook: Outlook, *, in_advance: bool = False) -> float:
    """Products still to come: promised ones, else as many as were run (the median of a scale-free prior).

    ADVANCE_RUNS times as many for steps in advance. A solver that runs them knows more than the prior.
    """
    if outlook.expected is not None:
        return max(1.0, outlook.expected.n_calls - account.n_calls, (outlook.total_runs or 0.0) - account.n_calls)
    if outlook.total_runs is not None:
        # A promise that was outrun says nothing any more: fall back to the prior.
        left = outlook.total_runs - account.n_calls
        return left if left > 0 else float(account.n_calls)
    return account.n_calls * (ADVANCE_RUNS if in_advance else 1.0)


def weigh(
    price_s: float,
    *,
    account: TuningAccount,
    outlook: Outlook,
    path_price_s: float | None = None,
    in_advance: bool = False,
) -> Verdict:
    """Whether to buy a step of `price_s` now, which leads to a result only after `path_price_s` in all.

    Monotone: a lower price, more rent, a larger gain or more promised runs never turn yes into no.
    """
    if price_s <= NO_PRICE_S:
        return Verdict(pays=True, reason="costs nothing")
    path_s = max(price_s, path_price_s or 0.0)
    gain_s = outlook.gain * outlook.default_s
    left = expected_runs_left(account, outlook, in_advance=in_advance)
    if left * gain_s < path_s:
        return Verdict(
            pays=False,
            reason=f"about {left:,.0f} more products would save {left * gain_s:.3g} s, tuning costs {path_s:.3g} s",
        )
    budget = budget_s(account, outlook, in_advance=in_advance)
    if budget < price_s:
        return Verdict(pays=False, reason=f"the next step costs {price_s:.3g} s, {budget:.3g} s may be spent by now")
    return Verdict(pays=True, reason=f"the next step costs {price_s:.3g} s of {budget:.3g} s that may be spent")


def is_earned(
    price_s: float, earlier: ProblemAccount | None, *, account: TuningAccount, outlook: Outlook, **terms: Any
) -> bool:
    """Whether earlier processes have paid for a step of `price_s`, and this one may spend that much of it.

    They have where one process that had run all their products would buy the step. This one may where it stays within
    a share of their lifetime, beside what tuned products have saved it, or will have saved it where the plan of earlier
    processes serves as long as it did there: it takes no longer than untuned. `terms` are those of `weigh`.
    """
    if earlier is None:
        return False
    limit_s = earlier.limit_s() + max(account.saved_s, earlier.expected_saved_s())
    if account.tuning_s + earlier.recall_s + price_s > limit_s:
        return False
    spent = earlier.spent
    whole = TuningAccount(
        n_calls=account.n_calls + spent.n_calls, product_s=account.product_s + spent.product_s,
        tuning_s=account.tuning_s + spent.tuning_s, saved_s=account.saved_s + spent.saved_s,
    )  # fmt: skip
    return weigh(price_s, account=whole, outlook=dataclasses.replace(outlook, total_runs=None), **terms).pays


def next_look_s(
    price_s: float,
    *,
    account: TuningAccount,
    outlook: Outlook,
    path_price_s: float | None = None,
    in_advance: bool = False,
) -> float:
    """Time in products (`TuningAccount.product_s`) at which `weigh` can first say yes, if nothing but calls happens.

    The hot path compares one number with one number; this is that number (inf: never).
    """
    if weigh(price_s, account=account, outlook=outlook, path_price_s=path_price_s, in_advance=in_advance).pays:
        return account.product_s
    gain_s = outlook.gain * outlook.default_s
    if outlook.overhead <= 0 or gain_s <= 0:
        return math.inf
    path_s = max(price_s, path_price_s or 0.0)
    saved_s = REINVEST_SHARE * max(0.0, account.saved_s)
    in_advance = in_advance and outlook.expected is None
    share = outlook.overhead * (1.0 + ADVANCE * outlook.gain if in_advance else 1.0)
    by_overhead_s = max(0.0, account.tuning_s + price_s - saved_s) / share
    by_runs_s = 0.0
    if expected_runs_left(account, outlook, in_advance=in_advance) * gain_s < path_s:
        runs = path_s / gain_s / (ADVANCE_RUNS if in_advance and outlook.total_runs is None else 1.0)
        by_runs_s = runs * (account.mean_s or outlook.default_s)
    # Never sooner than a few percent from now: the estimates above move, and looking costs a little.
    return max(account.product_s * 1.02, by_overhead_s, by_runs_s)


def break_even_runs(*, price_s: float, default_s: float | None, tuned_s: float | None) -> float | None:
    """Products after which `price_s` is paid back; None when unknown or never."""
    if default_s is None or tuned_s is None or tuned_s >= default_s:
        return None
    return price_s / (default_s - tuned_s)


def shrunk_gain(prior: float, *, n_seen: int, mean_seen: float, weight: float = 4.0) -> float:
    """Expected gain after `n_seen` tunings of this kind on this machine saved `mean_seen` on average, in [0, 0.9].

    The prior counts as `weight` tunings.
    """
    return min(0.9, max(0.0, (weight * prior + n_seen * mean_seen) / (weight + n_seen)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """A way to tune: what it takes on this machine, and the share of the default time that it is expected to save."""

    name: str
    price_s: float
    gain: float

    def total_s(self, n_runs: float, default_s: float) -> float:
        """Expected seconds of tuning and of `n_runs` products after it."""
        return self.price_s + n_runs * (1.0 - self.gain) * default_s


def pick(tiers: Sequence[Tier], *, n_runs: float, default_s: float) -> Tier | None:
    """The tier with the least expected total; None where products alone take no longer. Of equals the first."""
    best = min(tiers, key=lambda tier: tier.total_s(n_runs, default_s), default=None)
    return best if best is not None and best.total_s(n_runs, default_s) < n_runs * default_s else None


def refusal(tiers: Sequence[Tier], *, n_runs: float, default_s: float) -> str:
    """Why none of `tiers` pays: what the one that comes nearest to it would save, of those that save anything."""
    nearest = min(tiers, key=lambda tier: (not tier.gain, tier.total_s(n_runs, default_s)))
    saved_s = n_runs * nearest.gain * default_s
    return f"{n_runs:,} products would save {saved_s:.3g} s, tuning costs {nearest.price_s:.3g} s"
