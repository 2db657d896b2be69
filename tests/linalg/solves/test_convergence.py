"""Tests of extrapolated residuals: scripted solves whose ends are known."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosparse.linalg.solves.convergence import HORIZON, NOTHING, Convergence, Left
from tests.linalg.solves import scripts

LENGTHS = (20, 100, 400, 3000)


def lefts(residuals: list[float], *, limit: float = math.inf) -> dict[int, Left]:
    """Return the estimates of the iterations left, by the iterations at which a solve estimates."""
    convergence, found, due = Convergence(target=scripts.TARGET, limit=limit), {}, 1
    for n, best, now in scripts.reports(residuals):
        if n >= due:
            found[n] = convergence.left(n, best, now)
            due = max(n + 1, int(n * 1.25))
    return found


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("script", ["steady", "superlinear", "jumping"])
def test_certain_iterations_run(script: str, length: int) -> None:
    """The iterations that count as certain may exceed those that run by a tenth of the solve, also with jumps."""
    for n, left in lefts(scripts.ALL[script](length)).items():
        assert left.certain <= (length - n) + 0.1 * length


@pytest.mark.parametrize("length", LENGTHS[1:])
def test_a_steady_solve_is_extrapolated_to_its_end(length: int) -> None:
    for n, left in lefts(scripts.steady(length)).items():
        if length / HORIZON <= n < length:
            assert left.likely == pytest.approx(length - n, rel=0.1, abs=2)
            assert left.certain >= 0.4 * (length - n)


@pytest.mark.parametrize("length", LENGTHS[1:])
def test_a_long_solve_is_known_after_an_eighth(length: int) -> None:
    known = [n for n, left in lefts(scripts.steady(length)).items() if left.certain >= 0.3 * length]
    assert known
    assert min(known) <= 0.25 * length


def test_the_last_iterations_are_known_to_be_few() -> None:
    for script in ("steady", "superlinear"):
        for n, left in lefts(scripts.ALL[script](400)).items():
            if n >= 390:
                assert left.likely <= 20


@pytest.mark.parametrize("length", LENGTHS[1:])
def test_a_plateau_is_extrapolated_and_certain_iterations_stay_below_the_rest(length: int) -> None:
    for n, left in lefts(scripts.plateau(length)).items():
        if 0.55 * length < n < 0.74 * length:  # on the plateau, to which more than half of the iterations belong
            assert left.likely >= 0.25 * length
            assert left.certain <= length - n


def test_stagnation_goes_on_until_the_limit_of_iterations() -> None:
    found = lefts(scripts.stagnant(2000), limit=2000)
    for n, left in found.items():
        assert left.likely <= 2000 - n
        if n > 1600:
            assert left.likely == 2000 - n


def test_divergence_lets_nothing_be_expected() -> None:
    assert all(left == NOTHING for n, left in lefts(scripts.diverging(300)).items() if n > 20)
    assert Convergence(target=1e-8).left(5, 1.0, math.nan) == NOTHING
    assert Convergence(target=1e-8).left(5, 1.0, math.inf) == NOTHING


def test_a_residual_below_the_target_leaves_nothing() -> None:
    convergence = Convergence(target=1e-3)
    convergence.left(1, 1.0, 1.0)
    assert convergence.left(50, 1e-4, 1e-4) == NOTHING
    assert Convergence(target=0.0).left(3, 0.0, 0.0) == NOTHING


@given(
    st.lists(st.floats().map(abs), min_size=1, max_size=60),
    st.floats(0.0, 1.0),
    st.integers(0, 80),
)
def test_any_residuals_let_no_more_be_expected_than_limit_and_horizon(
    residuals: list[float], target: float, limit: int
) -> None:
    convergence = Convergence(target=target, limit=limit)
    for n, best, now in scripts.reports(residuals):
        left = convergence.left(n, best, now)
        assert 0.0 <= left.certain <= max(0, limit - n)
        assert left.likely <= max(0, limit - n)
        assert left.likely <= HORIZON * max(n, 1)
