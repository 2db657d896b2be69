"""Tests of products while tuning goes on: the answers stay the same, whatever happens to the tuning."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api
from autosparse.tuner.learned import training_domain
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import autosparse as asp
from autosparse import cache
from autosparse.config import get_options
from autosparse.core.target import Target
from autosparse.dispatch import executor
from autosparse.errors import OptionError
from autosparse.isa import isas_of
from autosparse.tuning import amortization, planner
from tests.covering import in_turn
from tests.tuning.forcing import ENOUGH_S, FORMATS, WIDTHS, close, dense, force, make, schedule_of, state_of, until

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")


@pytest.mark.parametrize(
    ("name", "columns"), [(name, columns) for name in FORMATS for columns in (1, 5, 32) if columns in WIDTHS[name]]
)
def test_any_layout_of_b_gives_scipys_answer_through_any_kernel(name: str, columns: int) -> None:
    plain = make()
    A = asp.csr(plain)
    force(A, schedule_of(name, columns), columns=columns)
    B = dense(plain, columns)
    layouts = (
        B,
        np.asfortranarray(B),
        np.repeat(B, 2, axis=0)[::2],
        B[::-1],
        np.concatenate([B, B], axis=1)[:, :columns],
        np.frombuffer(b"x" + B.tobytes(), np.uint8)[1:].view(B.dtype).reshape(B.shape),  # unaligned
    )
    for layout in layouts:
        close(A @ layout, plain @ layout)
    if columns == 1:
        for layout in layouts:
            close(A @ layout[:, 0], plain @ layout[:, 0])
    assert state_of(A, columns).n_tuned > 0


@pytest.mark.parametrize("name", [name for name in FORMATS if 1 in WIDTHS[name]])
def test_a_product_without_columns_writes_nothing_where_vectors_have_a_kernel(name: str) -> None:
    plain = make()
    A = asp.csr(plain)
    force(A, schedule_of(name, 1))
    memory = np.full((A.shape[0], 2), 7.0, A.dtype)
    for _ in range(3):
        asp.matmul(A, np.empty((A.shape[1], 0), A.dtype), out=memory[:, :0])
    np.testing.assert_array_equal(memory, 7)
    assert (A @ np.empty((A.shape[1], 0), A.dtype)).shape == (A.shape[0], 0)
    close(A @ dense(plain, 1)[:, 0], plain @ dense(plain, 1)[:, 0])


def test_sampled_and_tensor_products_without_columns() -> None:
    A = asp.csr(make())
    values = np.full(A.nnz, 7.0, A.dtype)
    for columns in (1, 0):
        asp.sddmm(A, np.ones((A.shape[0], columns), A.dtype), np.ones((columns, A.shape[1]), A.dtype), out=values)
    np.testing.assert_array_equal(values, 0)
    T = asp.tensor(np.arange(12).reshape(3, 4) % 3, np.ones(4), (3, 3, 3))
    for columns in (1, 0):
        assert asp.mttkrp(T, [np.ones((3, columns))] * 3, 0).shape == (3, columns)


@pytest.mark.parametrize("name", FORMATS)
def test_tuned_products_see_every_kind_of_write(name: str) -> None:
    plain = make()
    A = asp.csr(plain, copy=True)
    columns = 8 if 8 in WIDTHS[name] else 1
    B = dense(plain, columns)
    force(A, schedule_of(name, columns), columns=columns)
    held = A.data

    def check() -> None:
        for _ in range(12):  # before and after the packed copy is renewed
            close(A @ B, A.to_scipy() @ B)

    check()
    for step in range(4):
        held[step] += 3.0
        check()
    A.data *= 2.0
    check()
    A.data = A.data[::-1].copy()
    check()
    A[3, 7] = 11.0
    check()
    A.sum_duplicates()
    A.indices[:2] = A.indices[:2][::-1].copy()
    check()


@pytest.mark.parametrize("name", ["blocks", "columns"])
@pytest.mark.parametrize("poison", [np.inf, -np.inf, np.nan])
def test_padding_is_never_multiplied_by_non_finite_values(name: str, poison: float) -> None:
    plain = make()
    A = asp.csr(plain)
    force(A, schedule_of(name, 8), columns=8)
    B = dense(plain, 8)
    B[17, 3] = poison
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(A @ B, plain @ B, rtol=1e-4, atol=1e-4)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6),
    columns=st.sampled_from([0, 1, 3, 16, 40]),
    dtype=st.sampled_from(["float32", "float64", "complex64"]),
    fmt=st.sampled_from(["csr", "csc"]),
    n_calls=st.integers(1, 60),
)
def test_products_equal_scipys_while_tuning_goes_on(
    seed: int, columns: int, dtype: str, fmt: str, n_calls: int
) -> None:
    plain = make(200, 3000, seed=seed, dtype=dtype, fmt=fmt)
    A = (asp.csr if fmt == "csr" else asp.csc)(plain)
    B = dense(plain, columns)
    wanted = plain @ B
    with asp.options(overhead=1.0, runs=10**12):
        for _ in range(n_calls):
            close(A @ B, wanted)


def test_background_tuning_finishes_and_its_plan_is_cached(paid: None) -> None:
    plain = make(2000, 4000)
    A, B = asp.csr(plain, copy=True), dense(plain, 16)
    wanted = plain @ B
    with asp.options(overhead=1.0, runs=10**12, budget_s=1000):
        state = state_of(A, 16)
        for _ in until(lambda: state.live_tuner is not None and state.live_tuner.session.is_finished):
            close(A @ B, wanted)
        assert state.live_tuner.failure is None
        plan = executor.current_plan(A._cell, columns=16)
        assert plan.effort == "measure"
        assert [one for one in plan.candidates if one.measured_s is not None]
        other = asp.csr(plain, copy=True)
        for _ in until(lambda: executor.current_plan(other._cell, columns=16).remembered):
            close(other @ B, wanted)


@in_turn("columns", "transposed", first=[1, 16], second=[False, True])
def test_tuned_plan_computes_the_same_and_is_remembered(columns: int, transposed: bool) -> None:
    plain = make(900, 1100)
    A = asp.csr(plain, copy=True)
    plan = A.tune(columns=columns, budget_s=60.0, transposed=transposed, effort="measure")
    assert not plan.remembered
    left = A.T if transposed else A
    reference = plain.T if transposed else plain
    for seed in range(3):
        B = dense(reference, columns, seed=seed)
        close(left @ B, reference @ B)
    cache.close_stores()  # as in another process, as far as records are concerned
    again = asp.csr(plain, copy=True).tune(columns=columns, transposed=transposed, effort="measure")
    assert again.remembered, again.not_remembered
    assert again.schedule == plan.schedule
    weaker = asp.csr(plain, copy=True).tune(columns=columns, transposed=transposed, effort="estimate")
    assert weaker.remembered  # a plan of higher effort satisfies a weaker request


def test_runs_lower_the_effort_of_the_options_and_none_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    efforts = []
    search = planner.search_for
    monkeypatch.setattr(
        planner, "search_for", lambda context, **how: efforts.append(how["effort"]) or search(context, **how)
    )
    monkeypatch.setattr(amortization, "pick", lambda offered, **_: offered[0])  # an estimate pays best
    with asp.options(effort="measure"):
        asp.csr(make(), copy=True).tune(runs=10**6, budget_s=0.05)
        asp.csr(make(seed=1), copy=True).tune(runs=10**6, budget_s=0.05, effort="measure")
    assert efforts == ["estimate", "measure"]


def test_no_budget_no_runs_no_effort_is_the_default_kernel() -> None:
    A = asp.csr(make())
    assert A.tune(budget_s=0).is_default
    assert "does not pay" in A.tune(runs=1).why
    assert A.tune(effort="off").is_default
    with asp.options(effort="off"):
        for _ in range(50):
            A @ dense(A, 1)
        assert state_of(A).live_tuner is None


def test_no_extra_memory_is_taken_where_none_is_allowed() -> None:
    plain = make(500, 500)
    A = asp.csr(plain, copy=True)
    with asp.options(extra_memory=0):
        plan = A.tune(columns=16, budget_s=3)
        assert plan.packed_bytes == 0
        assert A._cell.dispatcher.packed_copies.n_bytes == 0
        close(A @ dense(A, 16), plain @ dense(A, 16))


def test_packed_copies_stay_within_the_bound_and_are_reported() -> None:
    plain = make(500, 500)
    A = asp.csr(plain, copy=True)
    with asp.options(extra_memory=1.5):
        for columns in (1, 16, 200):
            A.tune(columns=columns, budget_s=0.5)
            report = executor.report(A._cell, columns)
            assert report.packed_bytes == A._cell.dispatcher.packed_copies.n_bytes <= report.packed_limit_bytes
            assert report.packed_limit_bytes == int(1.5 * report.problem.pattern.csr_bytes(4))
            assert report.plan.why


# -- determinism ------------------------------------------------------------------------------------------------


@in_turn("columns", "transposed", first=[0, 3, 16, 64], second=[False, True])
def test_deterministic_products_are_bitwise_the_same(columns: int, transposed: bool) -> None:
    """Vary the number of threads, the run and the overhead, with a tuned plan in the cache."""
    plain = make(3000, 3000)
    A = asp.csr(plain, copy=True)
    left = A.T if transposed else A
    B = dense(left, columns)
    left.tune(columns=max(1, columns), budget_s=1)
    results = []
    for threads in (1, 2, 3, None):
        for overhead in (0.0, 1.0):
            with asp.options(deterministic=True, threads=threads, overhead=overhead, runs=10**6):
                assert left.tune(columns=max(1, columns)).is_default
                results += [left @ B for _ in range(5)]
    assert all(np.array_equal(one, results[0]) for one in results)
    close(results[0], (plain.T if transposed else plain) @ B)


# -- arguments and reports --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hints", "says"),
    [
        ({"columns": 0}, "columns"),
        ({"columns": 2.5}, "columns"),
        ({"columns": True}, "columns"),
        ({"operation": "spgemm!"}, "operation"),
        ({"effort": "much"}, "effort"),
        ({"runs": 0}, "runs"),
        ({"budget_s": -1}, "budget_s"),
        ({"dtype": "int8"}, "dtype"),
        ({"dtype": "nonsense"}, "dtype"),
        ({"columns": 10**5000}, "columns"),
        ({"operation": ["matmul"]}, "operation"),
        ({"operation": None}, "operation"),
        ({"runs": math.inf}, "runs"),
        ({"budget_s": math.nan}, "budget_s"),
    ],
)
def test_bad_arguments_name_the_argument_and_its_domain(hints: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionError, match=says) as caught:
        asp.csr(make()).tune(**hints)
    assert isinstance(caught.value, ValueError)
    assert "must be" in str(caught.value)


def test_matrix_of_integers_is_left_to_the_kernel_of_pairs() -> None:
    A = asp.csr(make(dtype="float64").astype(np.int32))
    assert "dtype pairs" in A.tune().why
    assert "dtype pairs" in executor.report(A._cell, 3).plan.why


def test_report_counts_and_explains_without_side_effects() -> None:
    A = asp.csr(make())
    B = dense(A, 3)
    before = executor.report(A._cell, B)
    assert before.n_calls == 0
    assert before.verdict
    for _ in range(5):
        A @ B
    after = executor.report(A._cell, 3)
    assert after.n_calls == 5
    assert after.product_s > 0
    assert after.prices_s["compile"] > 0
    assert executor.report(A._cell, 4).n_calls == 5  # widths of one bucket share their state
    with pytest.raises(ValueError, match="rows"):
        executor.report(A._cell, B[:-1])


def test_changed_structure_forgets_what_was_found() -> None:
    plain = make(100, 100)
    A, B = asp.csr(plain, copy=True), dense(plain, 8)
    force(A, schedule_of("blocks", 8), columns=8)
    A @ B
    A[0, :] = 1.0
    for _ in range(3):
        close(A @ B, A.to_scipy() @ B)
    assert state_of(A, 8).serving is None


def test_estimate_chooses_without_running_anything(tmp_path) -> None:
    """The statistics model must accept its choice for dense 4 x 4 blocks and refuse one for a random pattern.

    An empty folder of models keeps learned models out. With an instruction set that the model was not trained with, the
    plan must be the default and say why.
    """
    with asp.options(models=str(tmp_path), threads=2):
        check_estimate()


def check_estimate() -> None:
    blocks = sps.csr_array(
        sps.kron(sps.random_array((300, 300), density=0.05, random_state=np.random.default_rng(0)), np.ones((4, 4)))
    )
    plain = sps.csr_array(blocks.astype(np.float32))
    A = asp.csr(plain, copy=True)
    plan = A.tune(columns=32, effort="estimate", budget_s=ENOUGH_S)
    isa = Target.host().held_to(get_options().isa).isa
    assert plan.is_default == (isa not in training_domain.STATISTICS.isas)
    assert (f"the model was not trained with {isa}" in plan.why) == plan.is_default
    assert plan.effort == "estimate"
    assert plan.measured_s is None
    assert all(one.measured_s is None for one in plan.candidates)
    close(A @ dense(A, 32), plain @ dense(A, 32))
    assert asp.csr(make(400, 400), copy=True).tune(columns=32, effort="estimate").is_default


def test_packed_copies_go_with_the_matrix_and_not_with_the_garbage_collector() -> None:
    plain = make(100, 100)
    A = asp.csr(plain, copy=True)
    trial = force(A, schedule_of("blocks", 8), columns=8)
    A @ dense(A, 8)
    packed_copy = weakref.ref(trial._bound)
    del trial
    gc.disable()
    try:
        del A
        assert packed_copy() is None
    finally:
        gc.enable()


def test_first_product_imports_nothing_of_tuning() -> None:
    """Tuner, cache and compiler driver must be imported only once products have paid for them."""
    code = (
        "import sys, numpy as np, scipy.sparse as sps, autosparse as asp\n"
        "import pickle; A = pickle.loads(pickle.dumps(asp.csr(sps.eye_array(50, format='csr'))))\n"
        "from autosparse.dispatch import state; state.FIRST_GLANCE_S = 1e6  # products on a busy machine take long\n"
        "A @ np.ones(50); A @ np.ones((50, 3)); A.T @ np.ones(50)\n"
        "heavy = ('autosparse.tuner', 'autosparse.cache', 'autosparse.tuning', 'autosparse._native.kernels.backend',\n"
        "         'autosparse.ops.table', 'autosparse.core.pattern')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", done.stdout


def test_the_option_isa_holds_for_the_default_kernels_too() -> None:
    A = asp.csr(make(300, 300), copy=True)
    B = dense(A, 8)
    best = runtime_api.lib.asp_best_isa()
    for isa, level in (*((row.name, min(row.level, best)) for row in isas_of()), (None, best)):
        with asp.options(isa=isa, effort="off"):
            close(A @ B, make(300, 300) @ B)
            assert runtime_api.lib.asp_isa() == level
