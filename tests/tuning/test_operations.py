"""Tests of SDDMM and MTTKRP during and after tuning: the same answers, writes seen, plans remembered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api
from autosparse.tuner.analytic.models import statistics_model
from autosparse.tuner.space import spaces
from autosparse.tuner.space.neighbours import neighbours

import autosparse as asp
from autosparse import _native
from autosparse.core.plan import Plan
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import choice_of
from autosparse.dispatch.state import state_for
from autosparse.errors import OptionError
from autosparse.explain import sections
from autosparse.tuning import planner
from autosparse.tuning.setup import context_of, live_tuner_of, session_of
from tests.tuning.forcing import ENOUGH_S

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")


def force(operand: Any, schedule: SuperSchedule, *, columns: int, operation: str) -> Any:
    """Make the operation on `operand` run `schedule` from now on; return its state."""
    typed = operand if operation == "mttkrp" else operand.rows or operand.validate()
    operand.refresh()
    state = state_for(operand, typed, columns, False, operation=operation)
    state.n_dense_cols = columns
    context = context_of(operand, state)
    plan = Plan(choice=choice_of(schedule), why="forced", effort="full", default_s=1.0, measured_s=0.5)
    decision = planner.adopt(context, plan)
    assert decision.trial is not None, decision.plan.why
    live_tuner = live_tuner_of(state, operand)
    live_tuner.install(session_of(live_tuner, operand, (context, decision)))
    return state


def samples(problem: Any, n: int) -> list[SuperSchedule]:
    """Return up to `n` candidates, each of another format."""
    found = {}
    for one in spaces.candidates(problem, _native.supports):
        found.setdefault(str(one.format), one)
    return list(found.values())[:n]


def matrix(dtype: str = "float32", m: int = 70, n: int = 5000) -> Any:
    rng = np.random.default_rng(0)
    plain = sps.random_array((m, n), density=0.01, random_state=rng, dtype=dtype, format="csr")
    plain.data[::7] = 0  # explicit zeros stay entries
    return plain


def factors_of(shape: tuple[int, ...], rank: int, dtype: str = "float32") -> list[Any]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal((n, rank)).astype(dtype) for n in shape]


def tensor(shape: tuple[int, ...] = (30, 40, 50), nnz: int = 900) -> Any:
    rng = np.random.default_rng(2)
    coords = np.stack([rng.integers(0, n, nnz) for n in shape])
    return asp.tensor(coords, rng.standard_normal(nnz).astype("float32"), shape)


def close(got: Any, wanted: Any) -> None:
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)


def problem_of(operand: Any, operation: str, columns: int) -> Any:
    typed = operand if operation == "mttkrp" else operand.rows or operand.validate()
    return context_of(operand, state_for(operand, typed, columns, False, operation=operation)).problem


def test_sampled_products_by_any_kernel_in_any_layout_see_every_write() -> None:
    plain = matrix()
    X, Y_rows = factors_of(plain.shape, 20)
    schedules = samples(problem_of(asp.csr(plain)._cell, "sddmm", 20), 6)
    assert len(schedules) >= 4
    for schedule in schedules:
        A = asp.csr(plain, copy=True)
        state = force(A._cell, schedule, columns=20, operation="sddmm")
        held, plain_held = A.data, plain.data.copy()
        for step in range(3):
            expected = plain_held * np.einsum("pk,pk->p", X[plain.tocoo().row], Y_rows[plain.indices])
            for one, other in ((X, Y_rows.T), (np.asfortranarray(X), np.ascontiguousarray(Y_rows.T))):
                close(asp.sddmm(A, one, other).data, expected)
                close(asp.sddmm(A.T, other.T, one.T).data, expected)  # the same entries and the same plan
            held[step] += 3
            plain_held[step] += 3
        assert state.n_tuned >= 12, schedule
        A.indices[0] = (A.indices[0] + 1) % 5000  # a changed structure: its plans are dropped
        moved = sps.csr_array((A.data, A.indices, A.indptr), shape=A.shape)
        close(asp.sddmm(A, X, Y_rows.T).toarray(), (moved.toarray() * (X @ Y_rows.T)))


@pytest.mark.parametrize("shape", [(30, 40, 50), (9, 8, 10, 7)])
def test_tensor_products_by_any_kernel_see_every_write(shape: tuple[int, ...]) -> None:
    T, factors = tensor(shape), factors_of(shape, 16)
    letters = "abcd"[: len(shape)]
    for mode in range(len(shape)):
        others = [n for n in range(len(shape)) if n != mode]
        text = f"{letters},{','.join(letters[n] + 'z' for n in others)}->{letters[mode]}z"
        schedules = samples(problem_of(T._unfolding(mode), "mttkrp", 16), 3)
        assert len(schedules) == 3
        for schedule in schedules:
            state = force(T._unfolding(mode), schedule, columns=16, operation="mttkrp")
            for step in range(2):
                for _ in range(6):  # before and after the packed copy is renewed
                    M = asp.mttkrp(T, factors, mode)
                    close(M, np.einsum(text, T.todense(), *(factors[n] for n in others)))
                T.values[step] += 1
            assert state.n_tuned > 0, schedule


@pytest.mark.parametrize("order", [2, 5, 7, 8, 16])
def test_tensors_of_any_order_can_be_tuned(order: int) -> None:
    """Check tensors of up to 16 modes; beyond 7 there are no generated kernels and the default one stays."""
    shape = tuple(range(5, 5 + order))
    rng = np.random.default_rng(order)
    coords = np.stack([rng.integers(0, n, 400) for n in shape])
    T, factors = asp.tensor(coords, rng.standard_normal(400).astype("float32"), shape), factors_of(shape, 8)
    expected = np.zeros((shape[1], 8), "float64")
    rows = np.prod([factors[n][coords[n]].astype("float64") for n in range(order) if n != 1], axis=0)
    np.add.at(expected, coords[1], rows * np.asarray(T.values, "float64")[:, None])
    for effort in ("estimate", "measure"):
        plan = T.tune(columns=8, mode=1, effort=effort, budget_s=ENOUGH_S)
        assert plan.schedule is None or order <= 7
        np.testing.assert_allclose(asp.mttkrp(T, factors, 1), expected, rtol=1e-4, atol=1e-4)


def test_tuning_is_remembered_by_operation_and_mode() -> None:
    plain = matrix()
    for effort in ("measure", "estimate"):
        plan = asp.csr(plain, copy=True).tune("sddmm", columns=16, effort=effort, budget_s=ENOUGH_S)
        assert plan.remembered == (effort == "estimate")
        assert plan.schedule is None or plan.schedule.operation == "sddmm"
    assert not asp.csr(plain, copy=True).tune("matmul", columns=16, effort="estimate").remembered
    T = tensor()
    assert not T.tune(columns=8, mode=1, effort="estimate").remembered
    assert tensor().tune(columns=8, mode=1, effort="estimate").remembered
    assert not tensor().tune(columns=8, mode=2, effort="estimate").remembered


def test_products_are_right_while_background_tuning_runs() -> None:
    plain, rank = matrix(m=300), 8
    A, T = asp.csr(plain, copy=True), tensor(nnz=4000)
    X, Y_rows = factors_of(plain.shape, rank)
    factors = factors_of(T.shape, rank)
    expected = plain.data * np.einsum("pk,pk->p", X[plain.tocoo().row], Y_rows[plain.indices])
    M = np.einsum("abc,az,bz->cz", T.todense(), factors[0], factors[1])
    with asp.options(runs=10**12, effort="measure", overhead=1.0):
        for _ in range(60):
            close(asp.sddmm(A, X, Y_rows.T).data, expected)
            close(asp.mttkrp(T, factors, 2), M)
    for dispatcher, name in ((A._cell.dispatcher, "sddmm"), (T._unfolding(2).dispatcher, "mttkrp")):
        live_tuner = next(state.live_tuner for state in dispatcher.states.values() if state.operation == name)
        assert live_tuner is not None
        assert live_tuner.failure is None, live_tuner.failure


def test_explanations_name_the_operation() -> None:
    A, T = asp.csr(matrix(), copy=True), tensor()
    text = str(A.explain(16, operation="sddmm"))
    assert "sddmm: A ∘ (X @ Y), X 16 columns" in text
    assert "S[i,k] = A[i,k] * X[i,j] * Y[k,j]" in text
    generated = [one for one in samples(problem_of(A._cell, "sddmm", 16), 99) if not one.is_precompiled]
    force(A._cell, generated[-1], columns=16, operation="sddmm")
    assert "S[i, k] += A[i, k] * X[i, j] * Y[k, j]" in str(A.explain(16, operation="sddmm"))
    text = str(T.explain(16, mode=1))
    assert "mttkrp: T with rows of mode 1, factors of 16 columns" in text
    assert "30 x 40 x 50, 900 entries, float32" in text
    assert "int64" in str(asp.tensor([[0], [0], [0]], [1]).explain(4))


def test_operations_have_the_names_of_the_literature_too(monkeypatch: pytest.MonkeyPatch) -> None:
    sections_of_plans = [one for one in sections.SECTIONS if one.__name__ != "_neighbours"]  # it depends on the load
    monkeypatch.setattr(sections, "SECTIONS", tuple(sections_of_plans))
    A = asp.csr(matrix(), copy=True)
    for operation, columns in (("spmv", 1), ("spmm", 8)):
        assert A.tune(operation, columns=columns, effort="off") == A.tune(columns=columns, effort="off")
        assert str(A.explain(columns, operation=operation)) == str(A.explain(columns))


def test_unsupported_tuning_requests_give_a_reason() -> None:
    A, T = asp.csr(matrix(), copy=True), tensor()
    with pytest.raises(OptionError, match="one of matmul, sddmm"):
        A.tune("mttkrp", columns=4)
    with pytest.raises(OptionError, match="one of mttkrp"):
        T.tune("matmul", columns=4)
    with pytest.raises(OptionError, match=r"<ndarray of shape \(3, 4\)> is not valid.*\n.*columns=n"):
        A.tune(np.ones((3, 4)))  # type: ignore[arg-type]
    assert asp.csr(matrix("complex64")).tune("sddmm", columns=4).is_default
    assert asp.tensor([[0], [0], [0]], [1]).tune(columns=4).is_default


def test_matrices_without_rows_can_be_tuned() -> None:
    """Check matrices without rows: the default kernel takes no time that others could be compared with."""
    for shape, columns in (((0, 5), 8), ((0, 0), 1)):
        A = asp.csr(sps.csr_array(shape))
        for effort in ("estimate", "measure"):
            assert A.tune("matmul", columns=columns, effort=effort) is not None
        assert (A @ np.ones((shape[1], columns))).shape == (0, columns)


@pytest.mark.parametrize("is_fresh", [False, True])
def test_results_without_rows_may_all_begin_at_a_cache_line(is_fresh: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    A = asp.csr(sps.csr_array((0, 5)))
    context = context_of(A._cell, state_for(A._cell, A._cell.validate(), 8, False))
    monkeypatch.setattr(runtime_api, "address_of", lambda array: 64)
    run = context.served(context(choice_of(None)), is_fresh=is_fresh)
    monkeypatch.undo()
    assert run is not None
    run(1)


def test_models_rank_every_candidate() -> None:
    A, T = asp.csr(matrix(), copy=True), tensor((6, 7, 8, 5))
    for operand, operation in ((A._cell, "sddmm"), (T._unfolding(1), "mttkrp")):
        problem = problem_of(operand, operation, 32)
        for find in (spaces.candidates, spaces.everything):
            schedules = find(problem, _native.supports)
            times = statistics_model(problem).rank(problem, [None, *schedules])
            assert len(schedules) > 3
            assert all(np.isfinite(time_s) and time_s > 0 for time_s in times)
        near = list(neighbours(problem, schedules[0], _native.supports))
        assert near
        assert all(one != schedules[0] and one.operation == operation for one in near)
