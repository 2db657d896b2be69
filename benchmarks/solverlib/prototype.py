"""Conjugate gradients over autosparse's product with three fused single-thread loops of numba, as a reference."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

import autosparse


@numba.njit(fastmath=True, cache=False)
def _curvature(p: Any, q: Any) -> float:
    total = 0.0
    for i in range(p.size):
        total += p[i] * q[i]
    return total


@numba.njit(fastmath=True, cache=False)
def _update(step: float, x: Any, p: Any, r: Any, q: Any) -> float:
    total = 0.0
    for i in range(p.size):
        x[i] += step * p[i]
        new = r[i] - step * q[i]
        r[i] = new
        total += new * new
    return total


@numba.njit(fastmath=True, cache=False)
def _direct(beta: float, p: Any, r: Any) -> None:
    for i in range(p.size):
        p[i] = r[i] + beta * p[i]


def cg(A: Any, b: Any, *, rtol: float, maxiter: int) -> tuple[Any, int]:
    """Solve by SciPy's recurrence."""
    x, r = np.zeros_like(b), b.copy()
    p, q = r.copy(), np.empty_like(b)
    rr = float(r @ r)
    limit = rtol * rr**0.5
    for _ in range(maxiter):
        autosparse.matmul(A, p, out=q)
        step = rr / _curvature(p, q)
        now = _update(step, x, p, r, q)
        if now**0.5 < limit:
            return x, 0
        _direct(now / rr, p, r)
        rr = now
    return x, maxiter


def prepare() -> None:
    """Compile the loops."""
    one = np.ones(8)
    _curvature(one, one)
    _update(0.0, one.copy(), one, one.copy(), one)
    _direct(0.0, one.copy(), one)
