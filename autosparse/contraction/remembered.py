"""Choices that were made before, by subscripts and patterns: in this process, and in the cache on disk."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from autosparse import config, forking
from autosparse._native import runtime_api
from autosparse.cache.stores import open_store
from autosparse.config import Effort
from autosparse.contraction.candidates import listed, name_of
from autosparse.contraction.choice import choose, plan_of
from autosparse.contraction.kinds import AnyArray
from autosparse.contraction.lower import numba_kernel
from autosparse.contraction.lower.bound import BoundContraction, bound, is_kept, is_plain
from autosparse.contraction.lower.kernel import CompiledProgram, compiled, execute
from autosparse.contraction.lower.plan import EinsumPlan
from autosparse.contraction.operands import Operand, Sparse
from autosparse.contraction.race import race
from autosparse.contraction.routes import joins
from autosparse.contraction.routes.patterns import key_of
from autosparse.contraction.subscripts import Subscripts
from autosparse.ops import EINSUM

MOST: Final = 256
"""Choices kept in a process."""
MAX_BOUND: Final = 32
"""Of those, programs for which copies of patterns are kept, too."""
CALLS_BEFORE_TIMING: Final = 8
"""Calls with one pattern, or `runs` that are promised, from which on the model's best few programs may be timed."""
RACE_S: Final = 0.8
"""About what that takes, mostly the compiler's: calls must have taken, or promise to take, as long."""
MAX_TASKS: Final = 1e15
"""Most turns of loops that a record is believed to speak of."""
NUMBA_S: Final = 4.0
"""About what numba takes for a kernel."""


@dataclass(eq=False)
class ServedCalls:
    """Calls with the same patterns, and the seconds that they took."""

    n_calls: int = 0
    served_s: float = 0.0

    def count(self, elapsed_s: float) -> None:
        """One more call."""
        self.n_calls += 1
        self.served_s += elapsed_s

    def pays(self, price_s: float) -> bool:
        """Whether `price_s` is no more than these calls, or those that the option `runs` promises, take in all."""
        if not self.n_calls:
            return False
        promised = config.get_options().runs or 0
        expected_s = max(self.served_s, promised * self.served_s / self.n_calls)
        return max(self.n_calls, promised) >= CALLS_BEFORE_TIMING and expected_s >= price_s


@dataclass(eq=False)
class Joined(ServedCalls):
    """Calls that joins served, and what numba compiles after them."""

    plan: EinsumPlan | None = None


@dataclass(eq=False)
class RememberedProgram(ServedCalls):
    """One choice: the compiled program, and the calls that it served."""

    program: CompiledProgram = field(kw_only=True)
    tasks: float = 0.0  # about how many turns its loops take
    is_timed: bool = False
    measured_s: tuple[tuple[str, float], ...] = ()  # of the programs that were timed here


_choices: Final[OrderedDict[str, RememberedProgram]] = OrderedDict()
_bound: Final[OrderedDict[str, BoundContraction]] = OrderedDict()
_without_compiler: Final[dict[str, Joined]] = {}
_mutex: Final = forking.lock()


def contract(operands: Sequence[Operand], subscripts: Subscripts, *, is_dense_output: bool) -> Sparse | AnyArray:
    """The einsum of `operands` by the program that is remembered for them, or chosen now. BuildError."""
    named = {name_of(n): operand for n, operand in enumerate(operands)}
    key, found = ready(operands, subscripts, is_dense_output=is_dense_output)
    options = config.get_options()
    may_time = options.effort.rank >= Effort.MEASURE.rank and not options.deterministic
    if may_time and not found.is_timed and found.pays(RACE_S):
        found.is_timed = True
        choice = choose(operands, subscripts, is_dense_output=is_dense_output, are_copies_kept=is_kept(named))
        entrants = race(choice, named, subscripts.extents)
        found.program, found.tasks = entrants[0].program, entrants[0].tasks
        found.measured_s = tuple((one.program.plan.text, one.elapsed_s) for one in entrants)
        _save(key, found.program.plan, found.tasks, is_timed=True)
    start = time.perf_counter()
    result = _served(key, found, named, subscripts.extents)
    found.count(time.perf_counter() - start)
    return result


def ready(
    operands: Sequence[Operand], subscripts: Subscripts, *, is_dense_output: bool
) -> tuple[str, RememberedProgram]:
    """The key of these patterns and the compiled program for them, which is chosen and compiled where it is not yet."""
    named = {name_of(n): operand for n, operand in enumerate(operands)}
    key = key_of(operands, subscripts, is_dense_output=is_dense_output)
    found = _choices.get(key)
    if found is None:
        loaded = _load(key, operands, subscripts, is_dense_output=is_dense_output)
        if loaded is None:
            tasks, plan, _ = choose(operands, subscripts, is_dense_output=is_dense_output).plans[0]
            is_timed = False
        else:
            tasks, plan, is_timed = loaded
        found = RememberedProgram(program=compiled(plan, named, subscripts.extents), tasks=tasks, is_timed=is_timed)
        if loaded is None:
            _save(key, plan, tasks, is_timed=False)
        with _mutex:
            found = _choices.setdefault(key, found)
            while len(_choices) > MOST:
                _choices.popitem(last=False)
    return key, found


def _served(
    key: str, found: RememberedProgram, named: dict[str, Operand], extents: dict[str, int]
) -> Sparse | AnyArray:  # fmt: skip
    """The result; from the second call on with what follows from the patterns kept."""
    kept = _bound.get(key)
    if kept is None or kept.program is not found.program or not is_plain(named, kept.program):
        is_wanted = found.n_calls > 0 and runtime_api.available
        kept = bound(found.program, named, extents, found.tasks) if is_wanted else None
        if kept is None:
            return execute(found.program, named, extents, tasks=found.tasks)
        with _mutex:
            _bound[key] = kept
            while len(_bound) > MAX_BOUND:
                _bound.popitem(last=False)
    return kept.run(named)


def contract_without_compiler(
    operands: Sequence[Operand], subscripts: Subscripts, *, is_dense_output: bool
) -> Sparse | AnyArray:
    """The einsum by joins; by a kernel of numba's once joins of these patterns have taken as long as it to compile.

    `runs` promise joins, too. Eight calls are the least.
    """
    if not numba_kernel.is_there():
        return joins.contract(operands, subscripts)
    key = key_of(operands, subscripts, is_dense_output=is_dense_output)
    found = _without_compiler.get(key) or Joined()
    if len(_without_compiler) >= MOST:
        _without_compiler.clear()
    _without_compiler[key] = found
    if found.plan is None and found.pays(NUMBA_S):
        found.plan = choose(operands, subscripts, is_dense_output=is_dense_output).plan
    if found.plan is not None:
        named = {name_of(n): operand for n, operand in enumerate(operands)}
        return numba_kernel.run(found.plan, named, subscripts.extents, is_compiled=True)
    start = time.perf_counter()
    result = joins.contract(operands, subscripts)
    found.count(time.perf_counter() - start)
    return result


def peek(
    operands: Sequence[Operand], subscripts: Subscripts, *, is_dense_output: bool
) -> RememberedProgram | EinsumPlan | None:
    """What is remembered for these operands in this process, else on disk; nothing is chosen, compiled or counted."""
    key = key_of(operands, subscripts, is_dense_output=is_dense_output)
    found = _choices.get(key)
    if found is not None:
        return found
    loaded = _load(key, operands, subscripts, is_dense_output=is_dense_output)
    return None if loaded is None else loaded[1]


def _save(key: str, plan: EinsumPlan, tasks: float, *, is_timed: bool) -> None:
    record = {"program": plan.text, "dense_levels": sorted(plan.dense_levels), "tasks": tasks, "is_timed": is_timed}
    open_store().save(EINSUM.name, key, record)


def _load(
    key: str, operands: Sequence[Operand], subscripts: Subscripts, *, is_dense_output: bool
) -> tuple[float, EinsumPlan, bool] | None:
    """The plan on disk, how many turns its loops take, whether it was timed; None unless the enumeration lists it."""
    record: Any = open_store().load(EINSUM.name, key)
    if not isinstance(record, dict) or not isinstance(record.get("program"), str):
        return None
    inputs = tuple(operand.indices for operand in operands)
    sparse = tuple(isinstance(operand, Sparse) for operand in operands)
    candidate = listed(record["program"], inputs, subscripts.output, sparse)
    if candidate is None:
        return None
    plan = plan_of(candidate, operands, subscripts, is_dense_output=is_dense_output)
    if not plan.fits(subscripts.extents):
        return None
    tasks: Any = record.get("tasks")
    is_number = isinstance(tasks, int | float) and 0 <= tasks <= MAX_TASKS
    return float(tasks) if is_number else 0.0, plan, record.get("is_timed") is True
