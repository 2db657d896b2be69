"""Plan: the schedule that was chosen for a problem, with its measurements and its origin."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from autosparse.config import Effort
from autosparse.core.composite import Part, Schedule, parts_of
from autosparse.core.solver import DEFAULT_SOLVER, Choice
from autosparse.core.values import dataclass

EFFORT_IS_OFF: Final = "effort is off"
"""Reason in plans of problems whose options allow no tuning."""
MAX_WORDS: Final = 100
"""Maximum number of characters of a reason in a one-line summary."""


class _Chosen:
    """Base class of candidates and plans: parts of their choice by name."""

    __slots__ = ()
    choice: Choice

    @property
    def schedule(self) -> Schedule | None:
        """Schedule of the kernel; None for the default solver and for solvers with knobs of their own."""
        return self.choice.schedule

    @property
    def solver(self) -> str:
        """Name of the solver, such as "sell", "default" or "mkl"."""
        return self.choice.solver


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate(_Chosen):
    """Choice that a search considered: predicted and measured time of one product, and the cost of preparing it."""

    choice: Choice  # solver with its knobs, which identifies the candidate
    predicted_s: float | None = None
    measured_s: float | None = None
    build_s: float = 0.0  # seconds to lower and compile; 0 when the kernel was in the cache
    pack_s: float = 0.0  # seconds to convert the operand
    packed_bytes: int = 0
    failed: str | None = None  # reason why it could not be built, packed or run
    predicted_ratio: float | None = None  # predicted time divided by the default kernel's
    n_samples: int = 0  # products that `measured_s` was measured on, in this process and earlier ones
    name: str = ""  # name in explanations; "": that of the choice

    def __repr__(self) -> str:
        return f"Candidate({_facts(self, why=self.failed or '')})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(_Chosen):
    """Kernel that will run for one problem, and why.

    `choice` identifies the kernel: the solver by name, with its knobs.
    """

    choice: Choice
    why: str  # one sentence, shown by explain()
    effort: str = "off"  # effort of the search that found it
    predicted_s: float | None = None
    measured_s: float | None = None
    default_s: float | None = None  # measured time of the default kernel in the same measuring session
    tune_s: float = 0.0  # seconds spent to find this plan (search, builds, packing, timing)
    pack_s: float = 0.0  # seconds to convert the operand, which each new object with this pattern needs again
    packed_bytes: int = 0
    candidates: tuple[Candidate, ...] = ()
    remembered: bool = False  # whether it comes from the cache instead of this process
    not_remembered: str = ""  # reason for the search: difference to the nearest remembered plan
    predicted_ratio: float | None = None  # predicted time divided by the default kernel's
    in_place: Schedule | None = None  # fastest kernel that reads the user's arrays, where `choice` packs a copy
    in_place_s: float | None = None  # measured time of one product by `in_place`
    proposed_by: str = ""  # learned model that searched for candidates, with the cost of the search
    served_by: str | None = None  # library that serves where autosparse has no kernel, else None

    def __repr__(self) -> str:
        """Return a one-line summary without candidates; ``print(A.explain(B))`` explains the plan in words."""
        return f"Plan({_facts(self, why=self.why)}; effort={self.effort!r}, {len(self.candidates)} candidates)"

    @property
    def knobs(self) -> Hashable:
        """Values that a solver without schedules is prepared with; None where there is a schedule."""
        return self.choice.knobs if self.schedule is None else None

    @property
    def parts(self) -> tuple[Part, ...]:
        """Parts of the computation: one for a matrix in one format, none for the default kernel."""
        return parts_of(self.schedule)

    @property
    def is_default(self) -> bool:
        """Return whether the default kernel runs."""
        return self.choice.solver == DEFAULT_SOLVER

    def satisfies(self, effort: Effort, budget_s: float = 0.0) -> bool:
        """Return whether the plan was found with enough effort.

        A full search is repeated where `budget_s`, the seconds allowed now, is more than twice what it took.
        """
        is_short = effort is Effort.FULL and budget_s > 2.0 * self.tune_s
        return not is_short and Effort(self.effort).rank >= effort.rank

    @property
    def break_even_runs(self) -> float | None:
        """Number of products after which tuning and packing have paid off; None if unknown or never."""
        return self.expected_break_even(None)

    def expected_break_even(self, default_s: float | None) -> float | None:
        """Return the number of products after which tuning and packing have paid off, given `default_s`.

        `default_s` is the default kernel's time per product where the plan has no measurement of it. A plan by estimate
        uses its predicted ratio. None if unknown or never.
        """
        default_s = self.default_s or default_s
        tuned_s = self.measured_s
        if tuned_s is None and default_s and self.predicted_ratio is not None and not self.is_default:
            tuned_s = self.predicted_ratio * default_s
        if tuned_s is None or not default_s or default_s <= tuned_s:
            return None
        return (self.tune_s + self.pack_s) / (default_s - tuned_s)


def _facts(one: Candidate | Plan, *, why: str) -> str:
    """Return a one-line summary of a plan or candidate: kernel, times, and the start of the reason `why`."""
    served_by = one.served_by if isinstance(one, Plan) else None
    other = "default kernel" if one.choice.is_default else one.solver
    parts = [str(one.schedule.format) if one.schedule is not None else served_by or other]
    if one.measured_s is not None:
        parts.append(f"{one.measured_s * 1e3:.3g} ms")
    elif one.predicted_ratio is not None:
        parts.append(f"predicted {one.predicted_ratio:.2f} x default")
    if isinstance(one, Plan) and one.default_s is not None and not one.is_default:
        parts.append(f"default {one.default_s * 1e3:.3g} ms")
    words = " ".join(why.split())
    words = words if len(words) <= MAX_WORDS else f"{words[:MAX_WORDS]}..."
    return f"{', '.join(parts)}: {words}" if words else ", ".join(parts)
