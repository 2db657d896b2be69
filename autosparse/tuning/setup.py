"""Construct the tuner of a dispatch state from its operand, options and cache."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from autosparse import cache
from autosparse.core.target import Target
from autosparse.dispatch import accounts
from autosparse.dispatch.state import DISPATCHERS, DispatchState, dispatcher_of, key_of
from autosparse.operands.unfolding import AnyOperand
from autosparse.ops import OPS
from autosparse.tuning.live import LiveTuner
from autosparse.tuning.memory.history import AT_EXIT, tuning_stats_of
from autosparse.tuning.memory.slice_trial import SliceTrial
from autosparse.tuning.planner import Decision
from autosparse.tuning.problems import problem_of
from autosparse.tuning.session import TuningSession
from autosparse.tuning.trials.context import TuningContext
from autosparse.tuning.trials.served import ServedTrial


def live_tuner_of(state: DispatchState, operand: AnyOperand) -> LiveTuner:
    """Return the live tuner of `state`, created now if there is none; it has read and hashed nothing then."""
    live_tuner = state.live_tuner
    if not isinstance(live_tuner, LiveTuner):
        if state.early is not None:
            state.early.expand(state, operand)
        if isinstance(light := state.recalled, SliceTrial):
            light.expand()  # a search shares its packed copy
        live_tuner = LiveTuner(state, operand=weakref.ref(operand))
        live_tuner.begin(session_of(live_tuner, operand))
        state.live_tuner = live_tuner
    return live_tuner


def session_of(
    live_tuner: LiveTuner, operand: AnyOperand, found: tuple[TuningContext, Decision] | None = None
) -> TuningSession:
    """Return a new tuning session for the live tuner's problem; with a plan that was `found`, it only watches it."""
    state = live_tuner.state
    options = state.options
    stats = tuning_stats_of(cache.open_store(options), Target.host())
    reference = weakref.ref(operand)
    key, runs = key_of(operand, state), None if options.runs is None else float(options.runs)
    session = TuningSession(
        make_context=lambda: context_of(_alive(reference), state),
        effort=options.effort,
        stats=stats,
        operand_bytes=operand.structure_bytes + operand.nnz * state.dtype.itemsize,
        total_runs=accounts.expected_calls(options, key) if runs is None else runs,
        early=state.early,
        gain=OPS[state.operation].tuning.measured_gain(state.n_dense_cols),
        recalled=state.recalled if isinstance(state.recalled, ServedTrial) else None,
    )
    if found is not None:
        session.context, decision = found
        session.plan, session.incumbent, session.in_place = decision.plan, decision.trial, decision.in_place
        session.is_finished = True
    AT_EXIT[_keep_unfinished] = None
    return session


def _keep_unfinished() -> None:
    """Store the results of unfinished searches; runs at exit."""
    for dispatcher in list(DISPATCHERS):
        for state in list(dispatcher.states.values()):
            live_tuner = state.live_tuner
            if isinstance(live_tuner, LiveTuner) and live_tuner.session is not None:
                live_tuner.session.keep_unfinished()


def _alive(reference: Callable[[], AnyOperand | None]) -> AnyOperand:
    operand = reference()
    assert operand is not None, "steps are bought by products, and products hold their operand"
    return operand


def context_of(operand: AnyOperand, state: DispatchState) -> TuningContext:
    """Return the context in which the state's problem is tuned; hashes the structure.

    A search shares the packed copy of a remembered plan, for which the trial of its schedule must serve.
    """
    options = state.options
    if state.early is None and isinstance(light := state.recalled, SliceTrial):
        light.expand()
    store = cache.open_store(options)
    problem = problem_of(operand, state)  # it checks the structure for writes
    dispatcher = dispatcher_of(operand)
    return TuningContext(
        problem=problem, operand=weakref.ref(operand), options=options, store=store,
        stats=tuning_stats_of(store, problem.target), packed_copies=dispatcher.packed_copies,
        structure_version=operand.structure_version,
        account_key=key_of(operand, state),
    )  # fmt: skip
