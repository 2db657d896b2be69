"""Report: everything that an explanation of one product tells, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from autosparse.plan import Plan
from autosparse.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What runs for `problem` and why, as things stand: `executor.report` makes it, `autosparse.explain` renders it."""

    problem: Problem
    plan: Plan  # of what runs now; its candidates are those of the search so far
    value_bytes: int  # of one stored value
    n_calls: int = 0  # products of this problem by this object so far
    product_s: float = 0.0  # time they took
    runs_expected: float | None = None  # from a hint or from history; None: unknown
    packed_bytes: int = 0  # all packed copies of this operand
    packed_limit_bytes: int = 0  # options.extra_memory times the bytes of A
    verdict: str = ""  # what the next step of tuning waits for, or why there is none
    failures: tuple[str, ...] = ()  # what was given up, and why
