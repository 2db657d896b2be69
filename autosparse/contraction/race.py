"""The race: programs that the model cannot tell apart are run, one of each price, then variants of the fastest."""

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
"""Programs with more than so many times the least price are not timed."""
MAX_PRICES: Final = 4
"""Prices of which the first program is timed: programs of one price differ in how an outer loop finds its rows."""
MAX_VARIANTS: Final = 4
"""Programs of the fastest one's price that are timed, itself included."""
MAX_RUNS: Final = 5
SHORT_S: Final = 0.05
MAX_SHORT_RUNS: Final = 25
"""Runs of each program as long as all together took less than `SHORT_S`."""
AGAIN: Final = 1.5
"""A program that took at most so many times the best is run again."""
MAX_S: Final = 1.0
"""Seconds after which nothing is run again."""


@dataclass(frozen=True, eq=False, slots=True)
class Entrant:
    """A program that was run: about how many turns its loops take, and the seconds of its fastest run."""

    program: CompiledProgram
    tasks: float
    elapsed_s: float


def race(choice: ProgramChoice, named: dict[str, Operand], extents: dict[str, int]) -> list[Entrant]:
    """Programs of the frontier that are worth a run, the fastest first. BuildError.

    Compiling is not timed. Copies of operands in other orders are, but for those that stay from call to call.
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
            kept.run(named)  # another program's trees may have taken the room
        _forget(named)
        start = time.perf_counter()
        if kept is not None:
            kept.run(named)
        else:
            # The tasks decide how many threads run: without them a program is timed on one and served on all.
            execute(program, named, extents, tasks=tasks)
        return time.perf_counter() - start

    rows = ranked([(price, plan) for price, plan, _ in choice.plans], measured_s)
    return [Entrant(programs[plan.text], tasks, elapsed_s) for elapsed_s, tasks, plan in rows]


def _forget(named: dict[str, Operand]) -> None:
    """As in a new call."""
    for operand in named.values():
        if isinstance(operand, Sparse):
            operand.stored.clear()
            operand.shared.clear()


def ranked(priced: Sequence[tuple[float, P]], measure: Callable[[P, float], float]) -> list[tuple[float, float, P]]:
    """(seconds, price, plan) of those that `measure` ran, the fastest first; `priced` is sorted, cheapest first."""
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
    """The least of several runs, in rounds."""
    found = [measure(plan, price) for price, plan in rows]
    start, total_s = time.perf_counter(), sum(found)
    for turn in range(1, MAX_SHORT_RUNS):
        if turn >= MAX_RUNS and total_s >= SHORT_S:
            break
        # First runs may have met cold caches.
        limit_s = (AGAIN if turn > 1 else WORTH_TIMING) * min(found)
        for n, (price, plan) in enumerate(rows):
            if found[n] <= limit_s and max(total_s, time.perf_counter() - start) < MAX_S:
                elapsed_s = measure(plan, price)
                total_s += elapsed_s
                found[n] = min(found[n], elapsed_s)
    return [(elapsed_s, *row) for elapsed_s, row in zip(found, rows, strict=True)]
