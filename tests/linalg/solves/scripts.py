"""Scripted residuals: what solvers report, without solving anything."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

TARGET = 1e-8
Script = Callable[[int], list[float]]
"""Length of the solve -> its residuals; the last one is the first below TARGET."""


def steady(n: int) -> list[float]:
    """The logarithm falls at one rate."""
    return [math.exp(math.log(TARGET) * k / n) * 0.999 for k in range(n + 1)]


def superlinear(n: int) -> list[float]:
    """The rate of the fall grows, as that of conjugate gradients once extreme eigenvalues have converged."""
    return [math.exp(math.log(TARGET) * (k / n) ** 1.5) * 0.999 for k in range(n + 1)]


def jumping(n: int) -> list[float]:
    """The residual of bicgstab: around the steady one, by factors of up to 30."""
    return [value * 30.0 ** math.sin(2.3 * k) for k, value in enumerate(steady(n)[:-1])] + [0.9 * TARGET]


def plateau(n: int) -> list[float]:
    """A fall by half of the way, a plateau for half of the time, the rest of the fall."""
    quarter = max(1, n // 4)
    fall = [math.exp(0.5 * math.log(TARGET) * k / quarter) for k in range(quarter)]
    flat = [math.sqrt(TARGET)] * (n - 2 * quarter)
    return [*fall, *flat, *(math.exp(0.5 * math.log(TARGET) * (1 + k / quarter)) for k in range(quarter)), 0.9 * TARGET]


def stagnant(n: int) -> list[float]:
    """The attainable accuracy is reached before the target: only the limit of iterations ends the solve."""
    return [max(value, 1e-6) for value in steady(n)]


def diverging(n: int) -> list[float]:
    """The residual grows until the limit of iterations, or an overflow."""
    return [1.5**k for k in range(n + 1)]


FALLING: dict[str, Script] = {"steady": steady, "superlinear": superlinear, "jumping": jumping, "plateau": plateau}
ALL: dict[str, Script] = {**FALLING, "stagnant": stagnant, "diverging": diverging}


def reports(residuals: list[float]) -> Iterator[tuple[int, float, float]]:
    """Iterations done, smallest and last residual, before each iteration."""
    best = math.inf
    for n, residual in enumerate(residuals):
        best = min(best, residual)
        yield n, best, residual
