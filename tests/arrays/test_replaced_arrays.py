"""Arrays that one thread replaces while another multiplies: kernels read addresses and hold no reference."""

from __future__ import annotations

import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api

import autosparse as asp
from autosparse.operands import watched
from autosparse.operands.csr import DATA, INDICES, Operand

N = 300


def matrix() -> Any:
    return asp.csr(sps.random_array((N, N), density=0.05, format="csr", random_state=np.random.default_rng(3)))


@pytest.mark.parametrize("name", ["indptr", "indices", "data"])
def test_replaced_arrays_live_until_the_last_reader_ends(name: str) -> None:
    A = matrix()
    operand = A._cell
    A @ np.ones(N)
    old = weakref.ref(getattr(A, name))
    operand.begin_reading()
    operand.begin_reading()
    setattr(A, name, getattr(A, name).copy())
    operand.end_reading()
    assert old() is not None
    operand.end_reading()
    assert old() is None


def test_replaced_arrays_without_readers_are_freed() -> None:
    A = matrix()
    A @ np.ones(N)
    old = weakref.ref(A.data)
    A.data = np.ones(A.nnz)
    assert old() is None


def test_a_product_that_raises_ends_its_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    A = matrix()
    for columns in (1, 3):
        with pytest.raises(ValueError, match="dimension mismatch"):
            A @ np.ones((N + 1, columns))
    A.tocsc()
    old = weakref.ref(A.data)
    monkeypatch.setattr("autosparse.dispatch.executor.state_for", lambda *_, **__: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        asp.sddmm(A, np.ones((N, 2)), np.ones((2, N)))
    A.data = np.ones(A.nnz)
    assert old() is None


class Replaced(threading.Thread):
    """Thread that replaces the values of a matrix once; `was_alive` says whether the old ones lived afterwards."""

    def __init__(self, A: Any) -> None:
        super().__init__()
        self.A, self.was_alive = A, False

    def run(self) -> None:
        old = weakref.ref(self.A.data)
        self.A.data = np.ones(self.A.nnz)
        self.was_alive = old() is not None


def test_replaced_arrays_live_until_another_thread_has_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    from autosparse.tuning import planner

    A = matrix()
    writer, plan = Replaced(A), planner.plan

    def planned(*args: Any, **how: Any) -> Any:
        writer.start()
        writer.join()
        return plan(*args, **how)

    monkeypatch.setattr(planner, "plan", planned)
    A.tune(effort="estimate")
    assert writer.was_alive
    old = weakref.ref(A.data)
    A.data = np.ones(A.nnz)
    assert old() is None


@pytest.mark.parametrize("may_hang", [False, True])
def test_replaced_arrays_live_until_a_step_in_the_background_ends_unless_it_compiles(may_hang: bool) -> None:
    from autosparse.tuner.search.trial import Work

    from autosparse.tuning.background import perform

    A = matrix()
    A @ np.ones(N)
    writer = Replaced(A)
    perform(Work(kind="pack", price_s=0.0, do=writer.run, may_hang=may_hang), A._cell)
    assert writer.was_alive is not may_hang


@pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")
def test_an_array_that_is_replaced_while_it_is_checked_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    operand = matrix()._cell
    original, left = Operand._codes, [2]

    def codes(operand: Operand) -> tuple[int, int] | None:
        found = original(operand)
        if left[0]:
            left[0] -= 1
            operand.rebind(DATA, np.full(operand.nnz, float(left[0])))
        return found

    monkeypatch.setattr(Operand, "_codes", codes)
    rows = operand.validate()
    assert left == [0]
    assert int(runtime_api.ffi.cast("intptr_t", rows.data[0])) == operand.peek(DATA).ctypes.data
    assert operand.peek(DATA)[0] == 0


@pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")
@pytest.mark.parametrize("statement", ["A @ A", "A.tocsc()"])
def test_an_array_that_is_replaced_after_its_check_is_checked(statement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    A = matrix()
    original, wild = Operand.validate, np.full(A.nnz, N, A.indices.dtype)

    def validate(operand: Operand) -> Any:
        found = original(operand)
        monkeypatch.undo()
        operand.rebind(INDICES, wild)
        return found

    monkeypatch.setattr(Operand, "validate", validate)
    with pytest.raises(ValueError, match="indices"):
        eval(statement)


@pytest.mark.parametrize("moment", ["compared", "read for the first time"])
def test_arrays_of_two_writers_live_until_the_last_reader_ends(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operand, values = asp.csr_array(matrix().base)._cell, np.ones(0)
    replaced: list[weakref.ref[Any]] = []

    def read() -> None:
        """Replace the values, as a second writer does, and begin to read them."""
        if not replaced:
            replaced.append(weakref.ref(operand.peek(DATA)))
            other = np.full(operand.nnz, 2.0)
            replaced.append(weakref.ref(other))
            operand.rebind(DATA, other)
            operand.begin_reading()
            operand.validate()

    if moment == "compared":
        operand.validate()
        same = watched.same_memory
        monkeypatch.setattr(watched, "same_memory", lambda *arrays: (read(), same(*arrays))[1])
    else:
        answers = iter([True])
        monkeypatch.setattr(Operand, "_is_unread", lambda operand: next(answers, None) or (read(), False)[1])
    values = np.full(operand.nnz, 3.0)
    operand.rebind(DATA, values)
    assert replaced[1]() is not None
    assert operand.peek(DATA) is values
    operand.end_reading()
    monkeypatch.undo()
    assert replaced[1]() is None


def test_products_beside_a_thread_that_replaces_arrays() -> None:
    A, x, X = matrix(), np.ones(N), np.ones((N, 3))
    total = (A != 0).sum(axis=1)
    faults: list[str] = []
    ends = time.monotonic() + 1.0

    def write() -> None:
        while time.monotonic() < ends:
            A.data = np.full(A.nnz, 2.0)
            A.indices = A.indices.copy()

    def read() -> None:
        while time.monotonic() < ends:
            results = A @ x, (A @ X)[:, 0], asp.sddmm(A, X, X.T).sum(axis=1) / 3
            faults.extend(str(one[:3]) for one in results if not np.allclose(one, 2.0 * total))
            A.copy().tocsc()

    A.data = np.full(A.nnz, 2.0)
    threads = [threading.Thread(target=target) for target in (write, read, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults[:3]
