"""Tests of the operands that candidates are timed on, and of the candidates that always race."""

from __future__ import annotations

import dataclasses
import gc
import warnings
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api
from autosparse.tuner.research.collect.operations import OPS
from autosparse.tuner.research.generators.base import generate
from autosparse.tuner.research.generators.coordinates import Coordinates
from autosparse.tuner.space import spaces

import autosparse
from autosparse.calibration.collection import context_for
from autosparse.config import Effort
from autosparse.core.formats import Format
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import DEFAULT, choice_of
from autosparse.dispatch import fast_path
from autosparse.dispatch.calls import MatmulCall
from autosparse.tuning.solvers import row_panels
from autosparse.tuning.trials import comparison, kernel_trial, specs
from autosparse.tuning.trials import context as contexts
from autosparse.tuning.trials.iterations import n_iterations
from autosparse.tuning.trials.operand_adapter import PLACES
from tests.tuning import test_comparison
from tests.tuning.forcing import force, make, schedule_of

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")


@pytest.mark.parametrize("op", ["spmv", "spmm32"])
@pytest.mark.parametrize("is_fast_call", [True, False])
def test_candidates_are_timed_with_b_on_a_cache_line_and_off_it(op, is_fast_call, monkeypatch):
    places = []
    by_default = MatmulCall.by_default

    def run(operand, B, *_):
        return places.append(runtime_api.address_of(B) % 64) or True

    def spy(call, *args):
        places.append(call.source % 64)
        return by_default(call, *args)

    monkeypatch.setattr(MatmulCall, "by_default", spy)
    monkeypatch.setattr(fast_path, "beside", lambda *_, **__: SimpleNamespace(run=run) if is_fast_call else None)
    with context_for(generate("mesh", nnz=2_000, seed=1), OPS[op]) as context:
        trial = context(DEFAULT)
        for run in (context.runner(trial, 0), context.runner(trial, 1)):
            for _ in range(5):
                run()
    # Each offset comes twice, so that the warm-up and the timed run have the same one; the next sample has another one.
    assert places == [0, 0, 16, 16, 16, *[16] * 5]


def test_candidates_are_timed_as_the_products_that_go_by_fast_call(monkeypatch):
    """Check that races time kernels by fast calls, also for shared arrays, whose checks are timed separately."""
    guarded = []
    run = kernel_trial.KernelTrial.run
    monkeypatch.setattr(kernel_trial.KernelTrial, "run", lambda *args: guarded.append(1) or run(*args))
    for is_shared in (False, True):
        A = make(200, 300)
        kept = A.data if is_shared else None
        array = autosparse.csr(A, copy=False)
        del A
        with autosparse.options(effort="off"):
            trial = force(array, schedule_of("slices", 1))
            timed = trial.context.runner(trial)
            guarded.clear()
            for _ in range(3):
                timed()
        assert not guarded
        del kept


@pytest.mark.skipif(fast_path.make is None, reason="fast calls need the extension module")
@pytest.mark.parametrize("is_fresh", [True, False])
def test_the_last_race_goes_by_fast_call_also_where_the_copy_is_old(is_fresh, monkeypatch):
    through_python = []
    for owner, name in ((kernel_trial.KernelTrial, "run"), (MatmulCall, "by"), (MatmulCall, "by_default")):
        real = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *args, real=real: through_python.append(1) or real(*args))
    array = autosparse.csr(make(200, 300), copy=True)
    with autosparse.options(effort="off"):
        trial = force(array, schedule_of("slices", 1))
        runs = [trial.context.served(one, is_fresh=is_fresh) for one in (trial, trial.context(DEFAULT))]
        through_python.clear()
        for one in runs:
            one()
        assert not through_python
        array.data[:] = 2.0
        array @ np.ones(300, np.float32)
        through_python.clear()
        runs[0]()
        assert not through_python


@pytest.mark.skipif(fast_path.make is None, reason="fast calls need the extension module")
def test_a_plan_is_watched_by_the_time_of_products_by_fast_call(monkeypatch):
    """Check that comparisons use fast calls.

    Through Python, a tuned kernel takes microseconds longer than the default one, and plans of small matrices would be
    dropped.
    """
    through_python = []
    run = kernel_trial.KernelTrial.run
    monkeypatch.setattr(kernel_trial.KernelTrial, "run", lambda *args: through_python.append(1) or run(*args))
    plain = make(200, 300)
    array, x = autosparse.csr(plain, copy=True), np.ones(300, np.float32)
    force(array, schedule_of("slices", 1))
    for _ in range(40):
        np.testing.assert_allclose(array @ x, plain @ x, rtol=1e-4)
    assert not through_python
    array.data *= 2.0
    for _ in range(40):
        np.testing.assert_allclose(array @ x, 2.0 * (plain @ x), rtol=1e-4)
    assert 0 < len(through_python) < 20


@pytest.mark.parametrize(
    ("family", "op"), [("mesh", "spmv"), ("mesh", "spmm32"), ("mesh", "sddmm32"), ("tensor_blocks", "mttkrp16")]
)
def test_dense_operands_and_results_have_typical_alignments(family, op):
    """Check offsets from cache lines: 0, and 16 bytes as for NumPy's large arrays; `out=` may have either."""
    with context_for(generate(family, nnz=2_000, seed=1), OPS[op]) as context:
        calls = context.adapter.synthetic(context.problem, context.operand())
        for call, (of_operands, of_result) in zip(calls, PLACES, strict=True):
            *operands, result = call.kept
            operands = operands[0] if isinstance(operands[0], list | tuple) else operands
            assert all(np.isfinite(one).all() for one in operands)
            assert {runtime_api.address_of(one) % 64 for one in operands} == {of_operands % 64}
            assert (call.result - calls[0].result, calls[0].result % 64) == (of_result, 0)
            assert call.result == runtime_api.address_of(result)
            assert all(one.flags.c_contiguous and one.dtype == np.float32 for one in (*operands, result))
            assert call.kept[-1].shape == calls[0].kept[-1].shape


def test_timing_waits_for_threads_that_keep_away_from_busy_cores(monkeypatch):
    """Check that the wait is bounded: a machine that stays busy is measured as it is."""
    slept = []

    class Busy:
        def __getattr__(self, name):
            return (lambda: 400_000_000) if name == "asp_pool_caution_left_ns" else getattr(runtime_api_lib, name)

    runtime_api_lib = runtime_api.lib
    with context_for(generate("mesh", nnz=2_000, seed=1), OPS["spmv"]) as context:
        monkeypatch.setattr(kernel_trial.runtime_api, "lib", Busy())
        monkeypatch.setattr(kernel_trial.time, "sleep", slept.append)
        monkeypatch.setattr(contexts.TuningContext, "n_threads", lambda _: 2)
        for _ in range(4):
            context._wait_for_threads()
        monkeypatch.undo()
    assert slept == pytest.approx([0.4, contexts.PATIENCE_S - 0.4])


def test_spaces_keep_no_bench_and_no_pattern_alive():
    """Check that spaces are cached by the properties that they depend on, without references to patterns."""
    found, patterns = [], []
    for seed in (1, 2):
        with context_for(generate("banded", nnz=2_000, seed=seed), OPS["spmv"]) as context:
            found.append(spaces.candidates(context.problem, context.supports))
            patterns.append(weakref.ref(context.problem.pattern))
        del context
    gc.collect()
    assert found[0] is found[1]
    assert [pattern() for pattern in patterns] == [None, None]
    refuses = specs.supports_of("int64")
    assert "int64" in refuses("matmul", found[0][0])


WALKS_ALL = SuperSchedule(
    operation="sddmm", format=Format.parse("i1:U,k1:C"), loop_order=("k1", "i1", "j1", "j0"), dense_splits=(("j", 32),),
    parallel="i1", partition="dynamic",
)  # fmt: skip
"""Schedule that searches every row for every column: one search for each cell of the matrix."""


def test_a_product_without_end_is_not_begun_even_to_be_compared(monkeypatch):
    monkeypatch.setattr(comparison, "difference", lambda *args, **how: pytest.fail("the kernel was run"))
    n = np.arange(2_500, dtype=np.int32)
    with context_for(Coordinates((2_500, 2_500), (n, n)), OPS["sddmm32"]) as context:
        trial = context(choice_of(WALKS_ALL))
        trial.build()
        trial.pack()
        assert "iterations" in trial.failed
        assert not trial.ready
        assert context.runner(trial) is None


def test_iterations_are_counted_with_the_columns():
    packed = SimpleNamespace(sizes={"i": 10, "k": 20}, n_positions=(10, 50))

    def n(*loops):
        return n_iterations(dataclasses.replace(WALKS_ALL, loop_order=loops), packed, 64)

    assert n("i1", "k1", "j1", "j0") == 50 * 2 * 4  # two tiles of four vectors for each entry
    assert n("i1", "j1", "k1", "j0") == 50 * 2 * 4
    assert n("k1", "i1", "j1", "j0") == 20 * 10 * 2 * 4
    assert n("j1", "j0", "i1", "k1") == 50 * 64


@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
def test_entrants_that_always_race_have_kernels(index_dtype) -> None:
    """Check 64-bit indices too: the runtime has no row orders for them, so such kernels must not race."""
    plain = sps.random_array((3000, 3000), density=5e-3, format="csr", random_state=np.random.default_rng(0))
    plain.indices, plain.indptr = plain.indices.astype(index_dtype), plain.indptr.astype(index_dtype)
    A = autosparse.csr(plain)
    assert A.indices.dtype == index_dtype
    always = row_panels.of_the_runtime(test_comparison.context_for(A._cell, 32), effort=Effort.MEASURE, known=None)
    assert sum(bool(one.format.rows) for one in always) == (2 if index_dtype is np.int32 else 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        A.tune(columns=32, effort="measure", budget_s=0.5)


@pytest.mark.parametrize(
    ("operation", "columns", "l2_bytes", "orders"),
    [
        ("sddmm", 256, 1 << 20, ["first", "rcm"]),
        ("sddmm", 256, 1 << 24, []),
        ("matmul", 256, 1 << 20, ["degree", "first", "rcm"]),
        ("matmul", 256, 1 << 24, ["degree", "first"]),
        ("matmul", 32, 1 << 10, ["degree", "first"]),
    ],
)
def test_reverse_cuthill_mckee_races_where_wide_dense_operands_exceed_a_cache(
    operation: str, columns: int, l2_bytes: int, orders: list[str]
) -> None:
    plain = sps.random_array((3000, 3000), density=2e-3, format="csr", random_state=np.random.default_rng(0))
    context = test_comparison.context_for(autosparse.csr(plain)._cell, columns, operation=operation)
    target = dataclasses.replace(context.problem.target, l2_bytes=l2_bytes)
    context.problem = dataclasses.replace(context.problem, target=target)
    always = row_panels.of_the_runtime(context, effort=Effort.MEASURE, known=None)
    assert [one.format.rows for one in always if one.format.rows] == orders
