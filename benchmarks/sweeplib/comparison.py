"""Speed of a plan relative to the default kernel, measured until its position relative to a limit is known.

A round takes one sample of each product. Its ratio is (default kernel's time) / (plan's time), and the median over
rounds counts. After at least `least` rounds the measurement stops if the median's interval, from order statistics, lies
above the limit. Otherwise all rounds are run.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

SAMPLE_S: Final = 1e-3
"""Seconds of a sample; short products are repeated to fill it."""
WARM_BELOW_S: Final = 0.02
"""Seconds of a product from which no warm-up call is made, because its data exceed the caches."""
DOUBT: Final = 0.005
"""Probability that the median lies below its interval."""

Product = Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Number of rounds of a ratio."""

    least: int = 8
    most: int = 31
    clear_of: float = 0.95


def n_below(n: int, *, doubt: float = DOUBT) -> int:
    """Return how many of n sorted values lie below the median's lower bound; -1 if n is too small for a bound.

    The k-th smallest value exceeds the median with probability sum of C(n, i) / 2**n over i < k.
    """
    total, k = 0.0, 0
    while k <= n and (total := total + math.comb(n, k) / 2.0**n) <= doubt:
        k += 1
    return k - 1


def is_clear(ratios: Sequence[float], rounds: Rounds) -> bool:
    """Return whether the median lies above the limit with the required confidence."""
    at = n_below(len(ratios))
    return len(ratios) >= rounds.least and at >= 0 and sorted(ratios)[at] > rounds.clear_of


def speed_ratio(default: Product, tuned: Product, rounds: Rounds) -> tuple[float, int]:
    """Return the median over rounds of the default product's time over the tuned one's, and the number of rounds."""
    default()
    once_s = max(_sample_s(default, 1, is_warm=True), 1e-7)
    n = max(1, min(1000, round(SAMPLE_S / once_s)))
    is_warm = once_s < WARM_BELOW_S
    found: list[float] = []
    while len(found) < rounds.most and not is_clear(found, rounds):
        order = (default, tuned) if len(found) % 2 else (tuned, default)
        taken = {id(one): _sample_s(one, n, is_warm=is_warm) for one in order}
        found.append(taken[id(default)] / taken[id(tuned)])
    return statistics.median(found), len(found)


def _sample_s(run: Product, n: int, *, is_warm: bool) -> float:
    """Return the seconds of a product; with `is_warm`, an untimed call first reloads the caches."""
    if is_warm:
        run()
    start_s = time.perf_counter()
    for _ in range(n):
        kept = run()  # the previous result is alive until this one exists, as in C = A @ B
    seconds = time.perf_counter() - start_s
    del kept
    return seconds / n
