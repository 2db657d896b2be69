"""Tests of the early race of products with several columns, on matrices whose rows share their columns."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse.dispatch import first_look
from autosparse.scalar import GENERATED
from autosparse.tuning.memory import early
from autosparse.tuning.memory.slice_trial import SliceTrial
from autosparse.tuning.setup import live_tuner_of
from autosparse.tuning.trials.kernel_trial import KernelTrial
from tests.tuning.forcing import verdict_after
from tests.tuning.test_early import (  # noqa: F401  # a fixture
    best_isa,
    make_state,
    needs_shipped,
    operand_of,
    race_at_once,
)


def test_a_search_after_a_lost_race_begins_sooner_for_several_columns() -> None:
    looks_ns = []
    for columns in (8, 1):
        found, race = make_state(), early.EarlyRace()
        found.n_dense_cols, race.spent_s, race.has_candidate, found.early = columns, 0.02, True, race
        looks_ns.append(first_look._tuning_look_ns(found))
    assert looks_ns[0] < looks_ns[1], "there are more kernels for several columns than the one that lost"


def test_products_of_another_width_are_no_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    found = make_state()
    found.n_dense_cols, seen = 8, []
    found.early = SimpleNamespace(is_racing=True, look=lambda *args: seen.append(args[2]))  # type: ignore[assignment]
    found.is_known = True
    for n_vecs in (8, 7, 0):
        first_look.is_enough(found, operand_of(200_000), None, 1e-4, n_vecs)
    assert seen == [None, first_look.ANOTHER_WIDTH, None]


def blocks(dtype: str) -> Any:
    """Return a matrix whose rows have the same columns in groups of three."""
    rng = np.random.default_rng(3)
    coarse = sps.random_array((1000, 900), density=0.01, random_state=rng, format="csr")
    m = sps.csr_array(sps.kron(coarse, np.ones((3, 3))))
    m.data[:] = rng.standard_normal(m.nnz)
    m.sort_indices()
    return m.astype(dtype)


@needs_shipped
@pytest.mark.usefixtures("best_isa")
@pytest.mark.parametrize("dtype", GENERATED)
@pytest.mark.parametrize("columns", [5, 8, 20, 40])
@pytest.mark.parametrize("is_faster", [True, False])
def test_products_with_several_columns_race_on_rows_with_the_same_columns(dtype, columns, is_faster, monkeypatch):
    race_at_once(monkeypatch)
    monkeypatch.setattr(early, "verdict", verdict_after(3, is_won=is_faster))
    monkeypatch.setattr(early, "CHECK_AFTER", 1e9)
    m = blocks(dtype)
    A, X = asp.csr(m), np.random.default_rng(5).standard_normal((m.shape[1], columns)).astype(dtype)
    A @ X
    (found,) = A._cell.dispatcher.states.values()
    found.next_look_ns = 0
    for _ in range(40):
        np.testing.assert_allclose(A @ X, m @ X, rtol=1e-4, atol=1e-4)
    race = found.early
    assert isinstance(race, early.EarlyRace)
    assert race.has_candidate
    assert not race.is_racing
    assert race.is_won == is_faster
    assert isinstance(found.serving, SliceTrial) == is_faster
    if is_faster:
        assert race.plan(found).schedule.dense_split("j") in {tile for tile in (8, 32) if tile < 2 * columns}
        A.data[:] *= 2.0
        np.testing.assert_allclose(A @ X, 2.0 * (m @ X), rtol=1e-4, atol=1e-4)
        assert isinstance(found.recalled, KernelTrial), (found.recalled, found.serving, race.is_won)
        race.retire(found)
    assert A._cell.dispatcher.packed_copies.n_bytes == 0, "a copy that does not serve takes no memory"
    operand = weakref.ref(A._cell)
    del A, found, race
    assert operand() is None, "only a collection of cycles would free it"


@needs_shipped
@pytest.mark.usefixtures("best_isa")
def test_a_search_begins_with_the_winner_of_several_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    race_at_once(monkeypatch)
    monkeypatch.setattr(early, "verdict", verdict_after(3))
    monkeypatch.setattr(early, "CHECK_AFTER", 1e9)
    m = blocks("float64")
    A, X = asp.csr(m), np.random.default_rng(5).standard_normal((m.shape[1], 8))
    A @ X
    (found,) = A._cell.dispatcher.states.values()
    found.next_look_ns = 0
    for _ in range(40):
        A @ X
    assert isinstance(found.serving, SliceTrial)
    n_bytes = A._cell.dispatcher.packed_copies.n_bytes
    tuner = live_tuner_of(found, A._cell)
    assert tuner.session is not None
    assert isinstance(tuner.session.recalled, KernelTrial)
    assert tuner.session.recalled is found.serving
    assert A._cell.dispatcher.packed_copies.n_bytes == n_bytes, "it reads the same copy"
    np.testing.assert_allclose(A @ X, m @ X)


@needs_shipped
@pytest.mark.usefixtures("best_isa")
def test_rows_with_other_columns_have_no_race_of_several_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    race_at_once(monkeypatch)
    A, X = (
        asp.csr(sps.random_array((3000, 3000), density=0.01, random_state=np.random.default_rng(0))),
        np.ones((3000, 8)),
    )
    A @ X
    (found,) = A._cell.dispatcher.states.values()
    found.next_look_ns = 0
    for _ in range(9):
        A @ X
    assert found.early is None
    assert not found.may_race
    assert found.serving is None
