"""Tests that every solver reports its iterations and solution, announces products, and accepts `progress`."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse.dispatch.expectations import Expected
from autosparse.linalg.solves import expectation, solve

N = 400
HOW: dict[str, dict[str, Any]] = {
    "cg": {"rtol": 1e-8}, "cgs": {"rtol": 1e-8}, "bicgstab": {"rtol": 1e-8}, "minres": {"rtol": 1e-10},
    "gmres": {"rtol": 1e-8, "restart": 30}, "qmr": {"rtol": 1e-8}, "lsqr": {"atol": 1e-12, "btol": 1e-12},
    "lsmr": {"atol": 1e-12, "btol": 1e-12},
}  # fmt: skip


def system() -> tuple[asp.csr_array, np.ndarray]:
    m = sps.diags_array([-np.ones(N - 1), 2.2 * np.ones(N), -np.ones(N - 1)], offsets=[-1, 0, 1])
    return asp.csr(m), np.random.default_rng(0).standard_normal(N)


@pytest.mark.parametrize("name", HOW)
def test_a_trace_tells_of_every_solver(name: str) -> None:
    A, b = system()
    with asp.linalg.trace() as solves:
        x = getattr(asp.linalg, name)(A, b, **HOW[name])[0]
    (found,) = solves
    assert found.solver == name
    assert 5 < found.n_iterations < 400
    assert found.n_products >= found.n_iterations
    assert found.vectors_s > 0
    assert found.products_s > 0
    assert found.true_residual == pytest.approx(np.linalg.norm(b - A @ x), rel=1e-3, abs=1e-12)
    assert found.true_residual < 1e-5 * np.linalg.norm(b)


@pytest.mark.parametrize("name", HOW)
def test_progress_is_taken_and_changes_nothing(name: str) -> None:
    A, b = system()
    solver = getattr(asp.linalg, name)
    assert inspect.signature(solver).parameters["progress"].default is False
    with asp.options(effort="off"):  # a tuned kernel adds in another order
        np.testing.assert_array_equal(solver(A, b, **HOW[name])[0], solver(A, b, progress=True, **HOW[name])[0])


@pytest.mark.parametrize("name", HOW)
def test_the_tuner_receives_the_expected_products(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expected products must cover the transpose, be at least the certain ones, and end with the solve."""
    A, b = system()
    monkeypatch.setattr(solve, "FIRST_ENTRIES", 1)
    told: dict[bool, list[Expected]] = {}

    def tell(state: Any, expected: Expected | None) -> None:
        state.expected = expected
        if expected is not None:
            told.setdefault(state.transposed, []).append(expected)

    monkeypatch.setattr(expectation, "tell", tell)
    for _ in range(40):  # until both kinds of products have a state
        A @ b, A.T @ b
        if A._cell.dispatcher is not None and len(A._cell.dispatcher.hot) >= 2:
            break
    else:
        A._cell.small_product_ns = 1 << 40
        A @ b, A.T @ b
    getattr(asp.linalg, name)(A, b, **HOW[name])
    assert set(told) == ({False, True} if name in ("lsqr", "lsmr", "qmr") else {False})
    for each in told.values():
        left = [one.n_calls - one.n_certain for one in each]
        assert max(one.n_certain for one in each) > each[0].n_certain
        assert all(one >= 0 for one in left)
    assert all(state.expected is None for state in A._cell.dispatcher.hot.values())


@pytest.mark.parametrize("name", HOW)
def test_a_second_solve_takes_the_vectors_of_the_first(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    A, b = system()
    getattr(asp.linalg, name)(A, b, **HOW[name])

    def refuse(key: Any, n: int) -> list[Any]:
        assert n == 0, "a vector was allocated"
        return []

    monkeypatch.setattr("autosparse.linalg.solves.workspace.new_vectors", refuse)
    getattr(asp.linalg, name)(A, b, **HOW[name])


def test_the_solve_of_a_small_matrix_reads_no_clock_and_reports_no_expectation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve.Solve, "_look", lambda self, residual_norm: pytest.fail("looked"))
    A = asp.csr(np.diag(np.arange(1.0, 11.0)))
    for _ in range(20):
        asp.linalg.cg(A, np.ones(10))
