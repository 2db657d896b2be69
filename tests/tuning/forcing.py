"""Helpers that install a chosen schedule for an array's products, without a search."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from autosparse.tuner.search import style
from autosparse.tuner.space import families as space

from autosparse.core.plan import Plan
from autosparse.core.problem import columns_bucket
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import choice_of
from autosparse.dispatch.state import DispatchState, state_for
from autosparse.tuning import planner
from autosparse.tuning.setup import context_of, live_tuner_of, session_of
from autosparse.tuning.trials.kernel_trial import KernelTrial

ENOUGH_S: Final = 1e4
"""Budget in seconds that is too large to end a search on a machine of any speed."""
PATIENCE_S: Final = 600.0


def until(is_done: Callable[[], bool]) -> Iterator[int]:
    """Yield turn numbers until `is_done()`; raise AssertionError after PATIENCE_S.

    A limit of time, not of turns: the number of products that run during a compilation depends on the machine.
    """
    end_s = time.monotonic() + PATIENCE_S
    for turn in itertools.count():
        if is_done():
            return
        assert time.monotonic() < end_s, f"not so after {turn} turns"
        yield turn


def force(A: Any, schedule: SuperSchedule, *, columns: int = 1) -> KernelTrial:
    """Make products of `A` with `columns` columns run `schedule` from now on; return its trial."""
    operand = A._cell
    rows = operand.rows or operand.validate()
    operand.refresh()
    state = state_for(operand, rows, columns, A._transposed)
    state.n_dense_cols = columns
    context = context_of(operand, state)
    decision = planner.adopt(
        context, Plan(choice=choice_of(schedule), why="forced", effort="full", default_s=1.0, measured_s=0.5)
    )
    assert decision.trial is not None, decision.plan.why
    live_tuner = live_tuner_of(state, operand)
    live_tuner.install(session_of(live_tuner, operand, (context, decision)))
    return decision.trial


def verdict_after(n: int, *, is_won: bool = True) -> Callable[[list[tuple[float, float]]], bool | None]:
    """Return the substitute of `early.verdict` for races of `n` rounds: a winner takes two thirds of the default time.

    It replaces the measured times, which on a busy machine may say that the winner is slower.
    """

    def verdict(pairs: list[tuple[float, float]]) -> bool | None:
        if len(pairs) < n:
            return None
        pairs[:] = [(1.5 * mine_s if is_won else mine_s / 1.5, mine_s) for _, mine_s in pairs]
        return is_won

    return verdict


def state_of(A: Any, columns: int = 1) -> DispatchState:
    """Return the dispatch state of A's products of this width under the current options."""
    operand = A._cell
    return state_for(operand, operand.rows or operand.validate(), columns, A._transposed)


FORMATS = {
    "csr": ("csr", {}),
    "blocks": ("bcsr", {"r": 4, "c": 2}),
    "columns": ("ucu", {"r": 4}),
    "panels": ("k-panels", {"k": 4096}),
    "slices": ("slices", {"r": 8, "sigma": 512}),
    "diagonals": ("diagonals", {"r": 16, "sigma": 1}),
}


WIDTHS = {name: {1} if name in ("slices", "diagonals") else {1, 5, 8, 32} for name in FORMATS}
"""Numbers of columns to test for each format."""


def make(m: int = 60, n: int = 5000, *, seed: int = 0, dtype: str = "float32", fmt: str = "csr") -> Any:
    return sps.random_array((m, n), density=0.01, random_state=np.random.default_rng(seed), dtype=dtype, format=fmt)


def dense(A: Any, columns: int, *, seed: int = 1, dtype: Any = None) -> np.ndarray:
    shape = (A.shape[1], columns) if columns else (A.shape[1],)
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype or A.dtype)


def schedule_of(name: str, columns: int) -> Any:
    family, size = FORMATS[name]
    tile = min(16, columns_bucket(columns)) if columns > 1 else 0
    narrow = name in ("panels", "slices", "diagonals")
    unroll = 2 if name in ("slices", "diagonals") else 1
    return space.schedule("matmul", family, size, tile=tile, index_bits=16 if narrow else 32, unroll=unroll)


def close(got: np.ndarray, wanted: np.ndarray) -> None:
    tolerance = 1000 * np.finfo(got.dtype).eps
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


SLOW_S: Final = 10.0
"""Seconds that `slow_others` reports for kernels that must lose: longer than a busy machine stops a process."""


def slow_others(monkeypatch: Any) -> None:
    """Let registered solvers win each race: only the default kernel takes part beside them, and is reported as slower.

    Nothing is compiled, so that searches end before the limit of time on a busy machine.
    """
    from autosparse.tuner.search import loop, race

    from autosparse.tuning.solvers import candidates, row_panels
    from autosparse.tuning.trials import context as contexts
    from autosparse.tuning.trials.solver_trial import SolverTrial

    no_others = dataclasses.replace(
        style.BLOCKING, hopeless=0.0, takes_all_proposals=False, n_neighbours=0, n_corrected=0, n_reraces=0
    )
    monkeypatch.setattr(candidates, "BLOCKING", no_others)
    monkeypatch.setattr(candidates, "proposer_of", lambda context, live: None)
    monkeypatch.setattr(candidates, "_raced_first", lambda context, live: [])
    monkeypatch.setattr(row_panels, "of_the_runtime", lambda context, effort, known: [])
    runner, served, timed_s = contexts.TuningContext.runner, contexts.TuningContext.served, race.timed_s

    class Slow:
        def __init__(self, run: Any) -> None:
            self.run = run

        def __call__(self, *args: Any) -> None:
            self.run(*args)

    def slow(run: Any, trial: Any) -> Any:
        return run if isinstance(trial, SolverTrial) or run is None else Slow(run)

    def reported_s(run: Any, **how: Any) -> float:
        seconds = timed_s(run, **how)
        return SLOW_S if isinstance(getattr(run, "func", run), Slow) else seconds

    def slow_runner(self: Any, trial: Any, turn: int = 0) -> Any:
        return slow(runner(self, trial, turn), trial)

    def slow_served(self: Any, trial: Any, *, is_fresh: bool) -> Any:
        return slow(served(self, trial, is_fresh=is_fresh), trial)

    monkeypatch.setattr(contexts.TuningContext, "runner", slow_runner)
    monkeypatch.setattr(contexts.TuningContext, "served", slow_served)
    for module in (race, loop, planner):
        monkeypatch.setattr(module, "timed_s", reported_s)
