"""Tests of the explanation of a solve: its parts add up to its time, and nothing is measured outside a trace."""

from __future__ import annotations

import itertools
import sys
import threading
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from scipy.sparse.linalg import LinearOperator

import autosparse as asp
from autosparse.linalg.solves import Solve, tracing

N = 2_000


def system() -> tuple[asp.csr_array, np.ndarray]:
    m = sps.diags_array([-np.ones(N - 1), 2.01 * np.ones(N), -np.ones(N - 1)], offsets=[-1, 0, 1])
    return asp.csr(m), np.random.default_rng(0).standard_normal(N)


def test_parts_sum_to_the_time_of_the_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a preconditioned solve by a clock of one tick per reading: kernels count their own time by another one."""
    A, b = system()
    ticks = itertools.count(0, 1_000_000)
    monkeypatch.setattr(tracing, "perf_counter_ns", lambda: next(ticks))
    with asp.linalg.trace() as solves:
        begun = next(ticks)
        _, info = asp.linalg.cg(A, b, rtol=1e-8, M=sps.linalg.aslinearoperator(sps.eye_array(N)))
        took_s = (next(ticks) - begun) * 1e-9
    (found,) = solves
    assert info == found.info == 0
    assert sum(found.parts.values()) == pytest.approx(found.total_s)
    assert all(part_s >= 0 for part_s in found.parts.values())
    assert 0 < found.total_s <= took_s
    assert found.products_s > 0
    assert found.n_products >= found.n_iterations > 0


SOLVES: dict[str, dict[str, Any]] = {
    **{name: {"maxiter": 20} for name in ("cg", "cgs", "bicgstab", "minres", "qmr", "lsmr")},
    "gmres": {"maxiter": 2, "restart": 10}, "lsqr": {"iter_lim": 20}, "expm_multiply": {},
}  # fmt: skip
OF_COLUMNS = ("cg", "minres", "bicgstab", "gmres")


@pytest.mark.parametrize(
    ("name", "columns"), [*zip(SOLVES, [False] * len(SOLVES), strict=True), *((name, True) for name in OF_COLUMNS)]
)
def test_the_parts_of_every_solver_sum_to_its_time(name: str, columns: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check by a clock of one tick per reading that no time is counted twice or left out."""
    ticks = itertools.count(0, 1_000_000)
    A, b = system()
    monkeypatch.setattr(tracing, "perf_counter_ns", lambda: next(ticks))
    with asp.linalg.trace() as solves:
        begun, more = next(ticks), {"columns": True} if columns else {}
        getattr(asp.linalg, name)(A, np.stack([b, b[::-1]], axis=1) if columns else b, **more, **SOLVES[name])
        took_s = (next(ticks) - begun) * 1e-9
    assert len(solves) == (2 if columns and name == "gmres" else 1), "gmres solves columns of short rows separately"
    for found in solves:
        assert all(part_s >= 0 for part_s in found.parts.values())
        assert sum(found.parts.values()) == pytest.approx(found.total_s)
        assert found.products_s > 0
        assert (found.residual_s > 0) == (found.true_residual is not None)
    assert 0.95 * took_s <= sum(found.total_s for found in solves) <= took_s


def test_the_time_of_the_true_residual_is_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = [0]
    monkeypatch.setattr(tracing, "perf_counter_ns", lambda: now_ns[0])

    class Slow(LinearOperator):
        """Product with a diagonal that takes 1 s by the test's clock."""

        def _matvec(self, x: Any) -> Any:
            now_ns[0] += 1_000_000_000
            return 2 * x

    with asp.linalg.trace() as solves:
        asp.linalg.cg(Slow(np.dtype(float), (3, 3)), np.ones(3))
    (found,) = solves
    assert (found.residual_s, found.products_s, found.total_s) == (1.0, found.n_products, now_ns[0] * 1e-9)
    assert found.parts["true residual"] == 1.0
    assert "true residual" in str(found)


def test_the_time_of_a_solve_ends_before_the_explanation_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    module, clock = "autosparse.linalg.solves.explanation", tracing.perf_counter_ns
    is_imported: list[bool] = []

    def observed() -> int:
        is_imported.append(module in sys.modules)
        return clock()

    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(tracing, "perf_counter_ns", observed)
    with asp.linalg.trace():
        asp.linalg.cg(asp.csr(np.eye(3)), np.ones(3))
    assert is_imported
    assert not any(is_imported)


@pytest.mark.parametrize("name", ["cg", "cgs", "bicgstab", "minres", "gmres", "qmr", "lsqr", "lsmr"])
def test_operations_on_vectors_are_timed_in_every_iteration(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    A, b = system()
    parts: list[str] = []
    timed = tracing.Recording.timed

    def counting(self: tracing.Recording, part: str, *arguments: Any) -> Any:
        parts.append(part)
        return timed(self, part, *arguments)

    monkeypatch.setattr(tracing.Recording, "timed", counting)
    with asp.linalg.trace() as solves:
        getattr(asp.linalg, name)(A, b)
    assert parts.count(tracing.VECTORS) >= solves[0].n_iterations > 0


def test_the_true_residual_is_that_of_the_solution() -> None:
    A, b = system()
    with asp.linalg.trace() as solves:
        x, _ = asp.linalg.cg(A, b, rtol=1e-6)
    assert solves[0].true_residual == pytest.approx(np.linalg.norm(b - A @ x))
    assert solves[0].true_residual <= 1.05 * solves[0].target
    assert solves[0].target == pytest.approx(1e-6 * np.linalg.norm(b))


def test_a_trace_is_shown_as_text_and_as_a_page(tmp_path) -> None:
    A, b = system()
    with asp.linalg.trace() as solves:
        asp.linalg.cg(A, b)
    text = str(solves[0])
    assert text.startswith("cg: 2,000 unknowns")
    assert "true residual" in text
    assert "products" in text
    assert "cg: 2,000 unknowns" in repr(solves[0])
    assert "Where the time went" in solves[0].html(tmp_path / "page.html").read_text(encoding="utf-8")


def test_nothing_is_measured_outside_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    A, b = system()

    def no_clock() -> int:
        raise AssertionError("a clock was read")

    monkeypatch.setattr(tracing, "perf_counter_ns", no_clock)
    asp.linalg.cg(A, b)
    with pytest.raises(AssertionError, match="a clock was read"), asp.linalg.trace():
        asp.linalg.cg(A, b)


def test_traces_nest_and_belong_to_their_thread() -> None:
    A, b = system()
    with asp.linalg.trace() as outer:
        asp.linalg.cg(A, b)
        with asp.linalg.trace() as inner:
            asp.linalg.cg(A, b)
        thread = threading.Thread(target=asp.linalg.cg, args=(A, b))
        thread.start()
        thread.join()
    asp.linalg.cg(A, b)
    assert (len(outer), len(inner)) == (1, 1)


def test_a_solve_inside_another_has_its_own_parts() -> None:
    A, b = system()
    inverse = sps.linalg.LinearOperator((N, N), matvec=lambda r: asp.linalg.cg(A, r, rtol=1e-1)[0], dtype=float)
    with asp.linalg.trace() as solves:
        asp.linalg.cg(A, b, M=inverse, maxiter=3)
    *within, outer = solves
    assert len(within) >= 3
    assert outer.preconditioner_s > 0
    for one in solves:
        assert one.products_s > 0
        assert sum(one.parts.values()) == pytest.approx(one.total_s)


def test_a_solve_that_fails_is_told_without_a_residual() -> None:
    A, _ = system()
    with asp.linalg.trace() as solves, pytest.raises(ZeroDivisionError), Solve("cg", A):
        raise ZeroDivisionError
    assert solves[0].true_residual is None


def test_columns_have_a_true_residual_each() -> None:
    A, _ = system()
    B = np.random.default_rng(1).standard_normal((N, 3))
    with asp.linalg.trace() as solves:
        X, info = asp.linalg.cg(A, B, rtol=1e-6, columns=True)
    (found,) = solves
    np.testing.assert_allclose(found.true_residual, np.linalg.norm(B - A @ X, axis=0))
    np.testing.assert_array_equal(found.info, info)
    assert "info           0 0 0" in str(found)


def test_solvers_that_stop_by_a_criterion_tell_no_residual_that_was_asked_for() -> None:
    A, b = system()
    with asp.linalg.trace() as solves:
        asp.linalg.minres(A, b, rtol=1e-6)
        asp.linalg.lsqr(A, b)
        asp.linalg.lsmr(A, b)
    assert [one.target for one in solves] == [0.0, 0.0, 0.0]
    assert all(one.true_residual is not None for one in solves)


def test_the_exponential_tells_its_terms() -> None:
    A, b = system()
    with asp.linalg.trace() as solves:
        asp.linalg.expm_multiply(A, b)
    assert 0 < solves[0].n_iterations <= solves[0].n_products
