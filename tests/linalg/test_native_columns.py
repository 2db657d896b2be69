"""Tests that iterations of several columns in the extension module are those of Python, to the bit."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import python_objects
from scipy.sparse.linalg import LinearOperator

import autosparse as asp
from autosparse.dispatch import state as dispatch_state
from tests.linalg.test_native_iterations import Alarm, Native, grid

pytestmark = pytest.mark.skipif(python_objects.FastCall is None, reason="needs the extension module")


@pytest.fixture(autouse=True)
def fast_calls_from_the_start(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(dispatch_state, "FIRST_FAST_PATH", 2)
    with asp.options(deterministic=True, effort="off"):
        yield


def with_fast_calls(m: Any, dtype: str, k: int) -> Any:
    """Return the matrix after products with k columns, and with fewer, to which solves narrow their blocks."""
    A = asp.csr(m.astype(dtype))
    for width in range(1, k + 1):
        X, out = np.ones((m.shape[0], width), dtype), np.empty((m.shape[0], width), dtype)
        for _ in range(4):
            asp.matmul(A, X, out=out)
    return A


def right_sides(n: int, k: int, dtype: str) -> Any:
    """Return columns that converge at different times: noise, zero, a smooth one, one that is large."""
    B = np.random.default_rng(k).standard_normal((n, k))
    B[:, 1 % k] = 0
    B[:, 2 % k] = 1
    B[:, 3 % k] *= 1e4
    return B.astype(dtype)


SOLVERS = ("cg", "bicgstab", "minres")


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("has_diagonal", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 8, 13, 16])
def test_bits_ends_and_counts_are_those_of_python(
    monkeypatch: pytest.MonkeyPatch, name: str, dtype: str, has_diagonal: bool, k: int
) -> None:
    m, native = grid(name, 24), Native(monkeypatch, f"columns_{name}")
    B = right_sides(m.shape[0], k, dtype)
    d = np.random.default_rng(0).uniform(0.2, 0.3, m.shape[0])
    M = sps.diags_array(d) if has_diagonal else None
    for limit in (1, 2, 3, 17, None):
        for x0 in (None, np.roll(B, 1, axis=0)):
            results = []
            for on in (True, False):
                native.switch(on=on)
                A = with_fast_calls(m, dtype, k)
                X, info = getattr(asp.linalg, name)(A, B, x0, rtol=1e-5, maxiter=limit, M=M, columns=True)
                results.append((X.tobytes(), info.tolist(), A._cell.solver_memory.fewest))
            assert results[0] == results[1], (limit, x0 is None)
    assert native.n > 20 or k == 1


@pytest.mark.parametrize("name", SOLVERS)
def test_complex_systems_operators_and_traces_run_in_python(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    native, m, solve = Native(monkeypatch, f"columns_{name}"), grid(name, 10), getattr(asp.linalg, name)
    B = right_sides(100, 4, "float64")
    with asp.linalg.trace() as solves:
        solve(with_fast_calls(m, "float64", 4), B, columns=True, maxiter=5)
    assert solves[0].n_products >= 5
    if name != "minres":  # SciPy's is for real systems
        solve(with_fast_calls(m, "complex128", 4), B + 1j, columns=True, maxiter=5)
    solve(with_fast_calls(m, "float64", 4), B, columns=True, maxiter=5, M=asp.csr(m))
    operator = LinearOperator(m.shape, matvec=m.dot, matmat=m.dot, dtype=m.dtype)
    solve(operator, B, columns=True, maxiter=5)
    assert native.n == 0


@pytest.mark.parametrize(
    ("name", "refused_at"), [("cg", 0), ("bicgstab", 0), ("bicgstab", 1), ("minres", 0), ("minres", 2)]
)
def test_products_that_no_fast_call_serves_are_computed_by_python(
    monkeypatch: pytest.MonkeyPatch, name: str, refused_at: int
) -> None:
    m, native = grid(name, 30), Native(monkeypatch, f"columns_{name}")
    B, call, results = right_sides(900, 6, "float64"), native.call, []
    turns: Iterator[int] = itertools.cycle(range(3))

    def refused(products: Any, *given: Any) -> Any:
        """Run at most three iterations; refuse a product in two calls of three."""
        some = [products] if name == "cg" else list(products)
        if next(turns):
            some[refused_at] = (*some[refused_at][:-1], True)
        return call(some[0] if name == "cg" else tuple(some), *given[:-1], min(3, given[-1]))

    native.call = refused
    for on in (True, False):
        native.switch(on=on)
        results.append(getattr(asp.linalg, name)(with_fast_calls(m, "float64", 6), B, rtol=1e-9, columns=True))
    assert native.n > 10
    assert results[0][1].tolist() == results[1][1].tolist() == [0] * 6
    assert results[0][0].tobytes() == results[1][0].tobytes()


@pytest.mark.parametrize("name", SOLVERS)
def test_breakdowns_end_as_in_python(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    native = Native(monkeypatch, f"columns_{name}")
    flip = sps.csr_array(np.kron(np.eye(8), [[0.0, 1.0], [1.0, 0.0]]))
    signs = sps.diags_array(np.repeat([1.0, -1.0], 8), format="csr")
    B = np.random.default_rng(3).standard_normal((16, 4))
    B[:, 0], B[:, 1] = 1, np.eye(16)[0]
    for m in (flip, sps.csr_array((16, 16)), signs):
        results = []
        for on in (True, False):
            native.switch(on=on)
            with np.errstate(all="ignore"):
                A = with_fast_calls(m, "float64", 4)
                X, info = getattr(asp.linalg, name)(A, B, maxiter=9, columns=True)
            results.append((X.tobytes(), info.tolist()))
        assert results[0] == results[1]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_a_signal_ends_native_iterations() -> None:
    A, B = with_fast_calls(grid("cg", 40), "float64", 4), right_sides(1600, 4, "float64")

    def ring(*_: Any) -> None:
        raise Alarm

    def solve_forever() -> None:
        while True:
            asp.linalg.cg(A, B, rtol=1e-13, maxiter=10_000, columns=True)

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.005)
        with pytest.raises(Alarm):
            solve_forever()
    finally:
        signal.signal(signal.SIGALRM, before)
    fresh = asp.linalg.cg(with_fast_calls(grid("cg", 40), "float64", 4), B, columns=True)[0]
    assert asp.linalg.cg(A, B, columns=True)[0].tobytes() == fresh.tobytes()


def test_arguments_that_do_not_fit_are_refused() -> None:
    advance: Callable[..., Any] = python_objects.advance_columns_cg
    numbers = np.zeros((6, 2))
    nothing: list[Any] = [(0.0,) * 6, (1, 2, 3), numbers, 1]
    for given in ([], nothing[:-1], [(), *nothing[1:]], [nothing[0], (1, 2), numbers, 1],
                  [*nothing[:2], numbers[:5], 1], [*nothing[:2], numbers.astype("f"), 1], [*nothing[:2], numbers[0], 1],
                  [*nothing[:3], "a"]):  # fmt: skip
        with pytest.raises(TypeError):
            advance(*given)
    with pytest.raises(ValueError, match="does not belong"):
        advance((0.0,) * 6, (0, 0, 0), numbers, 1)


def test_arguments_of_bicgstab_that_do_not_fit_are_refused() -> None:
    advance: Callable[..., Any] = python_objects.advance_columns_bicgstab
    numbers, product = np.zeros((8, 2)), (0.0,) * 6
    given: list[Any] = [(product, product), (0, 0, 0, 0, 0), numbers, 0.0, 1]
    for at, wrong in ((0, (product,)), (0, ((), product)), (1, (0, 0)), (2, numbers[:5]), (2, numbers[0]),
                      (2, numbers.astype("f")), (3, "a"), (4, "a")):  # fmt: skip
        with pytest.raises(TypeError):
            advance(*given[:at], wrong, *given[at + 1 :])
    with pytest.raises(TypeError):
        advance(*given[:-1])
    with pytest.raises(ValueError, match="does not belong"):
        advance(*given)


def test_arguments_of_minres_that_do_not_fit_are_refused() -> None:
    advance: Callable[..., Any] = python_objects.advance_columns_minres
    numbers, product = np.zeros((15, 2)), (0.0,) * 6
    given: list[Any] = [(product,) * 3, ((0,) * 4,) * 3, numbers, (0.0,) * 4, 1]
    for at, wrong in ((0, (product,)), (0, ((), product, product)), (1, ((0,) * 4,)), (1, ((0,) * 3,) * 3),
                      (2, numbers[:5]), (2, numbers[0]), (2, numbers.astype("f")), (3, (0.0,)), (3, ("a",) * 4),
                      (4, "a")):  # fmt: skip
        with pytest.raises(TypeError):
            advance(*given[:at], wrong, *given[at + 1 :])
    with pytest.raises(TypeError):
        advance(*given[:-1])
    with pytest.raises(ValueError, match="does not belong"):
        advance(*given)


def test_minres_refuses_a_matrix_that_is_not_symmetric(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that negative squares end native iterations as Python's: M is not positive definite."""
    m, native = grid("minres", 12), Native(monkeypatch, "columns_minres")
    B, d = right_sides(144, 3, "float64"), np.ones(144)
    d[-1] = -4  # its row is not reached by the first residuals
    B[:, 0], B[:, 1], B[:, 2] = np.eye(144)[0], np.eye(144)[1], np.eye(144)[12]
    n_calls, call = [0], native.call

    def counted(*given: Any) -> Any:
        n_calls[0] += 1
        return call(*given)

    native.call = counted
    for on in (True, False):
        native.switch(on=on)
        with pytest.raises(ValueError, match="non-symmetric matrix"):
            asp.linalg.minres(with_fast_calls(m, "float64", 3), B, M=sps.diags_array(d), columns=True)
    assert (n_calls[0], native.n) == (1, 0), "the exception ends the only run"


def test_minres_with_a_shift(monkeypatch: pytest.MonkeyPatch) -> None:
    m, native, results = grid("minres", 20), Native(monkeypatch, "columns_minres"), []
    B = right_sides(400, 5, "float64")
    for on in (True, False):
        native.switch(on=on)
        A = with_fast_calls(m, "float64", 5)
        X, info = asp.linalg.minres(A, B, shift=1.7, rtol=1e-9, maxiter=300, columns=True)
        results.append((X.tobytes(), info.tolist()))
    assert results[0] == results[1]
    assert native.n > 50
