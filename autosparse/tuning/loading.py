"""Modules of a search, which several products load one after the other.

Loading all of them takes 15 to 35 ms, by which a single product would be late.
"""

from __future__ import annotations

import importlib
import sys
from time import perf_counter
from typing import TYPE_CHECKING, Final

from autosparse import forking

if TYPE_CHECKING:
    from autosparse.dispatch.state import DispatchState
    from autosparse.operands.unfolding import AnyOperand
    from autosparse.tuning.live import LiveTuner

STEPS: Final = (
    "autosparse.core.plan",
    "autosparse.tuner.analytic.matmul",
    "autosparse.tuner.search.search",
    "autosparse.tuning.trials.context",
    "autosparse.tuning.learned",
    "autosparse.tuning.planner",
    "autosparse.tuning.setup",
)
"""Modules, each of which imports a part of the modules of a search. The last one imports all of them."""
_spent_s = 0.0  # seconds of loading that no problem has counted as tuning yet


def live_tuner_of(state: DispatchState, operand: AnyOperand) -> LiveTuner | None:
    """Return the live tuner of `state`, created now if there is none; None if the next product goes on loading."""
    global _spent_s
    begun_s, is_new = perf_counter(), state.live_tuner is None
    is_counted = STEPS[-1] not in sys.modules or state.expected is not None
    with forking.loading():
        name = next((name for name in STEPS if name not in sys.modules), STEPS[-1])
        module = importlib.import_module(name)
    if name != STEPS[-1]:
        state.next_look_ns, _spent_s = state.product_ns, _spent_s + perf_counter() - begun_s
        return None
    live_tuner: LiveTuner = module.live_tuner_of(state, operand)
    if is_new and is_counted:  # the budget includes loading the modules
        live_tuner.tuning_s += perf_counter() - begun_s + _spent_s
        _spent_s = 0.0
    return live_tuner
