"""Scripted sequences of residuals that a solver could report, without solving anything."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

TARGET = 1e-8
Script = Callable[[int], list[float]]
"""Function from the length of a solve to its residuals; the last one is the first below TARGET."""


def steady(n: int) -> list[float]:
    """Return residuals whose logarithm falls at a constant rate."""
    return [math.exp(math.log(TARGET) * k / n) * 0.999 for k in range(n + 1)]


def superlinear(n: int) -> list[float]:
    """Return residuals that fall ever faster, like those of cg once extreme eigenvalues have converged."""
    return [math.exp(math.log(TARGET) * (k / n) ** 1.5) * 0.999 for k in range(n + 1)]


def jumping(n: int) -> list[float]:
    """Return residuals like those of bicgstab: the steady ones times factors of up to 30."""
    return [value * 30.0 ** math.sin(2.3 * k) for k, value in enumerate(steady(n)[:-1])] + [0.9 * TARGET]


def plateau(n: int) -> list[float]:
    """Return residuals that fall half of the way, stay on a plateau for half of the time, and fall the rest."""
    quarter = max(1, n // 4)
    fall = [math.exp(0.5 * math.log(TARGET) * k / quarter) for k in range(quarter)]
    flat = [math.sqrt(TARGET)] * (n - 2 * quarter)
    return [*fall, *flat, *(math.exp(0.5 * math.log(TARGET) * (1 + k / quarter)) for k in range(quarter)), 0.9 * TARGET]


def stagnant(n: int) -> list[float]:
    """Return residuals that stagnate above the target, so that only the limit of iterations ends the solve."""
    return [max(value, 1e-6) for value in steady(n)]


def diverging(n: int) -> list[float]:
    """Return residuals that grow until the limit of iterations or an overflow."""
    return [1.5**k for k in range(n + 1)]


FALLING: dict[str, Script] = {"steady": steady, "superlinear": superlinear, "jumping": jumping, "plateau": plateau}
ALL: dict[str, Script] = {**FALLING, "stagnant": stagnant, "diverging": diverging}


def reports(residuals: list[float]) -> Iterator[tuple[int, float, float]]:
    """Yield (iterations done, smallest residual, last residual) before each iteration."""
    best = math.inf
    for n, residual in enumerate(residuals):
        best = min(best, residual)
        yield n, best, residual
