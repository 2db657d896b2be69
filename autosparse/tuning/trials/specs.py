"""Kernel specifications, cached by their schedule and the facts of the problem."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from autosparse import _native
from autosparse._native import runtime_api
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.scalar import REAL

if TYPE_CHECKING:
    from autosparse.core.composite import Schedule

MAX_SPECS: Final = 1024
"""Maximum number of cached specifications; the one that was unused for longest is dropped first."""


def spec_of(problem: Problem, schedule: Schedule) -> _native.KernelSpec | _native.CompositeSpec:
    """Return the specification of everything that the code of `schedule` for `problem` depends on."""
    facts = (problem.dtype, problem.pattern.index_dtype, problem.target.isa, problem.deterministic)
    return _spec(problem.operation, schedule, *facts, runtime_api.gathers())


@functools.lru_cache(MAX_SPECS)
def _spec(operation: str, schedule: Schedule, *facts: Any) -> _native.KernelSpec | _native.CompositeSpec:
    if isinstance(schedule, SuperSchedule):
        return _native.KernelSpec(operation, schedule, *facts)
    return _native.CompositeSpec(operation, schedule, *facts)


@functools.cache
def supports_of(dtype: str) -> Callable[[str, Schedule], str | None]:
    """Return a function (operation, schedule) -> reason why it has no kernel for `dtype`, or None."""
    if dtype in REAL:
        return _native.supports

    def reason(operation: str, schedule: Schedule) -> str | None:
        return _native.reason_not_of_type(schedule, dtype) or _native.supports(operation, schedule)

    return reason
