"""Total time of N products: tuning at once, or lazily as the library does it; arithmetic alone (WACO §5.6, Table 8).

T(N) = price + N * product for a way that is paid for at once: tuning and converting the operand, then tuned products.
Lazily, products run as they are until `tuning.amortization`, the library's own rule, says that the next tier pays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from autosparse.tuning import amortization
from autosparse.tuning.amortization import Outlook, TuningAccount

MAX_RUNS: Final = 10**9
"""A tier that does not pay within so many products is never bought."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Pay `price_s` once, then `product_s` for each product."""

    price_s: float
    product_s: float

    def total_s(self, n_runs: int) -> float:
        """Time of `n_runs` products, the price included."""
        return self.price_s + n_runs * self.product_s

    def amortised_after(self, default_s: float) -> float | None:
        """Products after which the price is paid back by what they save (the paper's 919 and 101); None: never."""
        return amortization.break_even_runs(price_s=self.price_s, default_s=default_s, tuned_s=self.product_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """From product number `first` on every product takes `product_s`; `before_s` were spent until then."""

    first: int
    before_s: float
    product_s: float

    def total_s(self, n_runs: int) -> float:
        """Time of `n_runs` products, `n_runs` >= `first`."""
        return self.before_s + (n_runs - self.first) * self.product_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Lazy:
    """Default products, and `tiers` bought in order as soon as they pay.

    `gain`: share of the default time that tuning is expected to save; `overhead`: share of the time in products that
    tuning may take. Both are the library's.
    """

    default_s: float
    tiers: tuple[Way, ...]
    gain: float
    overhead: float

    def stretches(self, total_runs: int | None = None) -> list[Stretch]:
        """The pace over time; `total_runs` is a promise that the user made (``runs=``)."""
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
        """The least number of products after which `tier` is bought; the first one needs no compiler: in advance."""

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
        """Time of `n_runs` products; `is_told`: the number was promised from the beginning."""
        begun = [one for one in self.stretches(n_runs if is_told else None) if one.first < n_runs or one.first == 0]
        return begun[-1].total_s(n_runs)

    def break_even(self, over_s: float | None = None) -> float | None:
        """Products from which on this is never behind products of `over_s` seconds any more (None: default products).

        0 if it never was behind, None if it always is.
        """
        behind = list(self._behind(self.stretches(), self.default_s if over_s is None else over_s))
        return max(behind, default=0.0) if not behind or math.isfinite(max(behind)) else None

    def _behind(self, stretches: list[Stretch], over_s: float) -> Iterator[float]:
        """The last product of each stretch that is behind."""
        ends = [*(one.first for one in stretches[1:]), math.inf]
        for one, end in zip(stretches, ends, strict=True):
            late_s = one.before_s - one.first * over_s  # at its beginning
            loses_s = one.product_s - over_s  # per product
            if late_s > 0:
                yield min(float(end), one.first - late_s / loses_s if loses_s < 0 else math.inf)
            elif loses_s > 0 and late_s + (end - one.first) * loses_s > 0:
                yield float(end)
