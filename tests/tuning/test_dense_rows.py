"""Dense rows apart from the others: raced by `measure`, refused with a reason, remembered, and equal to SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse._native import runtime_api
from hypothesis import given, settings
from hypothesis import strategies as st

import autosparse as asp
from autosparse import _native, cache
from autosparse.config import Effort, Options, get_options
from autosparse.core.composite import Composite
from autosparse.core.plan import Plan
from autosparse.core.problem import Problem
from autosparse.core.solver import COMPOSITE_SOLVER, choice_of
from autosparse.dispatch.state import state_for
from autosparse.tuning.setup import context_of
from autosparse.tuning.solvers import dense_rows
from autosparse.tuning.solvers.candidates import search_for
from autosparse.tuning.trials.kernel_trial import KernelTrial
from tests.tuning.forcing import force

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")


def made(n_dense: int = 12, *, n: int = 1500, density: float = 0.5, dtype: str = "float32") -> Any:
    """Return a square matrix with 30 entries per row, of which `n_dense` rows have the given density instead."""
    rng = np.random.default_rng(0)
    rows = rng.choice(n, n_dense, replace=False)
    lengths = np.full(n, 30)
    lengths[rows] = int(density * n)
    indices = np.concatenate([np.sort(rng.choice(n, length, replace=False)) for length in lengths]).astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    values = rng.integers(1, 4, indices.size).astype(dtype)
    return sp.csr_array((values, indices, indptr), shape=(n, n))


def context(A: Any, columns: int = 64, *, transposed: bool = False) -> Any:
    """Return the tuning context of ``op(A) @ B``."""
    cell = A._cell
    return context_of(cell, state_for(cell, cell.rows or cell.validate(), columns, transposed))


def problem(M: Any, columns: int = 64, *, transposed: bool = False) -> Problem:
    """Return the problem of ``op(M) @ B``."""
    found: Problem = context(asp.csr(M), columns, transposed=transposed).problem
    return found


@pytest.mark.parametrize("effort", [Effort.MEASURE, Effort.FULL])
@pytest.mark.parametrize("live", [False, True])
def test_dense_rows_race_before_other_candidates(effort: Effort, live: bool) -> None:
    A = asp.csr(made(40))
    search = search_for(context(A), effort=effort, live=live)
    first = search.always[0]
    assert isinstance(first, Composite)
    assert str(first.parts[0].select) == "rows(376..)"
    assert {one.is_precompiled for one in first.schedules} == {True}


def test_the_rows_of_the_transpose_are_divided() -> None:
    M = made(40)
    assert dense_rows.DENSE_ROWS.applicable(problem(sp.csr_array(M.T), transposed=True)) is None
    assert "of the columns" in str(dense_rows.DENSE_ROWS.applicable(problem(M, transposed=True)))


@pytest.mark.parametrize(
    ("case", "columns", "reason"),
    [
        ({"n_dense": 40}, 1, "fewer than 8 columns"),
        ({"n_dense": 1, "n": 2000}, 64, "fewer than 2 rows"),
        ({"n_dense": 2, "density": 0.1, "n": 2000}, 64, "expected time"),
        ({"n_dense": 0, "n": 2000}, 64, "fewer than 2 rows"),
        ({"n_dense": 4, "n": 900}, 64, "at most 50,000 entries"),
    ],
)
def test_a_reason_is_given_where_dense_rows_do_not_race(case: dict[str, Any], columns: int, reason: str) -> None:
    assert reason in str(dense_rows.DENSE_ROWS.applicable(problem(made(**case), columns)))


def test_other_index_types_are_refused() -> None:
    M = made(40)
    wide = sp.csr_array((M.data, M.indices.astype(np.int64), M.indptr.astype(np.int64)), shape=M.shape)
    assert "32-bit indices" in str(dense_rows.DENSE_ROWS.applicable(problem(wide)))


def test_the_option_hybrid_forbids_them() -> None:
    asked = problem(made(40))
    assert dense_rows.offered(asked, get_options())[0]
    forbidden: Options = get_options()._replace(hybrid=False)
    composites, refused = dense_rows.offered(asked, forbidden)
    assert not composites
    assert [(one.solver, one.failed) for one in refused] == [("dense rows", "the option hybrid is false")]
    assert dense_rows.offered(problem(made(0)), forbidden) == ((), ())
    assert dense_rows.offered(asked, get_options()._replace(deterministic=True)) == ((), ())


def test_a_measured_plan_is_remembered_and_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that `measure` chooses the composite where it is the only candidate faster than the default kernel."""
    from autosparse.tuning.trials import context as contexts

    runner, served = contexts.TuningContext.runner, contexts.TuningContext.served

    def slow(run: Any, trial: Any) -> Any:
        if run is None or (isinstance(trial, KernelTrial) and isinstance(trial.choice.schedule, Composite)):
            return run

        def slower(*args: Any) -> None:
            for _ in range(6):
                run(*args)

        return slower

    monkeypatch.setattr(
        contexts.TuningContext, "runner", lambda self, trial, turn=0: slow(runner(self, trial, turn), trial)
    )
    monkeypatch.setattr(
        contexts.TuningContext,
        "served",
        lambda self, trial, *, is_fresh: slow(served(self, trial, is_fresh=is_fresh), trial),
    )
    cache.open_store().clear()
    M = made(40)
    A, B = asp.csr(M, copy=True), np.ones((M.shape[1], 64), np.float32)
    plan: Plan = A.tune(columns=64, effort="measure", budget_s=60.0)
    assert plan.solver == COMPOSITE_SOLVER
    np.testing.assert_array_equal(A @ B, M @ B)
    assert "rows(376..)" in str(A.explain(B))
    again = asp.csr(M, copy=True).tune(columns=64, effort="measure", budget_s=60.0)
    assert (again.remembered, again.schedule) == (True, plan.schedule)
    A.data *= 2
    np.testing.assert_array_equal(A @ B, 2 * (M @ B))
    cache.open_store().clear()


def test_non_finite_values_give_what_scipy_gives() -> None:
    M = made(12)
    composite = next(iter(dense_rows.DENSE_ROWS.knobs(problem(M))))
    A, B = asp.csr(M), np.ones((M.shape[1], 16), np.float32)
    force(A, composite, columns=16)
    B[7, 3], B[9, 5] = np.inf, np.nan  # cells of panels without an entry would multiply these by zero
    np.testing.assert_array_equal(A @ B, M @ B)


@settings(max_examples=6, deadline=None)
@given(
    n_dense=st.integers(2, 11), width=st.sampled_from([8, 9, 31, 64, 200]),
    dtype=st.sampled_from(["float32", "float64"]), n=st.integers(260, 700),
    density=st.sampled_from([0.1, 0.3, 0.9, 1.0]),
)  # fmt: skip
def test_composites_of_dense_rows_equal_scipy_on_any_number_of_threads(
    n_dense: int, width: int, dtype: str, n: int, density: float
) -> None:
    M = made(n_dense, n=n, density=density, dtype=dtype)
    B = np.random.default_rng(1).integers(-3, 4, (n, width)).astype(dtype)
    for composite in dense_rows.DENSE_ROWS.knobs(problem(M, width)):
        trial = context(asp.csr(M), width)(choice_of(composite))
        trial.build()
        assert trial.failed is None
        packed = _native.pack_composite(trial.context.problem.matrix, M.data, composite, transposed=False)
        spec = trial.context.spec(composite)
        bound = _native.build(spec, store=cache.open_store(), compiler=None).bind(packed)
        for n_threads in (1, 2, 3):
            C = np.full((n, width), np.nan, dtype)
            assert bound.run(B.ctypes.data, width, C.ctypes.data, width, width, n_threads)
            np.testing.assert_array_equal(C, M @ B)
