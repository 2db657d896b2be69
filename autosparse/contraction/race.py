"""Time frontier programs: one of each distinct estimated cost, then variants with the winner's cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from autosparse.contraction.choice import ProgramChoice
from autosparse.contraction.lower.bound import BoundContraction, bound
from autosparse.contraction.lower.kernel import CompiledProgram, compiled, execute
from autosparse.contraction.lower.plan import EinsumPlan
from autosparse.contraction.operands import Operand, Sparse

P = TypeVar("P")

WORTH_TIMING: Final = 4.0
"""Maximum ratio of a program's estimated cost to the lowest one at which the program is timed."""
MAX_PRICES: Final = 4
"""Maximum number of distinct costs timed. Programs of equal cost differ only in how an outer loop finds its rows."""
MAX_VARIANTS: Final = 4
"""Maximum number of programs timed that have the winner's cost, the winner included."""
MAX_RUNS: Final = 5
"""Number of runs of each program, unless the runs are short."""
SHORT_S: Final = 0.05
"""Total time in seconds up to which runs are short, so that more of them are made."""
MAX_SHORT_RUNS: Final = 25
"""Number of runs of each program while the total time is below `SHORT_S`."""
AGAIN: Final = 1.5
"""Maximum ratio of a program's time to the best one at which the program is timed again."""
MAX_S: Final = 1.0
"""Total time in seconds after which no program is timed again."""


@dataclass(frozen=True, eq=False, slots=True)
class Entrant:
    """Timed program, with the estimated number of its tasks and the seconds of its fastest run."""

    program: CompiledProgram
    tasks: float
    elapsed_s: float


def race(choice: ProgramChoice, named: dict[str, Operand], extents: dict[str, int]) -> list[Entrant]:
    """Compile and time the frontier programs worth a run and return them, fastest first; raise BuildError on failure.

    Timings exclude compilation. They include reordering operands, except for copies that are kept between calls.
    """
    programs: dict[str, CompiledProgram] = {}
    runs: dict[str, BoundContraction | None] = {}
    has_tensors = any(isinstance(one, Sparse) and one.tensor is not None for one in named.values())

    def measured_s(plan: EinsumPlan, tasks: float) -> float:
        program = programs.get(plan.text) or programs.setdefault(plan.text, compiled(plan, named, extents))
        if plan.text not in runs:
            runs[plan.text] = bound(program, named, extents, tasks)
        kept = runs[plan.text]
        if kept is not None and has_tensors:
            _forget(named)
            kept.run(named)  # another program's trees may have replaced the kept ones
        _forget(named)
        start = time.perf_counter()
        if kept is not None:
            kept.run(named)
        else:
            # The number of tasks sets the number of threads: without it, timing would use one thread and serving all.
            execute(program, named, extents, tasks=tasks)
        return time.perf_counter() - start

    rows = ranked([(price, plan) for price, plan, _ in choice.plans], measured_s)
    return [Entrant(programs[plan.text], tasks, elapsed_s) for elapsed_s, tasks, plan in rows]


def _forget(named: dict[str, Operand]) -> None:
    """Drop the reordered copies of the operands, so that the next run starts like a new call."""
    for operand in named.values():
        if isinstance(operand, Sparse):
            operand.stored.clear()
            operand.shared.clear()


def ranked(priced: Sequence[tuple[float, P]], measure: Callable[[P, float], float]) -> list[tuple[float, float, P]]:
    """Time plans by `measure` and return (seconds, cost, plan), fastest first; `priced` is sorted by cost."""
    kinds: dict[int, list[tuple[float, P]]] = {}
    for price, plan in priced:
        if price <= WORTH_TIMING * priced[0][0]:
            kinds.setdefault(round(price), []).append((price, plan))
    found = _timed([kind[0] for kind in list(kinds.values())[:MAX_PRICES]], measure)
    winner = min(found, key=lambda row: row[0])
    variants = kinds[round(winner[1])][:MAX_VARIANTS]
    if len(variants) > 1:
        found.remove(winner)
        found += _timed(variants, measure)
    return sorted(found, key=lambda row: row[0])


def _timed(rows: Sequence[tuple[float, P]], measure: Callable[[P, float], float]) -> list[tuple[float, float, P]]:
    """Time all rows in rounds and return each one's fastest time with the row."""
    found = [measure(plan, price) for price, plan in rows]
    start, total_s = time.perf_counter(), sum(found)
    for turn in range(1, MAX_SHORT_RUNS):
        if turn >= MAX_RUNS and total_s >= SHORT_S:
            break
        # The first runs may have met cold caches, so that the limit is wider.
        limit_s = (AGAIN if turn > 1 else WORTH_TIMING) * min(found)
        for n, (price, plan) in enumerate(rows):
            if found[n] <= limit_s and max(total_s, time.perf_counter() - start) < MAX_S:
                elapsed_s = measure(plan, price)
                total_s += elapsed_s
                found[n] = min(found[n], elapsed_s)
    return [(elapsed_s, *row) for elapsed_s, row in zip(found, rows, strict=True)]
