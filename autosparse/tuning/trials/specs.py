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
"""Maximum number of cached specifications; the oldest is dropped first."""
# keyed by the schedule and the facts of the problem
_specs: dict[tuple[Any, ...], _native.KernelSpec | _native.CompositeSpec] = {}


def spec_of(problem: Problem, schedule: Schedule) -> _native.KernelSpec | _native.CompositeSpec:
    """Return the specification of everything that the code of `schedule` for `problem` depends on."""
    gathers = runtime_api.gathers()
    facts = (problem.dtype, problem.pattern.index_dtype, problem.target.isa, problem.deterministic, gathers)
    name = (schedule, *facts)
    known = _specs.get(name)
    if known is not None:
        return known
    made: _native.KernelSpec | _native.CompositeSpec
    if isinstance(schedule, SuperSchedule):
        made = _native.KernelSpec(problem.operation, schedule, *facts)
    else:
        made = _native.CompositeSpec(problem.operation, schedule, *facts)
    while len(_specs) >= MAX_SPECS:
        _specs.pop(next(iter(_specs)), None)
    _specs[name] = made
    return made


@functools.cache
def supports_of(dtype: str) -> Callable[[str, Schedule], str | None]:
    """Return a function (operation, schedule) -> reason why it has no kernel for `dtype`, or None."""
    if dtype in REAL:
        return _native.supports

    def reason(operation: str, schedule: Schedule) -> str | None:
        return _native.reason_not_of_type(schedule, dtype) or _native.supports(operation, schedule)

    return reason
