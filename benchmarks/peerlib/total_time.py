"""Total time of N products with tuning at once, or lazily as in the library; arithmetic only (WACO §5.6, Table 8).

For tuning at once, T(N) = price + N * product: the price covers tuning and converting the operand. Lazily, products use
the default kernel until `tuning.amortization`, the library's own rule, accepts the next tier.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from autosparse.tuning import amortization
from autosparse.tuning.amortization import Outlook, TuningAccount

MAX_RUNS: Final = 10**9
"""Number of products within which a tier must pay; otherwise it is never bought."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to compute products that costs `price_s` once and `product_s` per product."""

    price_s: float
    product_s: float

    def total_s(self, n_runs: int) -> float:
        """Return the time of `n_runs` products, including the price."""
        return self.price_s + n_runs * self.product_s

    def amortised_after(self, default_s: float) -> float | None:
        """Return the number of products that pay the price back (919 and 101 in the paper), or None if it never is."""
        return amortization.break_even_runs(price_s=self.price_s, default_s=default_s, tuned_s=self.product_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Part of a lazy run, in which each product from number `first` on takes `product_s`.

    `before_s` is the time spent before product number `first`.
    """

    first: int
    before_s: float
    product_s: float

    def total_s(self, n_runs: int) -> float:
        """Return the time of `n_runs` products, for `n_runs` >= `first`."""
        return self.before_s + (n_runs - self.first) * self.product_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Lazy:
    """Default products, with `tiers` bought in order as soon as they pay.

    `gain` is the fraction of the default time that tuning is expected to save. `overhead` is the fraction of the time
    in products that tuning may take. Both values are the library's.
    """

    default_s: float
    tiers: tuple[Way, ...]
    gain: float
    overhead: float

    def stretches(self, total_runs: int | None = None) -> list[Stretch]:
        """Return the parts of the run; `total_runs` is the number of products that the user announced (``runs=``)."""
        found = [Stretch(first=0, before_s=0.0, product_s=self.default_s)]
        tuning_s = 0.0
        outlook = Outlook(
            overhead=self.overhead,
            gain=self.gain,
            default_s=self.default_s,
            total_runs=None if total_runs is None else float(total_runs),
        )
        for number, tier in enumerate(self.tiers):
            now = found[-1]
            first = self._first_that_pays(now, tier, tuning_s, outlook, in_advance=number == 0)
            if first is None:
                break
            tuning_s += tier.price_s
            found.append(Stretch(first=first, before_s=now.total_s(first) + tier.price_s, product_s=tier.product_s))
        return found

    def _first_that_pays(
        self, now: Stretch, tier: Way, tuning_s: float, outlook: Outlook, *, in_advance: bool
    ) -> int | None:
        """Return the least number of products after which `tier` is bought.

        With `in_advance` (the first tier, which needs no compiler) time may be advanced against expected savings.
        """

        def pays(n_runs: int) -> bool:
            product_s = now.total_s(n_runs) - tuning_s
            saved_s = n_runs * self.default_s - product_s
            account = TuningAccount(n_calls=n_runs, product_s=product_s, tuning_s=tuning_s, saved_s=saved_s)
            return amortization.weigh(tier.price_s, account=account, outlook=outlook, in_advance=in_advance).pays

        if pays(now.first):
            return now.first
        low, high = now.first, max(1, 2 * now.first)
        while not pays(high):
            low, high = high, 2 * high
            if high > MAX_RUNS:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if pays(middle) else (middle, high)
        return high

    def total_s(self, n_runs: int, *, is_told: bool = False) -> float:
        """Return the time of `n_runs` products; with `is_told` the number was announced at the start."""
        begun = [one for one in self.stretches(n_runs if is_told else None) if one.first < n_runs or one.first == 0]
        return begun[-1].total_s(n_runs)

    def break_even(self, over_s: float | None = None) -> float | None:
        """Return the number of products from which this is never slower in total than products of `over_s` seconds.

        `over_s` defaults to default products. Return 0 if it never is behind, and None if it always is.
        """
        behind = list(self._behind(self.stretches(), self.default_s if over_s is None else over_s))
        return max(behind, default=0.0) if not behind or math.isfinite(max(behind)) else None

    def _behind(self, stretches: list[Stretch], over_s: float) -> Iterator[float]:
        """Yield the last product of each part of the run at which the total is behind."""
        ends = [*(one.first for one in stretches[1:]), math.inf]
        for one, end in zip(stretches, ends, strict=True):
            late_s = one.before_s - one.first * over_s  # at its beginning
            loses_s = one.product_s - over_s  # per product
            if late_s > 0:
                yield min(float(end), one.first - late_s / loses_s if loses_s < 0 else math.inf)
            elif loses_s > 0 and late_s + (end - one.first) * loses_s > 0:
                yield float(end)
