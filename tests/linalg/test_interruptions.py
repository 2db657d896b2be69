"""Tests that interrupted, nested, concurrent or forked solves leave nothing behind that spoils the next solve."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import autosparse as asp
from tests.linalg.calls import EVERY, WITH_CALLBACK, bits, call, operator, plain

pytestmark = pytest.mark.filterwarnings("ignore:Exited:UserWarning")  # lobpcg has not converged

RING_AGAIN_S = 5.0
"""Interval in seconds of repeated alarms: Python drops the exception of an alarm inside a destructor."""


@pytest.fixture(autouse=True)
def one_order_of_summation() -> Iterator[None]:
    """Compute in one order of summation. Otherwise a tuned kernel may serve from any product on and change bits."""
    with asp.options(deterministic=True):
        yield


def matrix(side: int = 24, dtype: str = "d") -> Any:
    return asp.csr(plain(side, dtype), copy=True)


class Refused(Exception):
    pass


class Countdown:
    """Callable that raises at the call with a given number."""

    def __init__(self, left: int, error: type[BaseException] = Refused) -> None:
        self.left, self.error, self.n_calls = left, error, 0

    def __call__(self, *_: Any) -> None:
        self.n_calls += 1
        if self.n_calls == self.left:
            raise self.error("here")


@pytest.mark.parametrize("at", [1, 2, 5])
@pytest.mark.parametrize("name", WITH_CALLBACK)
def test_an_exception_of_a_callback_comes_through_and_leaves_nothing(name: str, at: int) -> None:
    A, expected = matrix(), bits(call(name, matrix()))
    callback = Countdown(at)
    with pytest.raises(Refused, match="here"):
        call(name, A, callback=callback)
    assert callback.n_calls == at
    assert bits(call(name, A)) == expected
    left = weakref.ref(callback)
    del callback
    gc.collect()
    assert left() is None


@pytest.mark.parametrize("error", [Refused, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("name", EVERY)
def test_an_exception_of_a_product_comes_through_and_leaves_nothing(name: str, error: type[BaseException]) -> None:
    A = matrix()
    expected = bits(call(name, operator(A, lambda: None)))
    before = Countdown(5, error)
    with pytest.raises(error):
        call(name, operator(A, before))
    assert before.n_calls == 5, "no product after the one that failed"
    assert bits(call(name, operator(A, lambda: None))) == expected


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals of timers are POSIX")
@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres", "cgs", "qmr", "minres"])
def test_a_signal_ends_a_solve_that_would_take_forever(name: str) -> None:
    """The solver calls neither a callback nor a Python operator, so the signal arrives between its own steps."""
    A, expected = matrix(60), bits(call(name, matrix(60)))
    _interrupt(name, A)
    assert bits(call(name, A)) == expected


def _solve_forever(name: str, A: Any) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.05, RING_AGAIN_S)
    while True:  # some solvers end by a breakdown or by stagnation
        call(name, A, rtol=0.0, maxiter=10**9)


def _interrupt(name: str, A: Any) -> None:
    def ring(number: int, frame: types.FrameType | None) -> None:
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(KeyboardInterrupt), np.errstate(all="ignore"):
            _solve_forever(name, A)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


@pytest.mark.parametrize("name", WITH_CALLBACK)
def test_a_solve_inside_a_callback(name: str) -> None:
    A, expected = matrix(), bits(call(name, matrix()))
    other = bits(call(name, matrix(), seed=1))
    inner: list[Any] = []

    def callback(_: Any) -> None:
        if len(inner) < 3:
            inner.append(None)
            inner[-1] = bits(call(name, A, seed=1))

    with_callback = bits(call(name, matrix(), callback=lambda _: None))
    assert bits(call(name, A, callback=callback)) == with_callback
    assert inner == [other] * 3
    assert bits(call(name, A)) == expected


@pytest.mark.parametrize("name", EVERY)
def test_a_solve_inside_a_product_of_another(name: str) -> None:
    """Solve inside the preconditioner or operator of another solve with the same matrix."""
    A, inner = matrix(), []
    expected = bits(call(name, operator(A, lambda: None)))
    single = bits(call("cg", matrix(), seed=2))

    def before() -> None:
        if len(inner) < 3:
            inner.append(bits(call("cg", A, seed=2)))

    assert bits(call(name, operator(A, before))) == expected
    assert inner == [single] * 3


@pytest.mark.parametrize("name", EVERY)
def test_two_threads_solve_with_one_matrix(name: str) -> None:
    A = matrix(40)
    expected = [bits(call(name, matrix(40), seed=seed)) for seed in range(2)]
    found: list[list[Any]] = [[], []]
    ready = threading.Barrier(2)

    def work(seed: int) -> None:
        with asp.options(deterministic=True):  # options belong to their thread
            ready.wait()
            for _ in range(5):
                found[seed].append(bits(call(name, A, seed=seed)))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[one] * 5 for one in expected]


@pytest.mark.parametrize("name", EVERY)
def test_a_matrix_that_was_solved_with_is_freed(name: str) -> None:
    A = matrix()
    call(name, A)
    left = weakref.ref(A)
    del A
    gc.collect()
    assert left() is None


FORK = textwrap.dedent("""
    import os, sys, threading
    from tests.linalg.calls import EVERY, bits, call, plain
    import autosparse as asp

    A = asp.csr(plain(60), copy=True)
    with asp.options(deterministic=True):
        expected = {name: bits(call(name, A)) for name in EVERY}
        stop = threading.Event()
        def busy():
            with asp.options(deterministic=True):
                while not stop.is_set():
                    call("cg", A)
        other = threading.Thread(target=busy)
        other.start()
        children = []
        for _ in range(3):
            child = os.fork()
            if child == 0:
                wrong = [name for name in EVERY if bits(call(name, A)) != expected[name]]
                print("wrong in the child:", wrong, file=sys.stderr) if wrong else None
                os._exit(len(wrong))
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        stop.set()
        other.join()
        assert codes == [0, 0, 0], codes
        assert {name: bits(call(name, A)) for name in EVERY} == expected
    print("forked")
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is POSIX")
def test_forked_children_solve_while_another_thread_of_the_parent_does() -> None:
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "forked", run.stderr[-3000:]
