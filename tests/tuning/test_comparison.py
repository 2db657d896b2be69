"""Tests that no kernel serves before its result was compared with the default kernel's."""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api
from autosparse._native.kernels.precompiled import ready_kernel
from autosparse.tuner.search import search

import autosparse as asp
from autosparse import _native, cache
from autosparse.core.formats import Format
from autosparse.core.plan import Plan
from autosparse.core.solver import choice_of
from autosparse.dispatch.state import state_for
from autosparse.notices import FallbackWarning
from autosparse.operands.native_rows import PART_BYTES
from autosparse.tuning import planner
from autosparse.tuning.setup import context_of
from autosparse.tuning.solvers import dense_rows
from autosparse.tuning.trials import comparison, specs
from autosparse.tuning.trials.matmul import turned_rows
from autosparse.tuning.trials.operand_adapter import MAX_ENTRY, adapter_of
from tests.tuning.compilers import WRONG_MTTKRP, WRONG_PRODUCTS, WRONG_SAMPLES, liar, n_compilations
from tests.tuning.forcing import ENOUGH_S, FORMATS, close, dense, force, make, schedule_of, state_of, until
from tests.tuning.test_early_slices import turned_state

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")


def context_for(operand: Any, columns: int, *, operation: str = "matmul", transposed: bool = False) -> Any:
    rows = operand.rows or operand.validate() if operation != "mttkrp" else operand
    state = state_for(operand, rows, columns, transposed, operation=operation)
    state.n_dense_cols = columns
    return context_of(operand, state)


def is_made_by_us(context: Any, plan: Plan) -> bool:
    """Return whether the plan's kernel needed no compiler: it is the default or a kernel of the runtime."""
    return plan.schedule is None or ready_kernel(specs.spec_of(context.problem, plan.schedule)) is not None


@pytest.mark.parametrize(
    ("lie", "columns"), [*((lie, 1) for lie in WRONG_PRODUCTS), ("last column", 5), ("last row", 32)]
)
def test_a_wrong_kernel_is_not_adopted(tmp_path: Path, lie: str, columns: int) -> None:
    """Check `planner.adopt`; plans from the cache, candidates and incumbents all pass through `KernelTrial.pack`."""
    plain = make(61, 300)
    A = asp.csr(plain, copy=True)
    with asp.options(compiler=liar(tmp_path, WRONG_PRODUCTS[lie])), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in ("csr", "blocks"):
            context = context_for(A._cell, columns)
            known = Plan(choice=choice_of(schedule_of(name, columns)), why="remembered", effort="full", measured_s=0.5)
            decision = planner.adopt(context, known)
            assert is_made_by_us(context, decision.plan), name
            assert context.packed_copies.n_bytes == 0, "a packed copy that nobody reads"
    assert [one.category for one in caught] == [FallbackWarning]
    assert "compared" in str(caught[0].message)
    assert n_compilations(tmp_path) == 2


@pytest.mark.parametrize("code", "fdFD")
def test_bounds_take_no_copy_of_the_values(code: str) -> None:
    m = sps.csr_array(np.random.default_rng(0).standard_normal((300, 500)).astype(code))
    A = asp.csr(m)
    context = context_for(A._cell, 1)
    tracemalloc.start()
    try:
        (part,) = adapter_of("matmul").trustworthy(context.problem, A._cell, 1, 1, None).parts
        found, n_found = part.bounds()
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < A.data.nbytes / 2
    assert found.dtype == m.dtype
    np.testing.assert_allclose(found.real, abs(m).sum(axis=1) * MAX_ENTRY, rtol=1e-5)
    np.testing.assert_array_equal(n_found, np.diff(m.indptr))


@pytest.mark.parametrize(("is_timed", "n_vectors"), [(False, 2), (True, 0)])
def test_a_comparison_holds_the_default_result_in_parts(is_timed: bool, n_vectors: int) -> None:
    """Operands and result of a timed call take the place of new ones; the default result takes no vector."""
    n = 1 << 19
    A = asp.csr(sps.eye_array(n, format="csr"))
    context = context_for(A._cell, 1)
    if is_timed:
        context._make_calls(A._cell)
    tracemalloc.start()
    try:
        call = (context.problem, A._cell, lambda call: call.by_default(1, 0) == 0, None, 1)
        assert comparison.difference(*call, lent=context.lent()) is None
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < n_vectors * 8 * n + 2 * PART_BYTES


@contextmanager
def at_most(n_bytes: float) -> Iterator[None]:
    """Check that the block allocates at most `n_bytes` at a time."""
    tracemalloc.start()
    try:
        yield
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < n_bytes


@pytest.mark.parametrize(("is_turned", "most"), [(False, (0.7, 2.0, 1.6)), (True, (0.1, 0.1, 0.2))])
def test_trials_read_the_rows_of_a_transpose_that_products_read(
    monkeypatch: pytest.MonkeyPatch, is_turned: bool, most: tuple[float, float, float]
) -> None:
    """Sizing, packing and comparing a kernel of Mᵀ takes at most `most` times the bytes of the values."""
    n, fmt = 20_000, Format.parse("i1:U,k1:D,i0:U | i=8 | bits=16")
    offsets = range(-10, 11)
    A = asp.csr(
        sps.diags_array([np.full(n, float(at) or 0.5) for at in offsets], offsets=offsets, shape=(n, n)).tocsr()
    )
    if is_turned:
        turned_state(A, monkeypatch)
    context, adapter = context_for(A._cell, 1, transposed=True), adapter_of("matmul")
    assert (turned_rows(A._cell) is not None) == is_turned
    with at_most(most[0] * 8 * A.nnz):
        needed_bytes = adapter.packed_bytes(context.problem, fmt, A._cell)
    with at_most(needed_bytes + most[1] * 8 * A.nnz):
        packed = adapter.pack(context.problem, A._cell, fmt)
    assert packed.nbytes == needed_bytes
    wanted = _native.pack(A._cell.pattern, A._cell.data, fmt, transposed=True)
    for mine, other in zip(packed.arrays, wanted.arrays, strict=True):
        np.testing.assert_array_equal(mine, other)
    with at_most(most[2] * 8 * A.nnz):  # three vectors, and magnitudes
        call = (context.problem, A._cell, lambda call: call.by_default(1, 0) == 0, None, 1)
        assert comparison.difference(*call) is None


@pytest.mark.parametrize("transposed", [False, True])
def test_candidates_of_a_matrix_without_dense_rows_take_no_array_of_its_size(transposed: bool) -> None:
    A = asp.csr(sps.eye_array(1 << 17, format="csr"), copy=True)
    context = context_for(A._cell, 1, transposed=transposed)
    with at_most(0.1 * 8 * A.nnz):
        assert dense_rows.offered(context.problem, context.options) == ((), ())


def test_a_difference_in_a_later_part_names_its_row() -> None:
    n = 300_000
    A = asp.csr(sps.eye_array(n, format="csr"))

    def compute(call: Any) -> bool:
        runtime_api.raise_for(call.by_default(1, 0))
        call.kept[-1][n - 5] *= 2.0
        return True

    text = comparison.difference(context_for(A._cell, 1).problem, A._cell, compute, None, 1)
    assert f"row {n - 5}, column 0" in str(text)


def test_parts_without_a_known_row_do_not_reject_a_kernel_that_other_parts_confirm() -> None:
    n = 300_000
    A = asp.csr(sps.eye_array(n, format="csr"))
    A.data[: n // 2] = np.inf
    call = (context_for(A._cell, 1).problem, A._cell, lambda call: call.by_default(1, 0) == 0, None, 1)
    assert comparison.difference(*call) is None
    A.data[:] = np.inf
    assert comparison.difference(*call) == comparison.UNKNOWABLE


@pytest.mark.parametrize("code", "fdFD")
def test_results_that_agree_need_no_bounds(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds take two arrays with an element per row, and ten times as long as the comparison."""
    plain = make(300, 300, dtype=code)
    monkeypatch.setattr(comparison, "first_difference", lambda *given, **how: "bounds were computed")
    A = asp.csr(plain)
    trial = force(A, schedule_of("blocks", 1), columns=1)
    assert trial.ready
    close(A @ np.ones(300, code), plain @ np.ones(300, code))


@pytest.mark.parametrize("effort", ["estimate", "measure"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("columns", [1, 16])
def test_a_kernel_that_writes_nothing_wins_no_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, effort: str, transposed: bool, columns: int
) -> None:
    monkeypatch.setattr(search, "is_accepted", lambda *given, **more: True)
    plain = make(300, 300)
    A = asp.csr(plain, copy=True)
    M, wanted = (A.T, plain.T) if transposed else (A, plain)
    B = dense(wanted, columns if columns > 1 else 0)
    with asp.options(compiler=liar(tmp_path, WRONG_PRODUCTS["nothing"])), warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        plan = M.tune(columns=columns, effort=effort, budget_s=1)
        assert is_made_by_us(context_for(A._cell, columns, transposed=transposed), plan)
        for _ in range(3):
            close(M @ B, wanted @ B)


def test_a_kernel_that_writes_nothing_computes_no_product_while_tuning_goes_on(tmp_path: Path, paid: None) -> None:
    plain = make(400, 400)
    A, B = asp.csr(plain, copy=True), dense(plain, 8)
    wanted = plain @ B
    compiler = liar(tmp_path, WRONG_PRODUCTS["nothing"])
    with asp.options(compiler=compiler, overhead=1.0, runs=10**12, budget_s=1000), warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        state = state_of(A, 8)
        for _ in until(lambda: state.live_tuner is not None and state.live_tuner.session.is_finished):
            close(A @ B, wanted)
        assert n_compilations(tmp_path) > 0
        assert state.live_tuner.failure is None


@pytest.mark.parametrize("lie", WRONG_SAMPLES)
def test_a_wrong_kernel_samples_no_product(tmp_path: Path, lie: str) -> None:
    plain = make(200, 300, dtype="float64")
    A = asp.csr(plain, copy=True)
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((200, 16)), rng.standard_normal((16, 300))
    with asp.options(compiler=liar(tmp_path, WRONG_SAMPLES[lie])), warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        plan = A.tune("sddmm", columns=16, effort="measure", budget_s=ENOUGH_S)
        assert is_made_by_us(context_for(A._cell, 16, operation="sddmm"), plan)
        got = asp.sddmm(A, X, Y)
    np.testing.assert_allclose(got.toarray(), (plain.multiply(X @ Y)).toarray(), rtol=1e-12, atol=1e-12)


def test_a_wrong_kernel_computes_no_product_of_torch_tensors(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    import autosparse.torch as ast

    plain = make(300, 300)
    A = ast.csr(torch.sparse_csr_tensor(plain.indptr, plain.indices, torch.from_numpy(plain.data), plain.shape))
    B = dense(plain, 16)
    with asp.options(compiler=liar(tmp_path, WRONG_PRODUCTS["nothing"])), warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        plan = A.tune(columns=16, effort="measure", budget_s=ENOUGH_S)
        assert n_compilations(tmp_path) > 0
        assert is_made_by_us(context_for(asp.csr(plain)._cell, 16), plan)
        close((A @ torch.from_numpy(B)).numpy(), plain @ B)


@pytest.mark.parametrize("lie", WRONG_MTTKRP)
def test_a_wrong_kernel_computes_no_mttkrp(tmp_path: Path, lie: str) -> None:
    rng = np.random.default_rng(0)
    shape = (40, 30, 20)
    coords = np.stack([rng.integers(0, n, 2000) for n in shape])
    T = asp.tensor(coords, rng.standard_normal(2000), shape=shape)
    factors = [rng.standard_normal((n, 8)) for n in shape]
    with asp.options(compiler=liar(tmp_path, WRONG_MTTKRP[lie])), warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        untuned = asp.mttkrp(T, factors, mode=0)
        plan = T.tune("mttkrp", columns=8, mode=0, effort="measure", budget_s=ENOUGH_S)
        got = asp.mttkrp(T, factors, mode=0)
    assert plan.schedule is None, lie
    np.testing.assert_allclose(got, untuned, rtol=1e-12, atol=1e-12)


VALUES = {
    "subnormal": lambda rng, n: rng.uniform(-1, 1, n) * 1e-40,
    "tiny and huge": lambda rng, n: rng.standard_normal(n) * 10.0 ** rng.integers(-30, 30, n),
    "cancelling": lambda rng, n: rng.choice([1e30, -1e30, 1.0], n),
    "overflowing": lambda rng, n: np.where(rng.random(n) < 0.01, 3e38, rng.standard_normal(n)),
    "whole": lambda rng, n: rng.integers(-3, 4, n).astype(float),
}


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("name", FORMATS)
def test_a_correct_kernel_is_accepted_for_any_values(name: str, values: str) -> None:
    columns = 1 if name in ("slices", "diagonals") else 5
    plain = make(200, 3000, seed=3)
    plain.data[:] = VALUES[values](np.random.default_rng(0), plain.nnz)
    A = asp.csr(plain, copy=True)
    if values == "overflowing" and name not in ("csr", "panels"):
        return  # kernels with padding are not used for results that are not finite
    force(A, schedule_of(name, columns), columns=columns)  # asserts that there is a trial


@pytest.mark.parametrize("name", ["csr", "blocks"])
def test_values_that_are_not_finite_leave_the_other_rows_to_compare(tmp_path: Path, name: str) -> None:
    plain = make(200, 3000, seed=3)
    plain.data[::97] = np.inf
    A, known = asp.csr(plain, copy=True), Plan(choice=choice_of(schedule_of(name, 5)), why="remembered", effort="full")
    honest = planner.adopt(context_for(A._cell, 5), known)
    if name == "csr":  # kernels with padding are not used for results that are not finite
        assert honest.trial is not None
    with asp.options(compiler=liar(tmp_path, WRONG_PRODUCTS["zeros"])), warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        assert planner.adopt(context_for(A._cell, 5), known).trial is None
    plain.data[:] = np.nan
    assert planner.adopt(context_for(asp.csr(plain, copy=True)._cell, 5), known).trial is None


def test_a_kernel_is_compared_once_on_an_operand(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    original = comparison.difference

    def counted(*given: Any, **how: Any) -> str | None:
        compared.append(given)
        return original(*given, **how)

    monkeypatch.setattr(comparison, "difference", counted)
    plain = make(200, 3000, seed=3)
    A, B = asp.csr(plain, copy=True), dense(plain, 5)
    for n_kernels, name in enumerate(("csr", "blocks", "columns"), start=1):
        for _ in range(3):
            trial = force(A, schedule_of(name, 5), columns=5)
            trial.drop()
            trial.pack()
            for _ in range(5):
                close(A @ B, plain @ B)
            A.data *= 1.0 + n_kernels
            plain.data *= 1.0 + n_kernels
        assert len(compared) == n_kernels


def test_wrong_kernels_are_not_rebuilt(tmp_path: Path) -> None:
    known = Plan(choice=choice_of(schedule_of("csr", 5)), why="remembered", effort="full")
    with asp.options(compiler=liar(tmp_path, WRONG_PRODUCTS["zeros"])), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for seed in range(3):
            A = asp.csr(make(200, 300, seed=seed), copy=True)
            decision = planner.adopt(context_for(A._cell, 5), known)
            assert decision.trial is None
            assert "something else" in decision.plan.why
        record = cache.open_store().load("failure", context_for(A._cell, 5).spec(known.schedule).key())
    assert n_compilations(tmp_path) == 1
    assert "something else" in record["reason"]
    assert len(caught) == 1, "one warning"
