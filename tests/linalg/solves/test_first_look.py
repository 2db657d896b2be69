"""Tests of the first look at products: without accounts of earlier processes it must be paid for."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse.cache import trust
from autosparse.cache.accounts.rows import ACCOUNTS, Spent, spent_row

import autosparse as asp
from autosparse import configured
from autosparse.dispatch import accounts, executor, state
from autosparse.dispatch.expectations import Expected
from autosparse.dispatch.state import DispatchState
from autosparse.linalg.solves.workspace import Begun
from tests.tuning.forcing import state_of

DUE_NS = round(state.COLD_LOOK_S / asp.get_options().overhead * 1e9)


@pytest.fixture(autouse=True)
def looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give each test a cache folder and a clock; return a list that grows with each first look."""
    seen: list[int] = []

    def look(found: DispatchState, *_: Any) -> bool:
        seen.append(found.product_ns)
        found.next_look_ns = state.FOREVER_NS
        return True

    clock = itertools.count(0, 1000)
    monkeypatch.setattr(executor, "_is_enough", look)
    monkeypatch.setattr(executor, "perf_counter_ns", lambda: next(clock))  # each product takes 1 us
    with asp.options(cache_dir=tmp_path):
        yield seen


def solved() -> tuple[Any, DispatchState]:
    """Return a matrix that a solver has used, and the state of its products before any look."""
    A = asp.csr(sps.diags_array([1.0] * 40, format="csr") * 2.0)
    asp.linalg.cg(A, np.ones(40))
    asp.matmul(A, np.ones(40), out=np.empty(40))
    found = state_of(A)
    found.next_look_ns = found.product_ns = 0
    return A, found


def multiply(A: Any) -> None:
    asp.matmul(A, np.ones(40), out=np.empty(40))


def test_the_first_look_follows_products_that_have_paid_for_it(looks: list[int]) -> None:
    A, found = solved()
    found.product_ns = DUE_NS // 4
    multiply(A)
    assert not looks
    assert found.next_look_ns == DUE_NS
    found.product_ns = DUE_NS - 2000
    multiply(A)
    assert not looks
    multiply(A)
    assert len(looks) == 1


def test_time_of_solves_beside_their_products_pays(looks: list[int]) -> None:
    A, found = solved()
    found.solver_ns = DUE_NS // 2
    multiply(A)
    assert found.next_look_ns == DUE_NS - DUE_NS // 2
    found.solver_ns, found.next_look_ns = DUE_NS, 0
    multiply(A)
    assert len(looks) == 1


def test_products_that_are_certain_pay(looks: list[int]) -> None:
    A, found = solved()
    found.expected = Expected(n_calls=10, n_certain=10, other_s=DUE_NS * 1e-10)
    multiply(A)
    assert len(looks) == 1


@pytest.mark.parametrize("is_own", [True, False])
def test_an_account_of_the_problem_is_read_at_once(looks: list[int], tmp_path: Path, *, is_own: bool) -> None:
    A, found = solved()
    file = trust.root_of(tmp_path) / ACCOUNTS
    assert file == tmp_path.resolve().joinpath(*configured.ACCOUNTS_FILE)
    file.parent.mkdir()
    key = state.key_of(A._cell, found) if is_own else bytes(16)
    row = spent_row(key, Spent(n_calls=1, n_processes=1), process=1, now=1.0)
    file.write_bytes(row)
    multiply(A)
    assert len(looks) == is_own


def test_a_problem_without_an_account_is_looked_up_once_and_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    monkeypatch.setattr(state, "accounts_content", lambda folder: read.append(folder) or b"")
    monkeypatch.setattr(state, "key_of", lambda *_: pytest.fail("there is no file that could hold it"))
    A, found = solved()
    for _ in range(3):
        found.next_look_ns = 0
        multiply(A)
    assert len(read) == 1


def test_products_outside_solves_pay_on_the_largest_advance(looks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "tuning_look_ns", lambda *_: 1e18)  # that of a process without the modules of tuning
    A, _ = solved()
    B = asp.csr(sps.diags_array([1.0] * 40, format="csr"))
    multiply(B)
    found, due_ns = state_of(B), DUE_NS / (1.0 + accounts.MAX_ADVANCE)
    found.next_look_ns, found.product_ns = 0, int(due_ns) - 3000
    multiply(B)
    assert not looks
    assert found.next_look_ns == pytest.approx(due_ns, rel=1e-3)
    for _ in range(4):
        multiply(B)
    assert len(looks) == 1
    assert A._cell.solver_memory is not None
    assert B._cell.solver_memory is None


def test_a_solve_adds_its_time_beside_products_to_the_problem() -> None:
    A, found = solved()
    before = found.solver_ns
    asp.linalg.cg(A, np.ones(40), maxiter=3)
    assert before is None, "few entries: products of such solves are not counted"
    A = asp.csr(sps.diags_array([1.0] * 4000, format="csr") * np.arange(1.0, 4001))
    asp.linalg.cg(A, np.ones(4000), maxiter=3)
    first = state_of(A).solver_ns
    asp.linalg.cg(A, np.ones(4000), maxiter=3)
    later = state_of(A).solver_ns
    assert first is not None
    assert later is not None
    assert later > first > 0


def test_time_beside_products_is_divided_among_problems_by_their_products_time() -> None:
    now = [0]
    made = [
        DispatchState(asp.get_options(), is_turned, np.dtype("float64"), 1, threads=0, flags=0, next_look_ns=0.0)
        for is_turned in (False, True, True)
    ]
    begun = Begun(made, clock_ns=lambda: now[0])
    for found, took_ns in zip(made, (300, 100, 0), strict=True):
        found.count(took_ns, is_tuned=False)
    now[0] = 1000
    begun.end(made)
    assert [found.solver_ns for found in made] == [450, 150, None]
    begun = Begun(made[:1], clock_ns=lambda: now[0])
    made[0].count(200, is_tuned=False)
    now[0] = 1300
    begun.end(made[:1])
    assert made[0].solver_ns == 550
