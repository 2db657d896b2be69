"""Solvers that compete for a problem beside the built-in kernels, with the reasons against those that cannot."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import Final

from autosparse.config import Options
from autosparse.containment import contained
from autosparse.core.plan import Candidate
from autosparse.core.problem import Problem
from autosparse.core.solver import Choice, Cost, Solver
from autosparse.core.values import dataclass
from autosparse.ops.registry import REGISTERED, UNSEARCHED, computes, load_solvers

MAX_KNOBS: Final = 8
"""Maximum number of choices of one registered solver that race."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Choices that race beside the built-in ones, and candidates that are listed with the reason why they do not."""

    choices: tuple[Choice, ...] = ()
    refused: tuple[Candidate, ...] = ()


def solvers_of(options: Options, operation: str) -> list[Solver]:
    """Return the solvers beside the built-in ones that may compete for `operation`; entry points are loaded first."""
    if options.deterministic:
        return []
    if UNSEARCHED:
        load_solvers()
    known = (*map(REGISTERED.__getitem__, sorted(REGISTERED)), *(vendors() if options.vendor else ()))
    return [one for one in known if computes(one, operation)]


def vendors() -> tuple[Solver, ...]:
    """Return the solvers that the option `vendor` adds."""
    from autosparse.tuning.solvers.mkl import MKL  # imported for the option alone
    from autosparse.tuning.solvers.scipy_loop import SCIPY

    return MKL, SCIPY


def solver_named(name: str, options: Options, operation: str) -> Solver | None:
    """Return the solver `name` of `operation` beside the built-in ones; None if it is not registered or not allowed."""
    return next((one for one in solvers_of(options, operation) if one.name == name), None)


def offer_of(problem: Problem, options: Options) -> Offer:
    """Return the choices of the solvers beside the built-in ones for `problem`, and the refused solvers."""
    choices: list[Choice] = []
    refused: list[Candidate] = []
    for solver in solvers_of(options, problem.operation):
        reason = reason_against(solver, problem)
        if reason is None:
            choices += _choices(solver, problem)
        else:
            refused.append(Candidate(choice=Choice(solver.name), failed=reason))
    return Offer(tuple(choices), tuple(refused))


def reason_against(solver: Solver, problem: Problem) -> str | None:
    """Return why `solver` cannot compute `problem`; None if it can. A failure of the solver is a reason, too."""
    try:
        return solver.applicable(problem)
    except contained() as err:
        return f"{type(err).__name__}: {err}"


def _choices(solver: Solver, problem: Problem) -> Iterable[Choice]:
    try:
        return list(map(partial(Choice, solver.name), islice(solver.knobs(problem), MAX_KNOBS)))
    except contained():
        return []


def cost_of(solver: Solver, problem: Problem, choice: Choice) -> Cost:
    """Return the solver's expected cost of `choice`; nothing is expected where the solver fails."""
    try:
        return solver.cost(problem, choice.knobs)
    except contained():
        return Cost()
