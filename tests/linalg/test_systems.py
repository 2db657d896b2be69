"""Forty systems: iterations, `info` and residuals of our solvers are SciPy's."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse.linalg

import autosparse as asp
from tests.linalg.systems import REAL, SYSTEMS, Outcome, System, jacobi, permuted, solve

QUICK = ("grid 12x12x12", "magnetic grid, complex64", "Neumann grid", "shifted grid", "slow convection", "damped waves")
SENSITIVE = ("bicgstab", "cgs", "qmr")
"""Solvers whose number of iterations depends on how sums are rounded."""
ORDERS = 10


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
    """The system, A, b and a matrix of ours with its own arrays."""
    system = SYSTEMS[name]
    A = system.matrix()
    return system, A, system.right_side(A), asp.csr(A, copy=True)


def is_near(mine: int, theirs: int) -> bool:
    return abs(mine - theirs) <= max(1, 0.01 * theirs)


@pytest.mark.parametrize(("name", "solver", "is_preconditioned"), cases())
def test_as_many_iterations_as_scipy(name: str, solver: str, is_preconditioned: bool) -> None:
    system, A, b, ours = made(name)
    M = jacobi(A) if is_preconditioned else None
    mine = solve(asp.linalg, solver, ours, b, rtol=system.rtol, M=M)
    theirs = [solve(scipy.sparse.linalg, solver, A, b, rtol=system.rtol, M=M)]
    if solver in SENSITIVE and not agrees(mine, theirs, system):
        for seed in range(ORDERS):
            other = permuted(A, b, M, seed)
            theirs.append(solve(scipy.sparse.linalg, solver, other[0], other[1], rtol=system.rtol, M=other[2]))
    assert agrees(mine, theirs, system), "\n".join(["", mine.line, *(one.line for one in theirs)])
    assert mine.x.dtype == theirs[0].x.dtype


def agrees(mine: Outcome, theirs: list[Outcome], system: System) -> bool:
    """Whether a solve is within the range of SciPy's: iterations, `info`, and the residual."""
    low, high = (pick(one.iterations for one in theirs) for pick in (min, max))
    if not (low <= mine.iterations <= high or is_near(mine.iterations, low) or is_near(mine.iterations, high)):
        return False
    if mine.info not in {one.info for one in theirs}:
        return False
    limit = max(*(one.residual for one in theirs), system.rtol)
    return bool(mine.residual <= 1.05 * limit) or not np.isfinite(limit)


def test_forty_systems_are_listed() -> None:
    assert len(SYSTEMS) == 40
    assert len(REAL) >= 20
    assert {system.kind for system in SYSTEMS.values()} == {"spd", "indefinite", "unsymmetric"}
