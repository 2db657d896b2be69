"""Install a chosen schedule for an array's products, whatever a search would have found."""

from __future__ import annotations

from typing import Any

from autosparse import executor, planner
from autosparse.engine.trials import KernelTrial
from autosparse.plan import Plan
from autosparse.schedule import SuperSchedule


def force(A: Any, schedule: SuperSchedule, *, columns: int = 1) -> KernelTrial:
    """Products of `A` with `columns` columns run `schedule` from now on."""
    operand = A._cell
    rows = operand.rows or operand.validate()
    operand.refresh()
    slot = executor._slot_for(operand, rows, columns, A._transposed)
    slot.n_dense_cols = columns
    bench = executor._bench(operand, slot)
    decision = planner.adopt(bench, Plan(schedule=schedule, why="forced", effort="full", default_s=1.0, measured_s=0.5))
    assert decision.trial is not None, decision.plan.why
    deliberation = executor._deliberation(slot, operand)
    deliberation.bench = bench
    slot.install(deliberation, decision.plan, decision.trial)
    return decision.trial


def slot_of(A: Any, columns: int = 1) -> executor.Slot:
    """The state of A's products of this width under the options in force."""
    operand = A._cell
    return executor._slot_for(operand, operand.rows or operand.validate(), columns, A._transposed)
