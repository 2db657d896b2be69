"""Tests of the extension module: right answers, references that are neither lost nor leaked, and errors for misuse."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import memory, python_objects, runtime_api

import autosparse as asp
from autosparse.config import decisive_options
from autosparse.dispatch import fast_path
from autosparse.dispatch import state as states
from autosparse.operands import csr, mutation_guard
from autosparse.operands.csr import Operand
from tests.tuning.forcing import close, dense, force, make, schedule_of, state_of

extension: Any = runtime_api.extension
pytestmark = pytest.mark.skipif(extension is None, reason=f"the extension module: {runtime_api.extension_fault}")


@pytest.fixture(autouse=True)
def fast_calls_from_the_second_product(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(states, "FIRST_FAST_PATH", 2)
    monkeypatch.setattr(csr, "_BEGIN_NS", csr.NOT_SMALL_NS)  # no small products before states exist
    with asp.options(effort="off", extra_memory=50.0):
        yield


def matrix(n: int = 60) -> Any:
    return asp.csr(make(n, n), copy=True)


@pytest.mark.parametrize(
    "array",
    [
        np.empty(7), np.empty((3, 3), np.float32)[1:, ::-1], np.empty(0), np.array(3.0), np.empty(2, object),
        np.empty((2, 2)).view(np.matrix), np.frombuffer(b"12345678"),
    ],
)  # fmt: skip
def test_the_address_of_an_array_is_that_of_its_interface(array: Any) -> None:
    assert extension.address_of(array) == array.__array_interface__["data"][0]
    slot = runtime_api.ffi.cast("uintptr_t *", extension.data_slot(array))
    assert slot[0] == extension.address_of(array)


def test_the_data_slot_follows_an_array_that_moves() -> None:
    array = np.arange(4.0)
    slot = runtime_api.ffi.cast("uintptr_t *", extension.data_slot(array))
    array.resize(1 << 16, refcheck=False)
    assert slot[0] == array.__array_interface__["data"][0]


@pytest.mark.parametrize("function", ["address_of", "data_slot", "references", "references_with_bases"])
def test_objects_of_other_types_are_refused(function: str) -> None:
    with pytest.raises(TypeError):
        getattr(extension, function)(object())


def test_references_are_counted_exactly() -> None:
    owner = [np.empty(2)]
    held = (owner[0],)
    assert extension.references(held) == 2
    alias = owner[0]
    assert extension.references(held) == 3
    del alias
    view = owner[0][:1]
    assert extension.references(held) == 3, "the base of a view"
    assert extension.references_with_bases([view]) == 5, "of the view: here and in the list; of its base: 3"
    counts = mutation_guard.calibrated_counts()
    assert (counts.array, counts.base) == (2, 2)


def misuses() -> dict[str, Callable[[], object]]:
    """Return calls with arguments that do not fit."""
    A, x = matrix(), np.ones(60)
    rows = A._cell.validate()
    call = extension.FastCall(A._cell, rows, None, False, np.dtype(float), [])
    watch = extension.Watch()
    spec = (x, None, 0, 0, False, None, None)
    return {
        "connect": lambda: extension.connect((1, 2)),
        "connect to 0": lambda: extension.connect((0,) * len(extension.FUNCTIONS)),
        "connect to a file": lambda: extension.connect_to(1, 2),
        "connect to a number": lambda: extension.connect_to("", None),
        "look": lambda: extension.look([x, x, x], 1),
        "product": lambda: extension.product((x, x, x), 1),
        "product of a list": lambda: extension.product([x, x, x], 60, 60, True, x, x, False),
        "small product": lambda: extension.small_product([x, x, x], 1),
        "sweep": lambda: extension.compile_sweep([], 1),
        "sweep of an empty step": lambda: extension.compile_sweep(((),), 1),
        "shape": lambda: extension.empty("no shape", np.dtype(float), False),
        "dtype": lambda: extension.empty((3,), "no dtype", False),
        "field of another class": lambda: extension.make_field(int, int, Operand.n_major, 0, "a", "b", len, len),
        "operand": lambda: extension.FastCall(object(), rows, None, False, np.dtype(float), []),
        "dtype of a call": lambda: extension.FastCall(A._cell, rows, None, False, float, []),
        "direction": lambda: extension.FastCall(A._cell, rows, None, 0, np.dtype(float), []),
        "guard": lambda: call.guard(object(), None, 0),
        "watched operand": lambda: watch.look(object(), True, 1),
        "threads": lambda: watch.look(A._cell, True, None),
        "arrays": lambda: watch.fill_in(rows, (60, 3), 0, (spec, spec)),
        "array": lambda: watch.fill_in(rows, (60, 3), 0, (spec, spec, (x[::2], None, 0, 0, False, None, None))),
        "held": lambda: watch.fill_in(rows, (60, 3), 0, (spec, spec, (x, [], 0, 0, False, None, None))),
        "lease": lambda: watch.note_lease(3),
    }


@pytest.mark.parametrize(
    "name",
    [
        "connect",
        "connect to 0",
        "connect to a file",
        "connect to a number",
        "look",
        "product",
        "product of a list",
        "small product",
        "sweep",
        "sweep of an empty step",
        "shape",
        "dtype",
        "field of another class",
        "operand",
        "dtype of a call",
        "direction",
        "guard",
        "watched operand",
        "threads",
        "arrays",
        "array",
        "held",
        "lease",
    ],
)
def test_misuse_raises(name: str) -> None:
    with pytest.raises((TypeError, ValueError, IndexError)):
        misuses()[name]()
    close(matrix() @ np.ones(60, np.float32), make(60, 60) @ np.ones(60, np.float32))


def test_a_watch_that_was_not_filled_in_leaves_the_check_to_python() -> None:
    A, watch = matrix(), extension.Watch()
    assert watch.look(A._cell, True, 1) is False
    assert watch.look(A._cell, False, 1) is False
    watch.retire()
    assert watch.n_looks_of == (0, 0, 0)


def steady() -> dict[str, Callable[[], object]]:
    """Return functions that a loop calls; each goes through the extension module."""
    A, x, y = matrix(), np.ones(60, np.float32), np.empty(60, np.float32)
    for _ in range(64):
        asp.matmul(A, x, out=y)
    run, operand, options = A._cell.fast_path, A._cell, decisive_options()
    state_of(A).fast_path.open()
    assert run(operand, x, y, options, False)
    held = matrix()
    data = held.data
    arrays = [one.copy() for one in (A.indptr, A.indices, A.data)]
    few, ones = [one.copy() for one in (A.indptr, A.indices, A.data)], np.ones(60, np.float32)
    out = np.empty(60, np.float32)
    assert extension.small_product(few, 60, 60, True, ones, out, False, 0, 1 << 20) > 0
    return {
        "fast call": lambda: run(operand, x, y, options, False),
        "product on all threads": lambda: extension.product((*few,), 60, 60, True, ones, out, False),
        "refused fast call": lambda: run(operand, x, x, options, False),
        "product": lambda: A @ x,
        "small product": lambda: extension.small_product(few, 60, 60, True, ones, out, False, 0, 1 << 20),
        "field": lambda: (held.data, held.indices, data),
        "assigned field": lambda: setattr(held, "data", data),
        "guard": held._cell.refresh,
        "address": lambda: extension.address_of(x),
        "references": lambda: extension.references_with_bases(arrays),
        "look": lambda: extension.look(arrays, 60, 60, False),
        "allocation": lambda: extension.empty((1 << 15,), np.dtype(np.float32), False),
        "failed allocation": failed_allocation,
    }


def failed_allocation() -> None:
    with pytest.raises(TypeError):
        extension.empty((3,), "no dtype", False)


@pytest.mark.parametrize(
    "name",
    [
        "fast call",
        "refused fast call",
        "product",
        "small product",
        "field",
        "assigned field",
        "guard",
        "address",
        "references",
        "look",
        "allocation",
        "failed allocation",
    ],
)
def test_no_call_leaks_memory_or_references(name: str) -> None:
    call = steady()[name]
    n = 2_000 if name == "failed allocation" else 10_000
    shared = (None, True, False, np.dtype(np.float32), np.ndarray, Operand, decisive_options())

    def repeat() -> tuple[int, list[int]]:
        gc.collect()
        before = [sys.getrefcount(one) for one in shared]
        tracemalloc.start()
        try:
            call()
            start = tracemalloc.get_traced_memory()[0]
            for _ in range(n):
                call()
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - start
        finally:
            tracemalloc.stop()
        return grown, [abs(sys.getrefcount(one) - old) for one, old in zip(shared, before, strict=True)]

    repeat()
    grown, differences = repeat()
    assert grown < 8 * n, f"{grown} bytes after {n} calls"
    assert max(differences) < n // 10, differences


@pytest.mark.full
def test_a_hundred_thousand_fast_calls_leave_the_counts_as_they_were() -> None:
    A, x, y = matrix(), np.ones(60, np.float32), np.empty(60, np.float32)
    for _ in range(64):
        asp.matmul(A, x, out=y)
    seen = (x, y, A, A._cell, A._cell.rows, A._cell.fast_path, *A._cell._arrays)
    before = extension.references(seen)
    for _ in range(100_000):
        asp.matmul(A, x, out=y)
    assert extension.references(seen) == before


@pytest.mark.parametrize("is_packed", [False, True])
def test_an_operand_dies_with_its_matrix(is_packed: bool) -> None:
    A, B = matrix(), dense(make(60, 60), 8)
    if is_packed:
        force(A, schedule_of("blocks", 8), columns=8)
    for _ in range(64):
        A @ B
    A._cell.refresh()
    seen = weakref.ref(A._cell), weakref.ref(A._cell._arrays[2])
    del A
    gc.collect()
    assert [one() for one in seen] == [None, None]


def test_operands_in_a_cycle_are_collected() -> None:
    A = matrix()
    A._cell.refresh()
    seen = weakref.ref(A._cell)
    A._cell.solver_memory = [A._cell]
    A._cell.rows = A._cell  # a member that C knows
    del A
    gc.collect()
    assert seen() is None


def test_a_retired_fast_call_serves_nothing() -> None:
    A, B = matrix(), dense(make(60, 60), 8)
    force(A, schedule_of("blocks", 8), columns=8)
    out = np.empty((60, 8), np.float32)
    for _ in range(64):
        asp.matmul(A, B, out=out)
    path = state_of(A, 8).fast_path
    assert path is not None
    path.retire()
    assert not path.run(A._cell, B, out, decisive_options(), False)
    close(asp.matmul(A, B, out=out), make(60, 60) @ B)


def test_a_fast_call_refuses_the_operand_of_another_matrix() -> None:
    A, other, x = matrix(), matrix(), np.ones(60, np.float32)
    y = np.empty(60, np.float32)
    for one in (A, other):
        for _ in range(64):
            asp.matmul(one, x, out=y)
    assert A._cell.fast_path(A._cell, x, y, decisive_options(), False)
    assert not A._cell.fast_path(other._cell, x, y, decisive_options(), False)


def in_threads(n: int, call: Callable[[], None], disturb: Callable[[], None]) -> None:
    """Run `call` in n threads, and `disturb` repeatedly in this one until they end."""
    faults: list[BaseException] = []

    def contained() -> None:
        try:
            call()
        except BaseException as err:  # noqa: BLE001  # it is raised below
            faults.append(err)

    threads = [threading.Thread(target=contained) for _ in range(n)]
    for one in threads:
        one.start()
    while any(one.is_alive() for one in threads):
        disturb()
    if faults:
        raise faults[0]


@pytest.mark.parametrize("is_packed", [False, True])
def test_threads_multiply_while_another_reads_and_checks_the_arrays(is_packed: bool) -> None:
    plain = make(300, 200)
    A, B = asp.csr(plain, copy=True), dense(plain, 8)
    if is_packed:
        force(A, schedule_of("blocks", 8), columns=8)
    expected = plain @ B

    def multiply() -> None:
        out = np.empty((300, 8), np.float32)
        for _ in range(300):
            close(asp.matmul(A, B, out=out), expected)

    def disturb() -> None:
        held = A.data
        held[:3] = plain.data[:3]
        A.indices  # noqa: B018
        A._cell.refresh()

    in_threads(3, multiply, disturb)


def test_arrays_that_are_replaced_during_a_fast_call_live_until_it_ends() -> None:
    plain = make(4000, 2000)
    A, B = asp.csr(plain, copy=True), dense(plain, 8)
    operand, options, expected = A._cell, decisive_options(), plain @ B

    def multiply() -> None:
        out = np.empty((4000, 8), np.float32)
        for _ in range(2000):
            run = operand.fast_path
            if run is not None and run(operand, B, out, options, False):
                close(out, expected)

    def replace() -> None:
        for _ in range(4):
            close(A @ B, expected)
        A.data = operand.peek(2).copy()

    in_threads(2, multiply, replace)
    A.data = A.data.copy()
    old = weakref.ref(operand.peek(2))
    A.data = operand.peek(2).copy()
    assert old() is None, "no product is running"


def test_everything_that_is_looked_up_exists() -> None:
    names = [name for name, value in vars(python_objects).items() if value is None and not name.startswith("_")]
    assert names == []
    assert memory._allocate is extension.empty
    assert fast_path.make is extension.FastCall
    assert sps.csr_array((2, 2)).nnz == 0
