"""Neighbours of a schedule in a template space, which collections measure around the fastest schedules found."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

import numpy as np
from autosparse.tuner.research.space.waco import WacoSpace
from autosparse.tuner.space.families import READY_AHEAD
from autosparse.tuner.space.own import ABSENT, READY_FAMILIES, OwnSpace
from autosparse.tuner.space.template import Code, Parameter, Permutation, Supports, TemplateSpace

from autosparse.core.schedule import RUNTIME_TILE, SuperSchedule
from autosparse.errors import ScheduleError

RUN_TIME_PARAMETERS: Final = frozenset({"partition", "parchunk", "parnum"})
"""Run-time parameters, which do not change the compiled code (`SuperSchedule.as_compiled`)."""


def with_run_time(space: TemplateSpace, schedule: SuperSchedule, rng: np.random.Generator) -> SuperSchedule:
    """Return `schedule` with newly drawn run-time parameters and the same kernel; precompiled loops have none."""
    if schedule.is_precompiled:
        return schedule
    fresh = space.draw(rng)
    run_time = {name: fresh[name] for name in RUN_TIME_PARAMETERS & fresh.keys()}
    return space.schedule_of({**space.values_of(schedule), **run_time})


def neighbours(
    space: TemplateSpace, schedule: SuperSchedule, supports: Supports | None = None
) -> Iterator[SuperSchedule]:
    """Yield schedules whose codes differ in one step of one parameter, or of linked parameters, each once."""
    seen = {schedule}
    for code in _steps(space, space.encode(schedule)):
        try:
            found = space.decode(code)
        except ScheduleError:
            continue
        if found not in seen and (supports is None or supports(space.operation, found) is None):
            seen.add(found)
            yield found


def _steps(space: TemplateSpace, code: Code) -> Iterator[Code]:
    """Yield the codes next to `code`; some may have no schedule."""
    for at, parameter in enumerate(space.parameters):
        for step in _beside(parameter, code[at]):
            yield (*code[:at], step, *code[at + 1 :])
    if isinstance(space, OwnSpace):
        yield from _ready(space, code)
    elif isinstance(space, WacoSpace):
        yield from _exchanged(space, code)


def _beside(parameter: Parameter, code: int | tuple[int, ...]) -> Iterator[int | tuple[int, ...]]:
    """Yield the codes one step away; for permutations, those with two adjacent positions exchanged."""
    if isinstance(parameter, Permutation):
        assert isinstance(code, tuple)
        for at in range(len(code) - 1):
            yield (*code[:at], code[at + 1], code[at], *code[at + 2 :])
        return
    assert isinstance(code, int)
    yield from ((code - 1, code + 1) if parameter.is_ladder else range(len(parameter.values)))


def _ready(space: OwnSpace, code: Code) -> Iterator[Code]:
    """Yield the codes of all precompiled loops if `code` is that of one, because their schedules differ in few axes."""
    at = {parameter.name: place for place, parameter in enumerate(space.parameters)}
    if not space.has_ready or space.parameters[at["tile"]].value(code[at["tile"]]) != RUNTIME_TILE:
        return
    for row, ahead in itertools.product((space.families[name] for name in READY_FAMILIES), READY_AHEAD):
        for size in row.sizes:
            other = list(code)
            for name, value in {
                "family": row.name, "row_order": size.get("order", ABSENT), "prefetch": ahead,
            }.items():  # fmt: skip
                other[at[name]] = space.parameters[at[name]].code(value)
            yield tuple(other)


def _exchanged(space: WacoSpace, code: Code) -> Iterator[Code]:
    """Yield the codes in which two adjacent loops and their levels are exchanged, so that both still agree in order."""
    at = {parameter.name: place for place, parameter in enumerate(space.parameters)}
    loops, levels = Permutation("order", space.coordinates), Permutation("level_order", space.sparse)
    for step in _beside(loops, code[at["order"]]):
        changed = list(code)
        changed[at["order"]] = step
        changed[at["level_order"]] = levels.code([name for name in loops.value(step) if name in space.sparse])
        yield tuple(changed)
