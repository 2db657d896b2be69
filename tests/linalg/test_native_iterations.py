"""Tests that iterations in the extension module are those of Python, to the bit, and end where Python's end."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import python_objects

import autosparse as asp
from autosparse.dispatch import state as dispatch_state
from autosparse.linalg.solves import expectation

pytestmark = pytest.mark.skipif(python_objects.FastCall is None, reason="needs the extension module")

SOLVERS = ("cg", "bicgstab", "minres")


@pytest.fixture(autouse=True)
def fast_calls_from_the_start(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(dispatch_state, "FIRST_FAST_PATH", 2)
    with asp.options(deterministic=True, effort="off"):
        yield


class Native:
    """The function of the extension module that runs iterations, with a count of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.call: Callable[..., Any] = getattr(python_objects, f"advance_{name}")
        self.n, self._name, self._monkeypatch = 0, f"advance_{name}", monkeypatch
        self.switch(on=True)

    def switch(self, *, on: bool) -> None:
        self._monkeypatch.setattr(python_objects, self._name, self if on else None)

    def __call__(self, *arguments: Any) -> Any:
        found = self.call(*arguments)
        self.n += found[0]
        return found


def grid(name: str, n: int) -> Any:
    line = sps.diags_array([-np.ones(n - 1), 2.01 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])
    m = sps.kron(line, sps.eye_array(n)) + sps.kron(sps.eye_array(n), line)
    return sps.csr_array(m + sps.diags_array(np.full(n * n - 1, 0.3), offsets=1) if name == "bicgstab" else m)


def with_fast_call(m: Any, dtype: Any) -> Any:
    A = asp.csr(m.astype(dtype))
    out = np.empty(m.shape[0], dtype)
    for _ in range(4):
        asp.matmul(A, np.ones(m.shape[0], dtype), out=out)
    return A


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("has_diagonal", [False, True])
def test_bits_ends_and_counts_are_those_of_python(
    monkeypatch: pytest.MonkeyPatch, name: str, dtype: str, has_diagonal: bool
) -> None:
    m, rng, native = grid(name, 40), np.random.default_rng(0), Native(monkeypatch, name)
    b, guess = rng.standard_normal((2, m.shape[0])).astype(dtype)
    M = sps.diags_array(rng.uniform(0.2, 0.3, m.shape[0])) if has_diagonal else None
    for limit in (1, 2, 3, 17, None):
        for x0 in (None, guess):
            results = []
            for on in (True, False):
                native.switch(on=on)
                A = with_fast_call(m, dtype)
                x, info = getattr(asp.linalg, name)(A, b, x0, rtol=1e-5, maxiter=limit, M=M)
                results.append((x.tobytes(), info, A._cell.solver_memory.fewest))
            assert results[0] == results[1], (limit, x0 is None)
    assert native.n > 50


def test_the_first_iteration_of_cg_runs_in_the_extension_module(monkeypatch: pytest.MonkeyPatch) -> None:
    native, m = Native(monkeypatch, "cg"), grid("cg", 10)
    asp.linalg.cg(with_fast_call(m, "float64"), np.arange(100.0), rtol=1e-14, maxiter=5)
    assert native.n == 5


@pytest.mark.parametrize("name", SOLVERS)
def test_columns_callbacks_and_complex_systems_run_in_python(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    native, m = Native(monkeypatch, name), grid(name, 10)
    solver, seen = getattr(asp.linalg, name), []
    A, b = with_fast_call(m, "float64"), np.arange(100.0)
    solver(A, b, rtol=1e-14, maxiter=5, callback=lambda x: seen.append(x[0]))
    assert len(seen) == 5
    with asp.linalg.trace() as solves:
        solver(A, b, rtol=1e-14, maxiter=5)
    assert solves[0].n_products >= 5
    if name != "minres":  # SciPy solves complex systems by minres
        solver(with_fast_call(m, "complex128"), b + 1j, maxiter=5)
    assert native.n == 0


@pytest.mark.parametrize("name", SOLVERS)
def test_products_that_no_fast_call_serves_are_computed_by_python(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    m = grid(name, 30)
    b, native = np.random.default_rng(1).standard_normal(m.shape[0]), Native(monkeypatch, name)
    call, results = native.call, []

    def refused(products: Any, *arguments: Any) -> Any:
        """Run at most three iterations; refuse the product, the second one, or none in turn."""
        turn = next(turns)
        if turn == 1 and name == "bicgstab":
            products = products[0], (*products[1][:-1], True)  # another direction than the fast call's
        elif turn == 1 and name == "minres":
            products = products[0], (*products[1][:-1], True), products[2]
        elif turn:
            products = (*products[:-1], True) if name == "cg" else tuple((*one[:-1], True) for one in products)
        last = arguments[-1]
        return call(products, *arguments[:-1], (3, *last[1:]) if name == "minres" else min(3, last))

    turns = itertools.cycle(range(3))
    for function in (refused, None):
        native.switch(on=function is not None)
        native.call = refused
        A = with_fast_call(m, "float64")
        results.append(getattr(asp.linalg, name)(A, b, rtol=1e-9))
    assert native.n > 10
    assert results[0][1] == results[1][1] == 0
    assert results[0][0].tobytes() == results[1][0].tobytes()


@pytest.mark.parametrize("name", SOLVERS)
def test_breakdowns_end_as_in_python(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    rng, native = np.random.default_rng(3), Native(monkeypatch, name)
    flip = sps.csr_array(np.kron(np.eye(8), [[0.0, 1.0], [1.0 if name != "bicgstab" else -1.0, 0.0]]))
    for m in (flip, sps.csr_array((16, 16)), sps.diags_array(np.repeat([1.0, -1.0], 8), format="csr")):
        for b in (np.ones(16), rng.standard_normal(16), np.eye(16)[0]):
            results = []
            for on in (True, False):
                native.switch(on=on)
                with np.errstate(all="ignore"):
                    try:
                        x, info = getattr(asp.linalg, name)(with_fast_call(m, "float64"), b, maxiter=9)
                        results.append((x.tobytes(), info))
                    except (ValueError, ZeroDivisionError) as error:
                        results.append((str(error), type(error)))
            assert results[0] == results[1]


def test_minres_finds_an_indefinite_preconditioner_late(monkeypatch: pytest.MonkeyPatch) -> None:
    native = Native(monkeypatch, "minres")
    A = with_fast_call(grid("minres", 30), "float64")
    M = sps.diags_array(np.where(np.arange(900) == 450, -1e4, 1.0))
    for on in (True, False):
        native.switch(on=on)
        with pytest.raises(ValueError, match="non-symmetric matrix"):
            asp.linalg.minres(A, np.eye(900)[0], M=M, rtol=1e-14)


class Alarm(Exception):
    pass


def _solve_forever(name: str, A: Any, b: Any) -> None:
    while True:
        getattr(asp.linalg, name)(A, b, rtol=1e-13, maxiter=10_000)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
@pytest.mark.parametrize("name", SOLVERS)
def test_a_signal_ends_native_iterations(name: str) -> None:
    A, b = with_fast_call(grid(name, 40), "float64"), np.ones(1600)

    def ring(*_: Any) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.005)
        with pytest.raises(Alarm):
            _solve_forever(name, A, b)
    finally:
        signal.signal(signal.SIGALRM, before)
    again, fresh = (getattr(asp.linalg, name)(one, b)[0] for one in (A, with_fast_call(grid(name, 40), "float64")))
    assert again.tobytes() == fresh.tobytes()


@pytest.mark.parametrize("name", SOLVERS)
def test_arguments_that_do_not_fit_are_refused(name: str) -> None:
    advance = getattr(python_objects, f"advance_{name}")
    sizes = {"cg": ((6, 3, 5), 1), "bicgstab": ((2, 5, 7), 1), "minres": ((3, 3, 5, 14, 4, 4), None)}[name]
    nothing = [(0.0,) * size for size in sizes[0]] + ([1] if sizes[1] else [])
    for given in ([], nothing[:-1], nothing, [*nothing[:-1], "a"]):
        with pytest.raises(TypeError):
            advance(*given)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_first_solve_of_many_iterations_becomes_native(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Check that a solve opens a fast call where it expects enough iterations, and that a short one does not."""
    monkeypatch.setattr(dispatch_state, "FIRST_FAST_PATH", expectation.FIRST_FAST_PATH)
    monkeypatch.setattr(expectation, "NATIVE_PRODUCTS", 10)
    native, m = Native(monkeypatch, name), grid(name, 150)
    for limit, is_native in ((20, False), (None, True)):
        A, n_before = asp.csr(m), native.n
        getattr(asp.linalg, name)(A, np.random.default_rng(0).standard_normal(m.shape[0]), rtol=1e-10, maxiter=limit)
        assert (native.n > n_before) == is_native
