"""Tests of notes about winners of early races, which serve in the next process before any search."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api
from autosparse._native.kernels.slice_names import Blocks, Slices
from autosparse.cache.accounts.rows import NOTHING_FASTER
from hypothesis import given
from hypothesis import strategies as st

import autosparse as asp
from autosparse.core.target import Target
from autosparse.dispatch import first_look, state
from autosparse.dispatch.state import DispatchState
from autosparse.isa import ISAS
from autosparse.notices import forget_warnings
from autosparse.tuning.live import LiveTuner
from autosparse.tuning.memory import early, early_notes, slice_trial
from autosparse.tuning.memory.row_padding import BLOCK_BITS
from autosparse.tuning.memory.slice_trial import SliceTrial
from autosparse.tuning.trials.kernel_trial import KernelTrial
from tests.dispatch.test_first_look import account_of, remembered
from tests.tuning.forcing import state_of, verdict_after

HOST = Target.host().isa
pytestmark = pytest.mark.skipif(not runtime_api.available or not ISAS[HOST].is_shipped, reason="no avx2 here")
N = 9000
ROUNDS = 3


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give each test a cache folder, races of three rounds that the candidate wins, and no other tuning."""
    monkeypatch.setattr(state, "tuning_look_ns", lambda *_: 1e18)
    monkeypatch.setattr(state, "COLD_LOOK_S", 0.0)
    monkeypatch.setattr(early, "verdict", verdict_after(ROUNDS))
    monkeypatch.setattr(early, "CHECK_AFTER", 0)
    monkeypatch.setattr(early, "NOTED_AFTER", 0)
    monkeypatch.setattr(first_look, "_pays", lambda *_: True)
    forget_warnings()
    with asp.options(cache_dir=tmp_path, isa=HOST):  # type: ignore[arg-type]  # the processor's own
        yield tmp_path


def matrix(seed: int = 2) -> Any:
    rng = np.random.default_rng(seed)
    m = sps.diags_array(rng.standard_normal((5, N)), offsets=(-90, -1, 0, 1, 90), shape=(N, N))
    return sps.csr_array(m)


def run(A: Any, m: Any, n: int = 60, *, races: bool = True) -> DispatchState:
    """Return the state of A's products after `n` of them, of which the second one looks at the account."""
    found, x = state_of(A), np.arange(float(N))
    wanted = m @ x
    with pytest.MonkeyPatch.context() as patched:
        due = (lambda found, _: 0 if found.early is None and found.may_race else 1e18) if races else (lambda *_: 1e18)
        patched.setattr(first_look, "early_look_ns", due)
        found.next_look_ns = 0
        for _ in range(n):
            np.testing.assert_allclose(A @ x, wanted)
    return found


def noted(monkeypatch: pytest.MonkeyPatch, *, in_blocks: bool = False) -> Any:
    """Return a matrix whose account notes the winner of a race, as an earlier process leaves it; no race is due now."""
    m = matrix()
    if in_blocks:
        m = sps.csr_array(sps.kron(sps.eye_array(N // 8), np.arange(1.0, 65.0).reshape(8, 8)))
    run(asp.csr(m, copy=True), m)
    monkeypatch.setattr(early, "CHECK_AFTER", 1e9)
    return m


@given(st.sampled_from([4, 8, 16, 32]), st.sampled_from([0, 1, 512, 8192]), st.booleans())
def test_a_note_states_the_slices(rows: int, sigma: int, is_encoded: bool) -> None:
    winner = Slices(rows, sigma, is_encoded=is_encoded) if sigma else Blocks(rows, 0, BLOCK_BITS)
    flags = early_notes.flags_of(winner)
    assert repr(early_notes.slices_of(flags)) == repr(winner)
    assert not flags & NOTHING_FASTER


@pytest.mark.parametrize("in_blocks", [False, True])
def test_the_winner_serves_in_the_next_process_at_once(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, *, in_blocks: bool
) -> None:
    m = noted(monkeypatch, in_blocks=in_blocks)
    A = asp.csr(m, copy=True)
    note = account_of(own_cache, A).plan
    assert note.is_early
    assert not note.is_asked
    found = run(A, m, n=2, races=False)
    assert isinstance(found.serving, SliceTrial)
    assert isinstance(found.serving.slices, Blocks if in_blocks else Slices)
    assert found.early is not None
    assert found.early.is_won
    assert not found.account.is_finished  # type: ignore[union-attr]  # a search comes later
    A.data[:] *= 2.0
    np.testing.assert_allclose(A @ np.ones(N), 2.0 * (m @ np.ones(N)))
    assert isinstance(found.recalled, KernelTrial), "whether it serves depends on what the write cost"


def test_the_winner_races_once_more_and_the_note_of_a_loser_is_removed(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    m = noted(monkeypatch)
    monkeypatch.setattr(early, "CHECK_AFTER", 0)
    monkeypatch.setattr(early, "verdict", verdict_after(ROUNDS, is_won=False))
    A = asp.csr(m, copy=True)
    found = run(A, m, races=False)
    assert found.serving is None
    assert account_of(own_cache, A).plan is None, "the next process must not begin with it"
    assert A._cell.dispatcher.packed_copies.n_bytes == 0


def test_a_winner_is_noted_once_it_has_saved_what_its_race_took(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    m = matrix()
    A = asp.csr(m, copy=True)
    monkeypatch.setattr(early, "NOTED_AFTER", 1e9)
    monkeypatch.setattr(state, "LATER_FAST_PATH", state.FIRST_FAST_PATH)  # the last products are counted in Python
    found = run(A, m)
    assert found.early is not None
    assert found.early.is_won
    assert not (account_of(own_cache, A) or found.account).plan
    found.tuned_ns = found.product_ns = found.early.check_ns = 10**18
    run(A, m, n=2, races=False)
    assert account_of(own_cache, A).plan.is_early
    assert found.early.check_ns == float("inf"), "once"


@pytest.mark.parametrize(("saved_share", "is_noted"), [(0.9, False), (1.1, True)])
def test_a_winner_that_has_saved_the_cost_of_its_race_is_noted_at_the_end_of_the_process(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, saved_share: float, *, is_noted: bool
) -> None:
    m = matrix()
    A = asp.csr(m, copy=True)
    monkeypatch.setattr(early, "NOTED_AFTER", 1e9)
    found = run(A, m)
    assert found.early is not None
    found.commit()
    found.early.ratio, found.early.spent_s, found.tuned_ns = 2.0, 1.0, round(saved_share * 1e9)
    found.fast_path = None  # it adds no further products
    monkeypatch.setattr(state, "DISPATCHERS", {A._cell.dispatcher})
    first_look.write()
    account = account_of(own_cache, A)
    assert account.spent.n_processes == 1
    assert (account.plan is not None and account.plan.is_early) == is_noted
    first_look.write()
    assert account_of(own_cache, A).plan == account.plan, "once"


def test_a_plan_of_a_search_is_not_replaced_by_a_note(own_cache: Path) -> None:
    m = matrix()
    A, B = asp.csr(m, copy=True), asp.csr(m, copy=True)
    found = run(A, m, n=3)  # the race has begun, and its account names no plan
    assert found.early is not None
    with asp.options(extra_memory=50.0):
        remembered(B, None, is_asked=False)
    run(A, m)
    assert account_of(own_cache, A).plan.flags & NOTHING_FASTER


@pytest.mark.parametrize("what", ["another pattern", "stamp", "wrong", "no memory", "shared", "values", "compiler"])
def test_a_note_that_does_not_fit_is_not_used(own_cache: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    m = noted(monkeypatch)
    if what == "stamp":
        monkeypatch.setattr(early_notes, "VERSION", 99)
    elif what == "another pattern":  # of which the account's samples are those of the first one
        monkeypatch.setattr(type(asp.csr(m)._cell), "structure_sample", lambda self: b"same")
        run(asp.csr(m, copy=True), m)
        m = sps.csr_array(sps.diags_array(np.ones((5, N)), offsets=(-80, -1, 0, 1, 80), shape=(N, N)))
    elif what == "wrong":
        monkeypatch.setattr(slice_trial.SliceTrial, "_difference", lambda *_: "1 instead of 2")
    elif what == "values":
        m.data[:] = np.nan
    A = asp.csr(m, copy=what != "shared")
    options = {"no memory": {"extra_memory": 0.0}}.get(what, {})
    if what == "compiler":  # kernels come from sources that the user may edit
        monkeypatch.setattr(early_notes.slice_kernel, "may_serve", lambda _: False)
    with asp.options(**options):  # type: ignore[arg-type]
        found = run(A, m, n=2, races=False)
    assert found.serving is None
    assert found.early is None
    if what == "wrong":
        assert account_of(own_cache, A).plan is None
    monkeypatch.setattr(early, "CHECK_AFTER", 0)
    if what == "stamp":  # the race of this process replaces the note
        A = asp.csr(m, copy=True)
        found = run(A, m)
        assert found.early is not None
        assert found.serving is not None
        found = run(B := asp.csr(m, copy=True), m, n=2, races=False)
        assert found.early is not None, "the new note is used"
        assert account_of(own_cache, B).plan.stamp == early_notes._stamp(found, B._cell)


@pytest.mark.parametrize("is_noted", [False, True])
def test_a_matrix_that_dies_takes_its_winner_along(is_noted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    m = noted(monkeypatch) if is_noted else matrix()
    A = asp.csr(m, copy=True)
    found = run(A, m, n=2 if is_noted else 60, races=not is_noted)
    assert isinstance(found.serving, SliceTrial)
    operand = weakref.ref(A._cell)
    del A, found
    assert operand() is None, "only a collection of cycles would free the packed copy"


def test_a_search_begins_with_the_noted_winner(monkeypatch: pytest.MonkeyPatch) -> None:
    m = noted(monkeypatch)
    A = asp.csr(m, copy=True)
    found = run(A, m, n=2, races=False)
    light = found.serving
    monkeypatch.setattr(LiveTuner, "_affordable", lambda *_: True)
    monkeypatch.setattr(state, "tuning_look_ns", lambda *_: 0.0)
    monkeypatch.setattr(first_look, "_search_look_ns", lambda *_: 0.0)
    assert isinstance(light, SliceTrial)
    choice = early_choice(light, found)
    for _ in range(40):
        found.next_look_ns = 0
        np.testing.assert_allclose(A @ np.ones(N), m @ np.ones(N))
    tuner: Any = found.live_tuner
    assert tuner is not None
    raced = [*tuner.session.search.measured_s] if tuner.session.search is not None else []
    assert not raced or choice in raced


def early_choice(light: SliceTrial, found: DispatchState) -> Any:
    """Return the choice of a search that names the kernel of `light`."""
    from autosparse.core.solver import choice_of

    return choice_of(slice_trial.schedule_of(light.slices, found))


def test_without_a_cache_nothing_is_noted() -> None:
    m = matrix()
    with asp.options(cache=False):
        A = asp.csr(m, copy=True)
        found = run(A, m)
    assert isinstance(found.serving, SliceTrial)
    assert found.account is None
