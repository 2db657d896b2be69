"""Decide whether a tuning step pays: pure arithmetic without clock, state, input or output.

Let d be the default kernel's time of one product, g the fraction of it that tuning is expected to save, N the number
of products run so far, and rho the option `overhead`. Tuning between products is paid for from three budgets:

* overhead share: rho times the time already spent in products, plus half of what tuning has saved so far. For any N,
  and even if tuning gains nothing, the total time stays <= (1 + rho) * N * d;
* expected saving: if a hint or the accounts give N_total, SAVING_SHARE times the expected saving g * N_total * d;
* advance: g * ADVANCE times the overhead share, at most MAX_ADVANCE times, for steps that need no compiler and lead to
  a result soon (loading modules, hashing the matrix, ranking, packing for a kernel that is built). The total stays
  <= (1 + (1 + MAX_ADVANCE) * rho) * N * d, which is 1.20 times the untuned total with the default overhead.

A solver that runs products states a lower bound on their number (`Expected`) and its time beside them, v for each
product. The overhead share is then rho times the solve's time with that many products, at least rho times that of all
solves so far. There is no advance: the total of any number of solves stays <= (1 + rho) * N * (d + v) if the bound
holds.

A step runs when its budget covers its price. docs/design/tuning-policy.md gives the competitive argument. Where the
number of products is known, `pick` returns the tuning tier that minimizes the total.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from autosparse.config import Options
from autosparse.core.values import dataclass
from autosparse.dispatch.accounts import REINVEST_SHARE, advance_share
from autosparse.targets.priors import number

if TYPE_CHECKING:
    from autosparse.dispatch.accounts import ProblemAccount
    from autosparse.dispatch.expectations import Expected

SAVING_SHARE: Final = number("amortisation", "share of an expected saving")
"""Fraction of an expected saving that may be spent to obtain it; both run count and expected gain can be wrong."""
ADVANCE_RUNS: Final = number("amortisation", "runs to come")
"""Expected number of future products for each product run so far, for steps that lead to a result soon.

It is the median under a prior with tail 1 / sqrt(N). If fewer products follow, the loss is bounded by the advance.
"""
UNKNOWN_GAIN: Final = number("amortisation", "unknown gain")
"""Fraction of the default time that tuning is expected to save where no gain is known."""
PRIOR_WEIGHT: Final = number("amortisation", "weight of the prior")
"""Number of tunings as which the prior of a gain counts."""
NO_PRICE_S: Final = number("amortisation", "no price s")
"""Price in seconds below which a step always runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningAccount:
    """Time spent on one problem so far, in seconds."""

    n_calls: int = 0
    """Number of products."""
    product_s: float = 0.0  # time spent in products
    tuning_s: float = 0.0  # time spent on tuning, including the excess of products that slower candidates computed
    saved_s: float = 0.0  # default time minus actual time of products that a faster kernel computed

    @property
    def mean_s(self) -> float:
        """Mean time of a product in seconds; 0 before the first."""
        return self.product_s / self.n_calls if self.n_calls else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Facts by which tuning is decided: expected products, gain and default time, and the option `overhead`."""

    overhead: float = Options._field_defaults["overhead"]
    # expected products of this problem in this process, from a hint or the accounts; None: unknown
    total_runs: float | None = None
    gain: float = UNKNOWN_GAIN  # expected fraction of the default time saved, in [0, 1)
    default_s: float = 0.0  # seconds of one product by the default kernel
    expected: Expected | None = None  # bound given by the solver that runs the products; None: no solver runs
    solver_s: float | None = None  # seconds of finished solves beside their products; None: no solver has run

    @property
    def allows_advance(self) -> bool:
        """Return whether no solver runs or has run the products."""
        return self.expected is None and self.solver_s is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Decision whether a tuning step runs now (`pays`), with the reason that `explain` shows."""

    pays: bool
    reason: str


def saved_s(served_s: float, *, looked_s: float, tuned_s: float, default_s: float) -> float:
    """Return the seconds saved by tuned products that took `served_s`, with `looked_s` of them checks and repacking.

    The result uses the ratio of `tuned_s` to `default_s` (seconds of one product; 0: unknown) and not their
    difference, because changes of the machine's speed affect both kernels alike.
    """
    if not tuned_s:
        return 0.0
    return max(0.0, served_s - looked_s) * (default_s / tuned_s - 1.0) - looked_s


def overhead_budget_s(account: TuningAccount, outlook: Outlook) -> float:
    """Return the seconds that the overhead share allows for tuning in total, including those already spent."""
    certain_s = outlook.expected.certain_s(outlook.default_s) if outlook.expected is not None else 0.0
    spent_s = account.product_s + (outlook.solver_s or 0.0)
    return outlook.overhead * max(spent_s, certain_s) + REINVEST_SHARE * max(0.0, account.saved_s)


def saving_budget_s(outlook: Outlook) -> float:
    """Return the total seconds that tuning may take as a share of the saving that a known run count yields, else 0."""
    if outlook.total_runs is None:
        return 0.0
    return SAVING_SHARE * outlook.gain * outlook.total_runs * outlook.default_s


def advance_budget_s(account: TuningAccount, outlook: Outlook) -> float:
    """Return the seconds by which tuning may exceed the overhead share early on; none for the products of solves."""
    return advance_share(outlook.gain) * outlook.overhead * account.product_s if outlook.allows_advance else 0.0


def budget_s(account: TuningAccount, outlook: Outlook, *, in_advance: bool = False) -> float:
    """Return the seconds that may still be spent on tuning now; never negative."""
    overhead_s = overhead_budget_s(account, outlook) + (advance_budget_s(account, outlook) if in_advance else 0.0)
    return max(0.0, max(overhead_s, saving_budget_s(outlook)) - account.tuning_s)


def expected_runs_left(account: TuningAccount, outlook: Outlook, *, in_advance: bool = False) -> float:
    """Return the expected number of further products of the problem.

    It is the rest of a known run count, else as many as were run (the median of a scale-free prior), times
    ADVANCE_RUNS for steps on the advance. The bound of a solver replaces the prior.
    """
    if outlook.expected is not None:
        return max(1.0, outlook.expected.n_calls - account.n_calls, (outlook.total_runs or 0.0) - account.n_calls)
    if outlook.total_runs is not None:
        # More products ran than the run count said: fall back to the prior.
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
    """Return the decision whether a step that takes `price_s` seconds runs now.

    `path_price_s`: seconds until tuning gives a result, this step included. The decision is monotone: a lower price,
    more time in products, a larger gain or a larger run count never turn acceptance into refusal.
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
    """Return whether earlier processes have paid for a step of `price_s`, and this process may spend that much of it.

    Earlier processes have paid if `weigh` accepts the step for all their products together. This process may spend
    within a fraction of their mean lifetime, plus what tuned products save that were not tuned in theirs. `terms` are
    those of `weigh`.
    """
    if earlier is None:
        return False
    limit_s = earlier.limit_s(outlook.overhead) + (0.0 if earlier.is_served else account.saved_s)
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
    """Return the time in products (`TuningAccount.product_s`) at which `weigh` can first accept, if only products run.

    Dispatch compares one number with this number after each product; inf means never.
    """
    if weigh(price_s, account=account, outlook=outlook, path_price_s=path_price_s, in_advance=in_advance).pays:
        return account.product_s
    gain_s = outlook.gain * outlook.default_s
    if outlook.overhead <= 0 or gain_s <= 0:
        return math.inf
    path_s = max(price_s, path_price_s or 0.0)
    saved_s = REINVEST_SHARE * max(0.0, account.saved_s)
    share = outlook.overhead * (1.0 + advance_share(outlook.gain) if in_advance and outlook.allows_advance else 1.0)
    by_overhead_s = max(0.0, account.tuning_s + price_s - saved_s) / share - (outlook.solver_s or 0.0)
    by_runs_s = 0.0
    if expected_runs_left(account, outlook, in_advance=in_advance) * gain_s < path_s:
        runs = path_s / gain_s / (ADVANCE_RUNS if in_advance and outlook.total_runs is None else 1.0)
        by_runs_s = runs * (account.mean_s or outlook.default_s)
    # Wait at least 2 % longer: the estimates above change, and each check costs a little.
    return max(account.product_s * 1.02, by_overhead_s, by_runs_s)


def break_even_runs(*, price_s: float, default_s: float | None, tuned_s: float | None) -> float | None:
    """Return the number of products after which `price_s` is paid back; None if unknown or never."""
    if default_s is None or tuned_s is None or tuned_s >= default_s:
        return None
    return price_s / (default_s - tuned_s)


def shrunk_gain(prior: float, *, n_seen: int, mean_seen: float) -> float:
    """Return the expected gain, in [0, 0.9], after `n_seen` earlier tunings of this kind saved `mean_seen` on average.

    The prior counts as PRIOR_WEIGHT tunings.
    """
    return min(0.9, max(0.0, (PRIOR_WEIGHT * prior + n_seen * mean_seen) / (PRIOR_WEIGHT + n_seen)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """A tuning tier: its price in seconds on this machine, and the expected gain as a fraction of the default time."""

    name: str
    price_s: float
    gain: float

    def total_s(self, n_runs: float, default_s: float) -> float:
        """Return the expected seconds of tuning and of `n_runs` products after it."""
        return self.price_s + n_runs * (1.0 - self.gain) * default_s


def pick(tiers: Sequence[Tier], *, n_runs: float, default_s: float) -> Tier | None:
    """Return the tier with the least expected total, the first of equals; None if products alone take no longer."""
    best = min(tiers, key=lambda tier: tier.total_s(n_runs, default_s), default=None)
    return best if best is not None and best.total_s(n_runs, default_s) < n_runs * default_s else None


def refusal(tiers: Sequence[Tier], *, n_runs: float, default_s: float) -> str:
    """Return a text on why none of `tiers` pays for `n_runs` products: saving and price of the nearest tier."""
    nearest = min(tiers, key=lambda tier: (not tier.gain, tier.total_s(n_runs, default_s)))
    saved_s = n_runs * nearest.gain * default_s
    return f"{n_runs:,} products would save {saved_s:.3g} s, tuning costs {nearest.price_s:.3g} s"
