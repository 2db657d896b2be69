"""A toy solver in one file for every operation: raced, planned, remembered, explained, and refused with a reason."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api

import autosparse as asp
from autosparse import cache
from autosparse.arrays.planning import sparse_products
from autosparse.config import child_environment
from autosparse.core.solver import Cost, SparsePair, SparseProductArguments, TensorOperand
from autosparse.ops import registry
from tests.tuning.forcing import slow_others

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")


class Toy:
    """Solver of every operation by NumPy and SciPy."""

    name = "toy"
    operations = registry.OPERATIONS
    reads_live = True

    def __init__(self) -> None:
        self.reason: str | None = None
        self.n_runs = self.n_prepared = 0
        self.wrong_by = 0.0

    def applicable(self, problem: Any) -> str | None:
        return self.reason

    def knobs(self, problem: Any) -> Iterator[Any]:
        yield ("for", problem.operation)

    def cost(self, problem: Any, knobs: Any) -> Cost:
        return Cost(setup_s=1e-6)

    def prepare(self, operand: Any, knobs: Any) -> Toy:
        assert knobs == ("for", operand.operation)
        self.n_prepared += 1
        return self

    def run(self, given: Any) -> bool:
        self.n_runs += 1
        if isinstance(given, SparsePair):
            C = matrix_of(given.left) @ matrix_of(given.right)
            given.C = C.indptr, C.indices, C.data + self.wrong_by  # type: ignore[attr-defined]
        elif isinstance(given, TensorOperand):
            factors: list[Any] = [*given.factors]  # type: ignore[attr-defined]
            factors.insert(given.mode, None)
            given.M[...] = mttkrp(given.coords, given.data, factors, given.shape, given.mode) + self.wrong_by  # type: ignore[attr-defined]
        elif hasattr(given, "S"):
            rows = np.repeat(np.arange(given.shape[0]), np.diff(given.indptr))
            given.S[...] = given.data * (given.X[rows] * given.Y[given.indices]).sum(axis=1) + self.wrong_by
        else:
            A = matrix_of(given)
            given.C[...] = (A.T if given.transposed else A) @ given.B + self.wrong_by
        return True


def matrix_of(one: Any) -> Any:
    return sps.csr_array((one.data, one.indices, one.indptr), shape=one.shape)


def mttkrp(coords: Any, values: Any, factors: Any, shape: Any, mode: int) -> Any:
    terms = values[:, None] * np.prod([one[at] for one, at in zip(factors, coords, strict=True) if one is not None], 0)
    made = np.zeros((shape[mode], terms.shape[1]), values.dtype)
    np.add.at(made, coords[mode], terms)
    return made


class Case:
    """One operation: its operands, a product by autosparse, the result by NumPy or SciPy, a race, an explanation."""

    def __init__(
        self, product: Callable[[], Any], wanted: Any, tune: Callable[[], Any], explain: Callable[[], Any]
    ) -> None:
        self.product, self.wanted, self.tune, self.explain = product, wanted, tune, explain


ASKED: Final = {"effort": "measure", "budget_s": 60.0}


def matrices() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    m = sps.random_array((120, 90), density=0.1, format="csr", dtype=np.float64, random_state=rng)
    return m, asp.csr(m, copy=True), rng


def a_vector() -> Case:
    m, A, rng = matrices()
    x = rng.random(90)
    return Case(lambda: A @ x, m @ x, lambda: A.tune(**ASKED), A.explain)


def a_product() -> Case:
    m, A, rng = matrices()
    B = rng.random((90, 4))
    return Case(lambda: A @ B, m @ B, lambda: A.tune(columns=4, **ASKED), lambda: A.explain(4))


def a_transposed_product() -> Case:
    m, A, rng = matrices()
    B = rng.random((120, 4))
    return Case(lambda: A.T @ B, m.T @ B, lambda: A.T.tune(columns=4, **ASKED), lambda: A.T.explain(4))


def a_sampled_product() -> Case:
    m, A, rng = matrices()
    X, Y = rng.random((120, 5)), rng.random((5, 90))
    return Case(
        lambda: asp.sddmm(A, X, Y).toarray(), m.toarray() * (X @ Y),
        lambda: A.tune("sddmm", columns=5, **ASKED), lambda: A.explain(5, operation="sddmm"),
    )  # fmt: skip


def a_tensor_product() -> Case:
    rng = np.random.default_rng(0)
    coords = np.stack([rng.integers(0, n, 300) for n in (20, 15, 10)])
    values, factors = rng.random(300), [rng.random((n, 4)) for n in (20, 15, 10)]
    T = asp.tensor(coords, values, (20, 15, 10))
    wanted = mttkrp(coords, values, [factors[0], None, factors[2]], (20, 15, 10), 1)
    return Case(
        lambda: asp.mttkrp(T, [factors[0], None, factors[2]], 1), wanted,
        lambda: T.tune(mode=1, columns=4, **ASKED), lambda: T.explain(4, mode=1),
    )  # fmt: skip


def a_sparse_product() -> Case:
    m, A, _ = matrices()
    other = m.T.tocsr()
    B = asp.csr(other, copy=True)

    def tune() -> Any:
        with asp.options(runs=100_000):
            for _ in range(2):
                A @ B
        return plan_of_pair(A, B)

    return Case(lambda: (A @ B).toarray(), (m @ other).toarray(), tune, lambda: A.explain(B))


def plan_of_pair(A: Any, B: Any) -> Any:
    from autosparse.arrays import sparse_product

    problem = sparse_product.problem(A, B)
    assert problem is not None
    return sparse_products.plan_for(problem, asp.get_options())


CASES: Final = {
    "vector": a_vector, "columns": a_product, "transposed": a_transposed_product, "sddmm": a_sampled_product,
    "mttkrp": a_tensor_product, "spgemm": a_sparse_product,
}  # fmt: skip


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Toy]:
    """Register a toy that wins each race, because its competitors are timed as slower."""
    one = Toy()
    asp.register_solver(one)
    sparse_products.forget()
    cache.open_store().forget(["plan"])
    slow_others(monkeypatch)
    measured_s = sparse_products.measured_s
    monkeypatch.setattr(
        sparse_products, "measured_s",
        lambda prepared, pair: measured_s(prepared, pair)
        * (0.01 if prepared is not None and not prepared.is_built_in else 1.0),
    )  # fmt: skip
    yield one
    asp.unregister_solver("toy")
    cache.open_store().forget(["plan"])


@pytest.mark.parametrize("name", CASES)
def test_a_solver_is_raced_planned_explained_and_serves(toy: Toy, name: str) -> None:
    case = CASES[name]()
    np.testing.assert_allclose(case.product(), case.wanted)
    plan = case.tune()
    named = {one.solver: one for one in plan.candidates}
    assert named["toy"].measured_s is not None
    assert named["default"].measured_s is not None
    assert plan.solver == "toy"
    n_runs = toy.n_runs
    np.testing.assert_allclose(case.product(), case.wanted)
    assert toy.n_runs == n_runs + 1
    text = str(case.explain())
    assert "solver toy" in text
    assert any("toy" in line and line.endswith("runs") for line in text.splitlines())


@pytest.mark.parametrize("name", CASES)
def test_a_solver_is_refused_with_its_reason(toy: Toy, name: str) -> None:
    toy.reason = "only on Sundays"
    case = CASES[name]()
    plan = case.tune()
    assert plan.solver != "toy"
    assert next(one.failed for one in plan.candidates if one.solver == "toy") == "only on Sundays"
    assert "only on Sundays" in str(case.explain())
    np.testing.assert_allclose(case.product(), case.wanted)
    assert not toy.n_prepared


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_result_is_no_candidate(toy: Toy, name: str) -> None:
    toy.wrong_by = 1.0
    case = CASES[name]()
    plan = case.tune()
    assert plan.solver != "toy"
    assert "instead of" in str(next(one.failed for one in plan.candidates if one.solver == "toy"))
    np.testing.assert_allclose(case.product(), case.wanted)


@pytest.mark.parametrize("name", CASES)
def test_a_solver_for_other_operations_takes_no_part(toy: Toy, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operation = "matmul" if name in ("vector", "columns", "transposed") else name
    others = tuple(one for one in registry.OPERATIONS if one != operation)
    monkeypatch.setattr(Toy, "operations", others)
    plan = CASES[name]().tune()
    assert plan is None or "toy" not in {one.solver for one in plan.candidates}


CHILD: Final = """
import json, sys
sys.path.insert(0, sys.argv[1])
import autosparse as asp
from tests.tuning import test_solver_operations as module
one = module.Toy()
asp.register_solver(one)
found = {}
for name, case in module.CASES.items():
    plan = case().tune()
    found[name] = plan.solver, plan.remembered or plan.not_remembered  # the reason shows where this fails
print(json.dumps(found))
"""


def test_plans_are_remembered_in_another_process(toy: Toy, tmp_path: Any, request: pytest.FixtureRequest) -> None:
    with asp.options(cache_dir=tmp_path):
        for case in CASES.values():
            assert case().tune().solver == "toy"
        cache.open_store().flush()
        cache.close_stores()
    environment = child_environment(AUTOSPARSE_CACHE_DIR=str(tmp_path))
    command = [sys.executable, "-c", CHILD, str(request.config.rootpath)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found == {name: ["toy", True] for name in CASES}


@pytest.mark.parametrize("name", ["columns", "sddmm", "mttkrp", "spgemm"])
def test_einsums_of_these_products_use_the_solver(toy: Toy, name: str) -> None:
    m, A, rng = matrices()
    B, X, Y = rng.random((90, 4)), rng.random((120, 5)), rng.random((5, 90))
    products: dict[str, tuple[str, tuple[Any, ...], Any, Callable[[], Any]]] = {
        "columns": ("ik,kj->ij", (A, B), m @ B, lambda: A.tune(columns=4, **ASKED)),
        "sddmm": ("ij,ik,kj->ij", (A, X, Y), m.toarray() * (X @ Y), lambda: A.tune("sddmm", columns=5, **ASKED)),
    }
    if name == "mttkrp":
        coords = np.stack([rng.integers(0, n, 300) for n in (20, 15, 10)])
        values, factors = rng.random(300), [rng.random((n, 4)) for n in (20, 15, 10)]
        T = asp.tensor(coords, values, (20, 15, 10))
        wanted = mttkrp(coords, values, [None, *factors[1:]], (20, 15, 10), 0)
        products[name] = "ijk,jr,kr->ir", (T, *factors[1:]), wanted, lambda: T.tune(columns=4, **ASKED)
    if name == "spgemm":
        B = asp.csr(m.T.tocsr(), copy=True)

        def tune() -> None:
            with asp.options(runs=100_000):
                for _ in range(2):
                    A @ B

        products[name] = "ik,kj->ij", (A, B), (m @ m.T).toarray(), tune
    text, operands, wanted, tune_now = products[name]
    tune_now()
    n_runs = toy.n_runs
    made = asp.einsum(text, *operands)
    np.testing.assert_allclose(made.toarray() if sps.issparse(made) else made, wanted)
    assert toy.n_runs == n_runs + 1


def test_invalid_rows_of_a_sparse_product_are_no_result(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    case = a_sparse_product()
    assert case.tune().solver == "toy"

    def out_of_bounds(self: Toy, given: Any) -> bool:
        C = matrix_of(given.left) @ matrix_of(given.right)
        given.C = C.indptr, C.indices + 1000, C.data
        return True

    monkeypatch.setattr(Toy, "run", out_of_bounds)
    with pytest.warns(asp.FallbackWarning, match="no valid structure"):
        np.testing.assert_allclose(case.product(), case.wanted)
    np.testing.assert_allclose(case.product(), case.wanted)


def test_row_solvers_are_solvers_and_agree_to_the_last_bit() -> None:
    from autosparse._native.kernels.spgemm import SOLVERS, CompressedRows
    from autosparse._native.kernels.spgemm_solvers import ROW_SOLVERS

    from autosparse.arrays import sparse_product

    m, A, _ = matrices()
    B = asp.csr(m.T.tocsr(), copy=True)
    problem = sparse_product.problem(A, B)
    assert problem is not None
    assert [one.name for one in ROW_SOLVERS] == [*SOLVERS]
    assert {*SOLVERS} <= {*registry.TAKEN}
    pair = sparse_products._pair(*(CompressedRows(one.indptr, one.indices, one.data) for one in (A, B)), problem)
    wanted = A @ B
    for one in ROW_SOLVERS:
        assert all(callable(getattr(one, method)) for method in registry.METHODS)
        assert one.applicable(problem) is None
        assert one.cost(problem, *one.knobs(problem)).seconds
        arguments = SparseProductArguments(
            operation=pair.operation, left=pair.left, right=pair.right, n_threads=pair.n_threads
        )
        assert one.prepare(pair, None).run(arguments)
        assert arguments.C is not None
        for mine, theirs in zip(arguments.C, (wanted.indptr, wanted.indices, wanted.data), strict=True):
            np.testing.assert_array_equal(mine, theirs)
