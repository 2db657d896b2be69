"""Registered solvers: raced, planned, remembered, explained, refused with a reason, and never stale."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from autosparse._native import runtime_api

import autosparse as asp
from autosparse import cache
from autosparse.core.plan import Plan
from autosparse.core.solver import Cost, ProductArguments, SparseOperand
from autosparse.errors import AutosparseError
from autosparse.ops import registry
from autosparse.tuning.explicit import current_plan
from autosparse.tuning.memory import plan_lookup
from autosparse.tuning.setup import context_of
from autosparse.tuning.solvers import mkl, offered
from tests.tuning.forcing import dense, make, slow_others

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")


class Toy:
    """Solver by SciPy that is certain to win: the test slows the default kernel down."""

    name = "toy"
    version = "1"

    def __init__(self, *, reads_live: bool = False, reason: str | None = None) -> None:
        self.reads_live, self.reason = reads_live, reason
        self.n_prepared = self.n_runs = 0
        self.wrong_by = 0.0

    def applicable(self, problem: Any) -> str | None:
        return self.reason

    def knobs(self, problem: Any) -> Iterator[Any]:
        yield ("block", problem.n_dense_cols)

    def cost(self, problem: Any, knobs: Any) -> Cost:
        return Cost(setup_s=1e-6)

    def prepare(self, operand: SparseOperand, knobs: Any) -> _Bound:
        assert knobs[0] == "block"
        self.n_prepared += 1
        return _Bound(self, operand)


class _Bound:
    def __init__(self, toy: Toy, operand: SparseOperand) -> None:
        from scipy.sparse import csr_array

        self.toy, self.operand = toy, operand
        values = operand.data if toy.reads_live else operand.data.copy()
        self.matrix = csr_array((values, operand.indices, operand.indptr), shape=operand.shape)

    def run(self, arguments: ProductArguments) -> bool:
        self.toy.n_runs += 1
        matrix = self.matrix.T if arguments.transposed else self.matrix
        arguments.C[...] = matrix @ arguments.B + self.toy.wrong_by
        return True


@pytest.fixture
def toy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Toy]:
    """Register a toy that wins each race, because its competitors take no part or are timed as slower."""
    one = Toy(**getattr(request, "param", {}))
    asp.register_solver(one)
    slow_others(monkeypatch)
    cache.open_store().clear()
    yield one
    if "toy" in registry.REGISTERED:
        asp.unregister_solver("toy")
    cache.open_store().clear()


def tuned(m: Any, n: int = 8) -> Any:
    A = asp.csr(m, copy=True)
    A.tune(columns=n, effort="measure", budget_s=60.0)
    return A


def plan_of(A: Any, n: int = 8) -> Plan:
    return current_plan(A._cell, columns=n)


def close(C: Any, wanted: Any) -> None:
    np.testing.assert_allclose(C, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [1, 8])
def test_a_registered_solver_is_raced_planned_and_explained(toy: Toy, n: int) -> None:
    m = make(300, 300)
    A, B = tuned(m, n), dense(m, n)
    plan = plan_of(A, n)
    assert (plan.solver, plan.knobs, plan.schedule) == ("toy", ("block", n), None)
    assert not plan.is_default
    n_runs = toy.n_runs
    close(A @ B, m @ B)
    close(A @ B, m @ B)
    assert toy.n_runs == n_runs + 2, "a fast call served in its place"
    text = str(A.explain(B))
    assert "solver toy" in text
    assert "runs" in text


def test_out_arrays_and_transposes_are_computed(toy: Toy) -> None:
    m = make(300, 200)
    A = asp.csr(m, copy=True)
    A.tune(columns=5, effort="measure", budget_s=60.0, transposed=True)
    B = np.random.default_rng(0).random((300, 5), dtype=np.float32)
    n_runs = toy.n_runs
    close(A.T @ B, m.T @ B)
    assert toy.n_runs > n_runs


@pytest.mark.parametrize("toy", [{"reads_live": False}, {"reads_live": True}], indirect=True)
def test_values_written_later_are_seen(toy: Toy) -> None:
    m = make(300, 300)
    A, B = tuned(m), dense(m, 8)
    for factor in (2.0, 3.0):
        A.data *= factor
        m.data *= factor
        close(A @ B, m @ B)
        close(A @ B, m @ B)


def test_a_structure_written_later_is_seen(toy: Toy) -> None:
    m = make(300, 300)
    A, B = tuned(m), dense(m, 8)
    m.indices[:] = m.indices[::-1].copy()
    A.indices[:] = m.indices
    close(A @ B, m @ B)


def test_plans_are_remembered_and_dropped_without_the_solver(toy: Toy, caplog: pytest.LogCaptureFixture) -> None:
    m = make(300, 300)
    tuned(m)
    cache.open_store().flush()
    n_prepared = toy.n_prepared
    again = plan_of(tuned(m))
    assert again.remembered
    assert again.choice == plan_of(tuned(m)).choice
    assert toy.n_prepared > n_prepared, "the operand is prepared in each process"
    A = asp.csr(m, copy=True)
    context = _context(A)
    asp.unregister_solver("toy")
    with caplog.at_level(logging.DEBUG, logger="autosparse"):
        assert plan_lookup.supported(context, again) is None
    without = plan_of(tuned(m))
    assert without.solver != "toy"
    assert "solvers" in without.not_remembered
    assert "toy 1 then" in without.not_remembered


def _context(A: Any) -> Any:
    from autosparse.dispatch.state import state_for

    rows = A._cell.rows or A._cell.validate()
    return context_of(A._cell, state_for(A._cell, rows, 8, False))


def test_a_solver_that_computes_something_else_is_refused(toy: Toy) -> None:
    toy.wrong_by = 1.0
    m = make(300, 300)
    A = tuned(m)
    plan = plan_of(A)
    assert plan.solver != "toy"
    failed = next(one.failed for one in plan.candidates if one.solver == "toy")
    assert "instead of" in str(failed)
    close(A @ dense(m, 8), m @ dense(m, 8))


def test_a_solver_that_breaks_later_costs_no_product(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    m = make(300, 300)
    A, B = tuned(m), dense(m, 8)

    def fail(self: Any, arguments: Any) -> bool:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(_Bound, "run", fail)
    with pytest.warns(asp.FallbackWarning, match="out of luck"):
        close(A @ B, m @ B)
    close(A @ B, m @ B)


@pytest.mark.parametrize("toy", [{"reason": "only on Sundays"}], indirect=True)
def test_a_refusal_is_explained(toy: Toy) -> None:
    A = tuned(make(300, 300))
    assert plan_of(A).solver != "toy"
    assert "only on Sundays" in str(A.explain(8))
    assert toy.n_prepared == 0


def test_deterministic_products_have_no_other_solvers(toy: Toy) -> None:
    with asp.options(deterministic=True, vendor=True):
        assert offered.solvers_of(asp.get_options(), "matmul") == []


@pytest.mark.parametrize("name", ["default", "csr", "scipy", "hash", "", "a,b", "x" * 65, 3])
def test_names_are_checked(name: Any) -> None:
    solver = Toy()
    solver.name = name
    with pytest.raises(ValueError, match=r"(?s)solver name=.*Hint: set name") as raised:
        asp.register_solver(solver)
    assert isinstance(raised.value, AutosparseError)


def test_names_are_unique(toy: Toy) -> None:
    with pytest.raises(ValueError, match=r"a name that no solver has, unlike .*toy"):
        asp.register_solver(Toy())


@pytest.mark.parametrize("operations", ["matmul", (), ("matmul", "einsum"), ("product",), 3, [["a"]]])
def test_operations_are_checked(operations: Any) -> None:
    solver: Any = Toy()
    solver.operations = operations
    with pytest.raises(ValueError, match=r"(?s)operations=.*Hint: .*sddmm") as raised:
        asp.register_solver(solver)
    assert isinstance(raised.value, AutosparseError)


def test_methods_are_checked() -> None:
    with pytest.raises(TypeError, match=r"(?s)no method applicable, knobs, cost, prepare.*Hint: .*docs/add") as raised:
        asp.register_solver(dataclasses.make_dataclass("Half", [("name", str, "half")])())
    assert isinstance(raised.value, AutosparseError)
    with pytest.raises(ValueError, match=r"(?s)no registered solver 'toy'.*Hint: ") as raised_at_once:
        asp.unregister_solver("toy")
    assert isinstance(raised_at_once.value, AutosparseError)


def test_names_of_other_solvers_are_reserved() -> None:
    from autosparse.tuning.solvers import dense_rows

    assert {dense_rows.NAME, *(one.name for one in offered.vendors())} <= set(registry.TAKEN)


def test_a_broken_entry_point_is_a_warning(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "broken-1.0.dist-info"
    place.mkdir()
    (place / "METADATA").write_text("Name: broken\nVersion: 1.0\n")
    (place / "entry_points.txt").write_text("[autosparse.solvers]\nbroken = no_such_module:solver\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "UNSEARCHED", [registry.ENTRY_POINTS])
    with pytest.warns(asp.FallbackWarning, match="broken was not loaded"):
        registry.load_solvers()
    assert not registry.UNSEARCHED


def test_vendors_compete_where_they_are_allowed() -> None:
    m = make(400, 400)
    with asp.options(vendor=True):
        A = asp.csr(m, copy=True)
        plan = A.tune(columns=8, effort="measure", budget_s=2.0)
    named = {one.solver: one for one in plan.candidates}
    assert named["scipy"].measured_s
    assert named["scipy"].failed is None
    assert named["mkl"].measured_s or named["mkl"].failed
    plain = asp.csr(m, copy=True).tune(columns=8, effort="measure", budget_s=2.0)
    assert not {"mkl", "scipy"} & {one.solver for one in plain.candidates}


@pytest.mark.skipif(not mkl.installed()[0], reason="mkl is absent or not for this system")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("n", [1, 8])
def test_mkl_computes_scipys_result(dtype: str, transposed: bool, n: int) -> None:
    m = make(300, 200).astype(dtype)
    with asp.options(vendor=True):
        A = asp.csr(m, copy=True)
        plan = A.tune(columns=n, effort="measure", budget_s=2.0, transposed=transposed)
    (found,) = (one for one in plan.candidates if one.solver == "mkl")
    assert found.failed is None
    assert found.measured_s
