"""How many times as fast as the default kernel, measured until that is known well enough.

Rounds take a sample of each product, in turns; a round's ratio is (default kernel's time) / (plan's time), and their
median counts. After at least `least` rounds it is enough when the median's interval, by order statistics, lies above
the limit: more rounds would not change the verdict. What does not get clear of it gets all rounds.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

SAMPLE_S: Final = 1e-3
"""A sample of a short product is made of so many that it takes this long."""
WARM_BELOW_S: Final = 0.02
"""Products that take longer stream through more memory than caches hold: none is run before the one that is timed."""
DOUBT: Final = 0.005
"""Chance that the median lies below its interval."""

Product = Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How many rounds a ratio gets."""

    least: int = 8
    most: int = 31
    clear_of: float = 0.95


def n_below(n: int, *, doubt: float = DOUBT) -> int:
    """How many of n sorted values lie below the median's lower bound; -1 when n are too few for one.

    The k-th smallest value exceeds the median with probability sum of C(n, i) / 2**n over i < k.
    """
    total, k = 0.0, 0
    while k <= n and (total := total + math.comb(n, k) / 2.0**n) <= doubt:
        k += 1
    return k - 1


def is_clear(ratios: Sequence[float], rounds: Rounds) -> bool:
    """Whether the median is known to lie above the limit."""
    at = n_below(len(ratios))
    return len(ratios) >= rounds.least and at >= 0 and sorted(ratios)[at] > rounds.clear_of


def speed_ratio(default: Product, tuned: Product, rounds: Rounds) -> tuple[float, int]:
    """(median over rounds of the default product's time over the tuned one's, number of rounds)."""
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
    """Seconds of a product; `is_warm`: after one that brings back what the other's threw out of the caches."""
    if is_warm:
        run()
    start_s = time.perf_counter()
    for _ in range(n):
        kept = run()  # the one before lives until this one is there, as in C = A @ B
    seconds = time.perf_counter() - start_s
    del kept
    return seconds / n
