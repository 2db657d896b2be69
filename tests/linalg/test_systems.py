"""Tests of forty systems and further ones: iterations, `info` and residuals of our solvers are SciPy's."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse.linalg

import autosparse as asp
from tests.linalg.systems import (
    BY_CHANCE,
    DEVIATIONS,
    FURTHER,
    GENERATED,
    REAL,
    SYSTEMS,
    Outcome,
    System,
    jacobi,
    permuted,
    solve,
)

QUICK = ("grid 12x12x12", "magnetic grid, complex64", "Neumann grid", "shifted grid", "slow convection", "damped waves")
SENSITIVE = ("bicgstab", "cgs", "qmr")
"""Solvers whose number of iterations depends on the rounding of sums."""
ORDERS = 10
MORE_ORDERS = 120
"""Orders of summation where ten give a narrower range than SciPy's: a count that one order in twenty has."""


def cases() -> list[Any]:
    made = []
    for system in SYSTEMS.values():
        for solver, is_preconditioned in itertools.product(system.solvers, (False, True)):
            if is_preconditioned and solver in ("lsqr", "lsmr"):
                continue
            marks = [] if system.name in QUICK else [pytest.mark.full]
            marks += [pytest.mark.matrices] if system.is_real_file else []
            label = f"{system.name}-{solver}{'-M' if is_preconditioned else ''}"
            made.append(pytest.param(system.name, solver, is_preconditioned, id=label, marks=marks))
    return made


@functools.lru_cache(maxsize=2)
def made(name: str) -> tuple[System, Any, Any, Any]:
    """Return the system, A, b, and a matrix of ours with its own arrays."""
    system = SYSTEMS[name]
    A = system.matrix()
    return system, A, system.right_side(A), asp.csr(A, copy=True)


def is_near(mine: int, theirs: int) -> bool:
    return abs(mine - theirs) <= max(1, 0.01 * theirs)


def theirs_of(solver: str, A: Any, b: Any, M: Any, rtol: float, *, orders: int) -> list[Outcome]:
    """Return SciPy's solves of the system, first in its own order and then in other orders of its unknowns."""
    others = [(A, b, M), *(permuted(A, b, M, seed) for seed in range(orders))]
    return [solve(scipy.sparse.linalg, solver, A, b, rtol=rtol, M=M) for A, b, M in others]


@pytest.mark.parametrize(("name", "solver", "is_preconditioned"), cases())
def test_as_many_iterations_as_scipy(name: str, solver: str, is_preconditioned: bool) -> None:
    system, A, b, ours = made(name)
    M = jacobi(A) if is_preconditioned else None
    mine = solve(asp.linalg, solver, ours, b, rtol=system.rtol, M=M)
    theirs = theirs_of(solver, A, b, M, system.rtol, orders=0)
    is_sensitive = solver in SENSITIVE or system in FURTHER
    for orders in (ORDERS, MORE_ORDERS):
        if not agrees(mine, theirs, system, is_sensitive=is_sensitive):
            theirs = theirs_of(solver, A, b, M, system.rtol, orders=orders)
    if (name, solver, "M" if is_preconditioned else "") in BY_CHANCE:
        assert mine.info in {-10, *(one.info for one in theirs)}
        return
    lines = "\n".join(["", mine.line, *(one.line for one in theirs)])
    assert agrees(mine, theirs, system, is_sensitive=is_sensitive), lines
    assert mine.x.dtype == theirs[0].x.dtype


def agrees(mine: Outcome, theirs: list[Outcome], system: System, *, is_sensitive: bool) -> bool:
    """Return whether a solve is like one of SciPy's, which differ by the order of their sums.

    Iterations, `info` and the residual are compared. For sensitive solvers the iterations may be within their range:
    one more draw from the distribution of eleven numbers is outside of it in one of six cases, so that it is widened by
    half its width on both sides. Where no solve of SciPy's converges, rounding decides whether one breaks down first.
    """
    low, high = (pick(one.iterations for one in theirs) for pick in (min, max))
    margin = math.ceil((high - low) / 2)
    is_within = is_sensitive and low - margin <= mine.iterations <= high + margin
    is_known = mine.info in {one.info for one in theirs}
    if is_sensitive and mine.info < 0 < min(one.info for one in theirs):
        is_within = is_known = True
    if not is_known or not (is_within or any(is_near(mine.iterations, one.iterations) for one in theirs)):
        return False
    small, large = (pick(one.residual for one in theirs) for pick in (min, max))
    limit = max(large, system.rtol) if mine.info == 0 else large * np.sqrt(large / small)
    return bool(mine.residual <= 1.05 * limit) or not np.isfinite(limit)


@pytest.mark.full
def test_iteration_counts_are_statistically_within_scipys_range() -> None:
    """Count solves outside SciPy's range.

    For n draws of equal distribution, n / 6 are expected outside the range of eleven others.
    """
    outside = []
    for system in GENERATED:
        _, A, b, ours = made(system.name)
        for solver in SENSITIVE:
            mine = solve(asp.linalg, solver, ours, b, rtol=system.rtol)
            counts = [one.iterations for one in theirs_of(solver, A, b, None, system.rtol, orders=ORDERS)]
            outside.append(not min(counts) <= mine.iterations <= max(counts))
    n = len(outside)
    assert sum(outside) <= n / 6 + 3 * np.sqrt(n * 5 / 36), f"{sum(outside)} of {n}"


def test_forty_systems_are_listed() -> None:
    assert len(GENERATED) + len(REAL) == 40
    assert {name for name, *_ in DEVIATIONS} <= {system.name for system in FURTHER}
    assert set(DEVIATIONS) >= BY_CHANCE
    assert len(REAL) >= 20
    assert {system.kind for system in SYSTEMS.values()} == {"spd", "indefinite", "unsymmetric"}
