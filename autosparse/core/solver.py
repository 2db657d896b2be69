"""Types that every planner shares: a choice, its expected cost, and the protocol of solvers.

A solver is a way to compute one kind of problem: a family of kernels, a vendor's library, or the default kernel. Its
knobs are the values that it may be prepared with, such as a SuperSchedule. A planner ranks choices (solver, knobs) by
cost, times the best ones against the default, and stores the fastest as the plan.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final, Protocol

from autosparse.config import Effort
from autosparse.core.values import dataclass

DEFAULT_SOLVER: Final = "default"
"""Name of the solver that computes without any preparation: the compiled loop, or the library that is replaced."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Solver by name, with its knobs: hashable, equal by value and storable, so that it identifies a candidate."""

    solver: str
    knobs: Hashable = None

    @property
    def is_default(self) -> bool:
        """Return whether the choice is the default solver, which runs in every race."""
        return self.solver == DEFAULT_SOLVER


DEFAULT: Final = Choice(DEFAULT_SOLVER)
"""Choice of the default solver, which has no knobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Expected cost of a choice: seconds of one run with an interval, seconds of preparation, bytes kept.

    `seconds` is None where no model predicts the time; such a choice must be timed.
    """

    seconds: float | None = None
    low_s: float | None = None  # lower quantile of the expected seconds
    high_s: float | None = None  # upper quantile
    setup_s: float = 0.0
    n_bytes: int = 0


class Bound(Protocol):
    """Protocol of a choice that was prepared for one operand and can run."""

    def run(self, arguments: Any) -> bool:
        """Compute one result from `arguments`, the pointer structure of the operation; False: it must be recomputed."""


class Solver(Protocol):
    """Protocol of solvers. Problems and operands are those of the surface that plans: CPU, GPU or einsum."""

    name: str

    def applicable(self, problem: Any) -> str | None:
        """Return why the solver cannot compute `problem`, for explanations; None if it can."""

    def knobs(self, problem: Any) -> Iterable[Hashable]:
        """Return the knobs worth considering for `problem`: few, hashable and storable."""

    def cost(self, problem: Any, knobs: Hashable) -> Cost:
        """Return the expected cost of `problem` with `knobs`."""

    def prepare(self, operand: Any, knobs: Hashable) -> Bound:
        """Pack, compile or load; raise BuildError or PackError if that fails."""


def satisfies(found: Effort, wanted: Effort, *, tune_s: float = 0.0, budget_s: float = 0.0) -> bool:
    """Return whether a plan found with the effort `found` in `tune_s` seconds serves where `wanted` is asked for.

    A full search is repeated where the user now allows more than twice the seconds that it took.
    """
    if wanted is Effort.FULL and budget_s > 2.0 * tune_s:
        return False
    return found.rank >= wanted.rank
