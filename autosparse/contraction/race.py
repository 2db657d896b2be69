"""Race frontier programs: one of each distinct estimated cost, then variants with the winner's cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from autosparse.config import Effort
from autosparse.contraction.choice import RankedPrograms
from autosparse.contraction.lower.bound import BoundContraction, bound
from autosparse.contraction.lower.kernel import NS_PER_TASK, CompiledProgram, compiled, execute
from autosparse.contraction.lower.plan import EinsumPlan
from autosparse.contraction.operands import Operand, Sparse
from autosparse.core.plan import Candidate, Plan
from autosparse.core.solver import Choice
from autosparse.targets.priors import number
from autosparse.tuner.search.race import RaceRule
from autosparse.tuner.search.selection import Selector

PROGRAM: Final = "program"
"""Name of the solver of generated programs; its knobs are the program's text."""
WORTH_TIMING: Final = number("programs", "worth timing")
"""Maximum ratio of a program's estimated cost to the lowest one at which the program is timed."""
MAX_PRICES: Final = {Effort.MEASURE: 4, Effort.FULL: 64}
"""Maximum number of distinct costs timed. Programs of equal cost differ only in how an outer loop finds its rows."""
MAX_VARIANTS: Final = {Effort.MEASURE: 4, Effort.FULL: 64}
"""Maximum number of programs timed that have the winner's cost, the winner included."""
RULE: Final = RaceRule(
    min_rounds=5, max_rounds=15, first_cut=1, cut=WORTH_TIMING, final_cut=number("programs", "last cut"), cut_short=1
)
"""Rule of the races: a program leaves when its fastest run takes 4 times the best one, later 1.5 times."""
LIMIT_S: Final = 0.5
"""Seconds after which a race ends."""


@dataclass(frozen=True, eq=False, slots=True)
class ReadyProgram:
    """Compiled program of a plan, bound to the operands where their reordered copies are kept between calls."""

    program: CompiledProgram
    tasks: float
    bound: BoundContraction | None


@dataclass(frozen=True, eq=False, slots=True)
class Raced:
    """Result of a race: the fastest program, and the plan with all candidates."""

    program: CompiledProgram
    plan: Plan


def candidate_of(plan: EinsumPlan, tasks: float) -> Candidate:
    """Return a program as a candidate; its expected time is that of its loop iterations."""
    predicted_s = tasks * NS_PER_TASK * 1e-9
    return Candidate(choice=Choice(PROGRAM, plan.text), name=plan.text, predicted_s=predicted_s)


def plan_by_model(plan: EinsumPlan, tasks: float) -> Plan:
    """Return the plan that runs a program unmeasured."""
    one = candidate_of(plan, tasks)
    return Plan(
        choice=one.choice,
        why="its estimated cost is the least",
        effort=Effort.ESTIMATE.value,
        predicted_s=one.predicted_s,
    )


def tasks_of(plan: Plan) -> float:
    """Return the estimated number of tasks of the program that `plan` chose; 0 if its record has none."""
    return (plan.predicted_s or 0.0) / (NS_PER_TASK * 1e-9)


def race(
    ranked: RankedPrograms, named: dict[str, Operand], extents: dict[str, int], effort: Effort = Effort.MEASURE
) -> Raced:
    """Compile and time the frontier programs worth a run and return the fastest; raise BuildError on failure.

    Timings exclude compilation. They include reordering operands, except for copies that are kept between calls. The
    program that the model prices least is the default of the race.
    """
    priced = [(tasks, plan) for tasks, plan, _ in ranked.plans]
    by_choice = {candidate_of(plan, tasks).choice: (tasks, plan) for tasks, plan in priced}

    def prepare(choice: Choice) -> ReadyProgram:
        tasks, plan = by_choice[choice]
        program = compiled(plan, named, extents)
        return ReadyProgram(program, tasks, bound(program, named, extents, tasks))

    def measure(ready: ReadyProgram) -> float:
        return _measured_s(ready, named, extents)

    return fastest(priced, prepare, measure, effort)


def fastest(
    priced: Sequence[tuple[float, EinsumPlan]],
    prepare: Callable[[Choice], ReadyProgram],
    measure: Callable[[ReadyProgram], float],
    effort: Effort,
) -> Raced:
    """Race the (cost, plan) pairs, cheapest first: one plan of each distinct cost, then others of the winner's."""
    start_s, kinds = time.perf_counter(), dict[int, list[Candidate]]()
    for tasks, plan in priced:
        if tasks <= WORTH_TIMING * priced[0][0]:
            kinds.setdefault(round(tasks), []).append(candidate_of(plan, tasks))
    first, *others = [kind[0] for kind in list(kinds.values())[: MAX_PRICES[effort]]]
    best, found = _selected(first, prepare(first.choice), others, prepare, measure)
    (variants,) = (kind for kind in kinds.values() if any(one.choice == best[0].choice for one in kind))
    known = {one.choice for one in found}
    rest = [one for one in variants[: MAX_VARIANTS[effort]] if one.choice not in known]
    if rest:
        best, more = _selected(*best, rest, prepare, measure)
        found += [one for one in more if one.choice not in known]
    winner, ready = best
    chosen = Plan(
        choice=winner.choice, why=f"the fastest of {len(found)} that were timed on these patterns",
        effort=effort.value, predicted_s=winner.predicted_s, measured_s=winner.measured_s,
        default_s=found[0].measured_s, tune_s=time.perf_counter() - start_s, candidates=tuple(found),
    )  # fmt: skip
    return Raced(ready.program, chosen)


def _selected(
    default: Candidate,
    ready: ReadyProgram,
    others: Sequence[Candidate],
    prepare: Callable[[Choice], ReadyProgram],
    measure: Callable[[ReadyProgram], float],
) -> tuple[tuple[Candidate, ReadyProgram], list[Candidate]]:
    """Return the fastest of `default`, which is `ready`, and `others`, and all of them with their times."""
    selector = Selector(
        prepare=prepare, measure=lambda one: measure(one or ready), rule=RULE, default=default, limit_s=LIMIT_S
    )
    result = selector.select(others)
    first, *more = result.candidates
    found = [replace(first, measured_s=first.measured_s or measure(ready)), *more]
    winner = next(one for one in found if one.choice == result.choice)
    return (winner, result.bound or ready), found


def _measured_s(ready: ReadyProgram, named: dict[str, Operand], extents: dict[str, int]) -> float:
    """Return the seconds of one run of a program, without copies of the operands that another program left."""
    if ready.bound is not None and any(isinstance(one, Sparse) and one.tensor is not None for one in named.values()):
        _forget(named)
        ready.bound.run(named)  # another program's trees may have replaced the kept ones
    _forget(named)
    start_s = time.perf_counter()
    if ready.bound is not None:
        ready.bound.run(named)
    else:
        # The number of tasks sets the number of threads: without it, timing would use one thread and serving all.
        execute(ready.program, named, extents, tasks=ready.tasks)
    return time.perf_counter() - start_s


def _forget(named: dict[str, Operand]) -> None:
    """Delete the kept reordered copies of the operands, so that the next run makes them again."""
    for operand in named.values():
        if isinstance(operand, Sparse):
            operand.stored.clear()
            operand.shared.clear()
