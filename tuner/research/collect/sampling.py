"""Sampling of the schedules to measure on a pattern: mostly good candidates, but not only these.

A model that orders candidates needs accurate data on the good ones of every pattern, and enough bad ones to avoid them.
Each pattern therefore gets shares of five kinds: the analytic model's best of every format, uniform draws of this
library's space, the runtime's precompiled loops, WACO's template, and neighbours of the fastest found so far. One
schedule of plain storage is always measured, as a reference for costs on all patterns. Proposals of a learned model can
be added: the best predicted of thousands of programs is often a misprediction, which no other share reveals.

Samples share kernels, since compiling takes longer than measuring. Two schedules share a kernel when they differ only
in run-time parameters: partition, chunk, threads, and the windows of sorted slices (`SuperSchedule.as_compiled`). WACO
compiled each of its 100 samples per matrix (section 4.1.3). Here, the samples of all matrices use one `KernelPool`,
each with new run-time parameters.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from autosparse.tuner.analytic.matmul import CostModel
from autosparse.tuner.research.space.waco import WacoSpace
from autosparse.tuner.research.training.scale import DEFAULT_LIKE
from autosparse.tuner.space import families as space
from autosparse.tuner.space import spaces
from autosparse.tuner.space.families import READY_AHEAD
from autosparse.tuner.space.neighbours import neighbours
from autosparse.tuner.space.own import ABSENT, READY_FAMILIES, OwnSpace
from autosparse.tuner.space.template import Code, Parameter, Permutation, Supports, TemplateSpace

from autosparse.core.problem import Problem
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


def template_neighbours(
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


Draw = Callable[[np.random.Generator], SuperSchedule]

DYNAMIC_SHARE: Final = 0.25
"""Fraction of uniform draws that use dynamic chunks of the parallel loop instead of equal nonzeros."""
SINGLE_SHARE: Final = 0.05
"""Fraction of uniform draws on one thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Numbers of schedules to measure per pattern, by the way in which they are chosen."""

    favourites: int = 20
    uniform: int = 16
    ready: int = 6
    template: int = 10
    neighbours: int = 12

    @classmethod
    def of(cls, n_schedules: int) -> Shares:
        """Return the usual shares, scaled to `n_schedules` in total."""
        usual = dataclasses.asdict(cls())
        total = sum(usual.values())
        scaled = {name: max(1, round(n * n_schedules / total)) for name, n in usual.items() if name != "uniform"}
        return cls(**scaled, uniform=max(1, n_schedules - sum(scaled.values())))


def first_draw(
    problem: Problem,
    supports: Supports,
    model: CostModel,
    *,
    rng: np.random.Generator,
    shares: Shares,
    template: Draw | None = None,
    proposed: Sequence[SuperSchedule] = (),
) -> list[SuperSchedule]:
    """Return a shuffled list of distinct schedules to measure first.

    It has `proposed`, plain storage, best predictions, runtime loops, uniform draws and those of `template`. Uniform
    draws fill up missing runtime loops, or a missing template.
    """
    whole = spaces.everything(problem, supports)
    plain = [one for one in whole if str(one.format) in DEFAULT_LIKE][:1]
    n_favourites = shares.favourites - len(plain)
    found = dict.fromkeys((*proposed, *plain, *_favourites(problem, whole, model, rng, n_favourites)))
    ready = [one for one in whole if one.is_precompiled and one not in found]
    wanted = len(found) + shares.ready + shares.uniform + (0 if template else shares.template)
    found |= dict.fromkeys(ready[at] for at in rng.permutation(len(ready)).tolist()[: shares.ready])
    for at in rng.permutation(len(whole)).tolist():
        if len(found) >= wanted:
            break
        found.setdefault(_at_run_time(whole[at], rng))
    if template is not None:
        found |= dict.fromkeys(template(rng) for _ in range(shares.template))
    order = list(found)
    return [order[at] for at in rng.permutation(len(order)).tolist()]


def _favourites(
    problem: Problem, whole: Sequence[SuperSchedule], model: CostModel, rng: np.random.Generator, n: int
) -> list[SuperSchedule]:
    """Return `n` schedules of `whole` with the best predictions after adding noise of the size of model errors.

    At most a quarter are of one format.
    """
    times_s = np.asarray(model.rank(problem, whole))
    order = np.argsort(np.log(times_s) + rng.normal(0.0, 0.15, times_s.size))
    chosen: list[SuperSchedule] = []
    seen: dict[object, int] = {}
    for at in order.tolist():
        if len(chosen) == n:
            break
        fmt = whole[at].format
        if seen.get(fmt, 0) < max(2, n // 4):
            seen[fmt] = seen.get(fmt, 0) + 1
            chosen.append(whole[at])
    return chosen


def _at_run_time(one: SuperSchedule, rng: np.random.Generator) -> SuperSchedule:
    """Return `one`, sometimes with dynamic chunks or on one thread, which needs no other kernel."""
    if rng.random() < DYNAMIC_SHARE:
        one = dataclasses.replace(one, partition="dynamic", chunk=int(rng.choice(space.CHUNKS)))
    return dataclasses.replace(one, threads=1) if rng.random() < SINGLE_SHARE else one


def neighbourhood(
    problem: Problem,
    supports: Supports,
    best: Iterable[SuperSchedule],
    tried: Iterable[SuperSchedule],
    *,
    n: int,
    rng: np.random.Generator,
    homes: Sequence[TemplateSpace] = (),
) -> list[SuperSchedule]:
    """Return at most `n` untried neighbours of the schedules `best`, taken from each in turn.

    They are neighbours in the first of `homes` that contains the schedule, or else in this library's space.
    """
    known = set(tried)
    around = [_moves(problem, supports, one, rng, homes) for one in best]
    found: dict[SuperSchedule, None] = {}
    while any(around) and len(found) < n:
        for moves in around:
            if moves and (one := moves.pop()) not in known and len(found) < n:
                found.setdefault(one)
    return list(found)


def _moves(
    problem: Problem,
    supports: Supports,
    one: SuperSchedule,
    rng: np.random.Generator,
    homes: Sequence[TemplateSpace],
) -> list[SuperSchedule]:
    home = next((candidate for candidate in homes if candidate.contains(one)), None)
    found = list(template_neighbours(home, one, supports) if home else neighbours(problem, one, supports))
    return [found[at] for at in rng.permutation(len(found)).tolist()]


MAX_REPEATS: Final = 200
"""Number of consecutive samples without a new kernel after which the space counts as exhausted."""


class KernelPool:
    """Fixed random selection of at most `n_kernels` kernels of `space`, the same for the same `seed`."""

    def __init__(
        self, space: TemplateSpace, n_kernels: int, *, seed: int = 0, supports: Supports | None = None
    ) -> None:
        self.space = space
        self._members = tuple(_distinct(space, n_kernels, np.random.default_rng(seed), supports))

    def __len__(self) -> int:
        """Return the number of kernels."""
        return len(self._members)

    @property
    def members(self) -> tuple[SuperSchedule, ...]:
        """Return one schedule of each kernel."""
        return self._members

    def sample(self, rng: np.random.Generator) -> SuperSchedule:
        """Return a schedule of a randomly drawn kernel of the pool, with newly drawn run-time parameters."""
        return with_run_time(self.space, self._members[int(rng.integers(len(self._members)))], rng)


def _distinct(
    space: TemplateSpace, n_kernels: int, rng: np.random.Generator, supports: Supports | None
) -> Iterator[SuperSchedule]:
    """Yield random schedules of `space`, at most `n_kernels`, that need different kernels."""
    seen: set[SuperSchedule] = set()
    n_repeats = 0
    while len(seen) < n_kernels and n_repeats < MAX_REPEATS:
        try:
            made = space.sample(rng, supports)
        except ScheduleError:
            if not seen:
                raise
            return
        compiled = made.as_compiled()
        if compiled in seen:
            n_repeats += 1
            continue
        n_repeats = 0
        seen.add(compiled)
        yield made
