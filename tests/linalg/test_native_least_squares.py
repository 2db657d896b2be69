"""Tests that iterations of lsqr and lsmr in the extension module are those of Python, to the bit, with equal ends."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
import scipy.sparse.linalg as scipys
from autosparse._native import python_objects

import autosparse as asp
from autosparse.dispatch import state as dispatch_state
from autosparse.dispatch import turned
from autosparse.linalg.solves import expectation
from tests.linalg.test_native_iterations import Native

pytestmark = pytest.mark.skipif(python_objects.FastCall is None, reason="needs the extension module")

SOLVERS = {"lsqr": "iter_lim", "lsmr": "maxiter"}


@pytest.fixture(autouse=True)
def fast_calls_from_the_start(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(dispatch_state, "FIRST_FAST_PATH", 2)
    with asp.options(effort="off"):
        yield


def matrix(m: int, n: int) -> Any:
    S = sps.random_array((m, n), density=min(1.0, 5 / n), random_state=np.random.default_rng(m + n))
    return sps.csr_array(S + sps.eye_array(m, n))


def with_fast_calls(m: Any) -> Any:
    """Return an array of ours whose products with it and its transpose are served by fast calls."""
    A = asp.csr(m)
    for T in (A, A.T):
        x, out = np.ones(T.shape[1], m.dtype), np.empty(T.shape[0], m.dtype)
        for _ in range(4):
            asp.matmul(T, x, out=out)
    return A


def content(results: tuple[Any, ...]) -> list[Any]:
    """Return the types and the bits of the results."""
    return [(type(one), one.tobytes() if isinstance(one, np.ndarray) else float(one).hex()) for one in results]


def solved(name: str, native: Native, m: Any, b: Any, **how: Any) -> list[Any]:
    """Solve natively and in Python, check for equal results, and return them."""
    found = []
    for on in (True, False):
        native.switch(on=on)
        A = with_fast_calls(m)
        with np.errstate(all="ignore"):
            try:
                results = content(getattr(asp.linalg, name)(A, b, **how))
            except ArithmeticError as error:  # SciPy's own
                results = [repr(error)]
            found.append((results, A._cell.solver_memory.fewest))
    assert found[0] == found[1]
    return found[0][0]


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("shape", [(140, 100), (100, 140), (300, 300)])
def test_bits_ends_and_counts_are_those_of_python(
    monkeypatch: pytest.MonkeyPatch, name: str, shape: tuple[int, int]
) -> None:
    m, native, rng = matrix(*shape), Native(monkeypatch, name), np.random.default_rng(0)
    b, x0 = rng.standard_normal(shape[0]), rng.standard_normal(shape[1])
    tight = {"atol": 1e-12, "btol": 1e-12}
    with asp.options(deterministic=True):
        for limit in (1, 2, 3, 17, None):
            for how in ({}, {"damp": 0.3}, {"damp": 2, "x0": x0}, {"conlim": 5.0}, {"conlim": 0, "atol": 0, "btol": 0}):
                solved(name, native, m, b, **{**tight, SOLVERS[name]: limit, **how})
    assert native.n > 200


@pytest.mark.parametrize("name", SOLVERS)
def test_any_number_of_threads_has_the_same_bits(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(turned, "PRICE_NS", 0)
    m, native, found = matrix(5_000, 5_000), Native(monkeypatch, name), []
    b = np.random.default_rng(1).standard_normal(5_000)
    for threads in (1, 2, 3):
        with asp.options(threads=threads, deterministic=True):
            found.append(content(getattr(asp.linalg, name)(with_fast_calls(m), b, **{SOLVERS[name]: 30})))
    assert found[0] == found[1] == found[2]
    assert native.n > 20


@pytest.mark.parametrize("name", SOLVERS)
def test_other_solves_run_in_python(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    native, m = Native(monkeypatch, name), matrix(60, 60)
    b, solver, limit = np.arange(60.0), getattr(asp.linalg, name), {SOLVERS[name]: 5}
    solver(with_fast_calls(m), b, show=True, **limit)
    solver(with_fast_calls(m.astype("f")), b.astype("f"), **limit)
    solver(with_fast_calls(m.astype("D")), b + 1j, **limit)
    A = with_fast_calls(m)
    solver(scipys.aslinearoperator(A), b, **limit)
    if name == "lsqr":
        solver(A, b, calc_var=True, **limit)
    with asp.linalg.trace() as solves:
        solver(A, b, **limit)
    assert solves[0].n_products >= 10
    assert native.n == 0


@pytest.mark.parametrize("name", SOLVERS)
def test_products_that_no_fast_call_serves_are_computed_by_python(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    m, native = matrix(500, 400), Native(monkeypatch, name)
    call, turns = native.call, itertools.cycle(range(3))
    ends = []

    def refused(products: Any, sweeps: Any, scalars: Any, constants: Any, counts: Any) -> Any:
        """Run at most three iterations; refuse the second product, the first one, or none in turn."""
        turn = next(turns)
        if turn:  # another direction than the fast call's
            products = tuple(
                (*one[:-1], not one[-1]) if at == 2 - turn else one for at, one in enumerate(products, start=turn - 1)
            )
        found = call(products, sweeps, scalars, constants, (min(3, counts[0]), *counts[1:]))
        ends.append(found[2])
        return found

    native.call = refused
    with asp.options(deterministic=True):
        solved(name, native, m, np.random.default_rng(2).standard_normal(500), atol=1e-12, btol=1e-12)
    assert {0, 1} <= set(ends)
    assert native.n > 10


@pytest.mark.parametrize("name", SOLVERS)
def test_breakdowns_end_as_in_python(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    native, rng = Native(monkeypatch, name), np.random.default_rng(3)
    few = sps.csr_array(np.diag(np.repeat([1.0, 2.0, 3.0, 0.0], 10)))
    huge = sps.csr_array(np.diag(np.r_[1e200, np.ones(39)]))
    wild = sps.csr_array(np.diag(np.r_[np.nan, np.ones(39)]))
    with asp.options(deterministic=True):
        for m in (few, huge, 1e-200 * few, 0 * few, wild):
            for b in (np.ones(40), rng.standard_normal(40), np.eye(40)[0], 1e160 * np.ones(40)):
                for damp in (0.0, 0.5, 1e-300, 1e150):
                    solved(name, native, m, b, damp=damp, atol=0, btol=0, conlim=0)
    assert native.n > 10


@pytest.mark.parametrize("name", SOLVERS)
def test_undefined_quotients_are_reported(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    native, ends = Native(monkeypatch, name), []
    call = native.call

    def scaled(products: Any, sweeps: Any, scalars: Any, constants: Any, counts: Any) -> Any:
        """Run with a scalar whose square overflows: the last rhobar of lsqr, the pending step of lsmr."""
        place = 4 if name == "lsqr" else 16
        found = call(products, sweeps, (*scalars[:place], 1e200, *scalars[place + 1 :]), (1.0, *constants[1:]), counts)
        ends.append(found[2])
        return found

    native.call = scaled
    m, b = matrix(50, 40), np.ones(50)
    with asp.options(deterministic=True):
        found, wanted = (getattr(library, name)(with_fast_calls(m), b) for library in (asp.linalg, scipys))
    assert ends == [2]
    np.testing.assert_array_equal(found[0], wanted[0])


@pytest.mark.parametrize("name", SOLVERS)
def test_arguments_that_do_not_fit_are_refused(name: str) -> None:
    advance, n_scalars = getattr(python_objects, f"advance_{name}"), {"lsqr": 17, "lsmr": 23}[name]
    nothing = [(0.0,) * size for size in (2, 3, n_scalars, 6, 3)]
    fitting = [((0,) * 6,) * 2, *nothing[1:]]
    for given in ([], nothing[:-1], nothing, fitting, [*fitting[:-1], "abc"], [*fitting[:-1], ("a", 1, 1)]):
        with pytest.raises(TypeError):
            advance(*given)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_first_solve_of_many_iterations_becomes_native(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Check that a solve opens both fast calls, that of the transpose over kept rows, and that a short one does not."""
    monkeypatch.setattr(dispatch_state, "FIRST_FAST_PATH", expectation.FIRST_FAST_PATH)
    monkeypatch.setattr(expectation, "NATIVE_PRODUCTS", 40)
    monkeypatch.setattr(turned, "PRICE_NS", 1)
    monkeypatch.setattr(turned, "TRIALS", 3)
    monkeypatch.setattr(turned, "_is_chosen", lambda *_: True)
    native, m = Native(monkeypatch, name), matrix(20_000, 19_000)
    b = np.random.default_rng(0).standard_normal(20_000)
    for limit, is_native in ((20, False), (300, True)):
        A, n_before = asp.csr(m), native.n
        getattr(asp.linalg, name)(A, b, atol=1e-15, btol=1e-15, conlim=0, **{SOLVERS[name]: limit})
        assert (native.n > n_before) == is_native
    assert A._cell.dispatcher.turning.made is not None
    assert math.isfinite(A._cell.dispatcher.hot[1, True].fast_path.n_running)
