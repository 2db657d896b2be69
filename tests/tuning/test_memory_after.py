"""Tests of memory after tuning: packed copies that lost a race, and their results, are returned to the system."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import memory, runtime_api
from autosparse.tuner.search import search

import autosparse as asp
from autosparse.operands.packed_copies import PackedCopy, PackedCopyCache
from autosparse.tuning import confirmation, explicit, session
from tests.tuning.forcing import until

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")


@pytest.fixture(autouse=True)
def no_other_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop searches of other tests, which hold the work space for as long as their matrices live."""
    gc.collect()
    monkeypatch.setattr(memory.SCRATCH, "_n_holders", 0)
    runtime_api.lib.asp_scratch_limit(0)


def kept_bytes() -> tuple[int, int]:
    """Return the bytes of freed results and of freed tuning work space that are kept for reuse."""
    gc.collect()
    return runtime_api.lib.asp_output_kept_bytes(), runtime_api.lib.asp_scratch_kept_bytes()


def matrix() -> sps.csr_array:
    """Return a matrix with 3 MB of values, so that each packed copy is large enough for the pool."""
    return sps.random_array((20_000, 20_000), density=1e-3, format="csr", random_state=np.random.default_rng(0))


@pytest.mark.parametrize("columns", [1, 16])
def test_no_memory_is_kept_for_reuse_after_explicit_tuning(columns: int) -> None:
    A = asp.csr(matrix(), copy=True)
    before = kept_bytes()[0]
    with asp.options(extra_memory=4.0):
        A.tune(columns=columns, effort="measure", budget_s=0.7)
    assert kept_bytes()[1] == 0
    assert kept_bytes()[0] <= before


def test_explain_reports_the_memory_of_kept_copies() -> None:
    A = asp.csr(matrix(), copy=True)
    plan = A.tune(effort="measure", budget_s=0.7)
    held = A._cell.dispatcher.packed_copies
    assert held.n_bytes == plan.packed_bytes
    assert all(copy.n_owners == 1 for copy in held._copies.values())


@pytest.mark.parametrize(("operation", "columns"), [("matmul", 1), ("matmul", 2), ("sddmm", 16)])
def test_no_array_stays_with_the_pattern_after_explicit_tuning(operation: str, columns: int) -> None:
    A = asp.csr(matrix(), copy=True)
    A.tune(operation, columns=columns, effort="measure", budget_s=0.7)
    arrays = {name for name, value in vars(A._cell.pattern).items() if isinstance(value, np.ndarray)}
    assert arrays == {"indptr", "indices"}


def test_freed_memory_is_returned_after_the_last_step_of_explicit_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes and the pattern free arrays: memory that is returned before them would stay with the allocator."""
    steps: list[str] = []
    A = asp.csr(matrix(), copy=True)

    @contextlib.contextmanager
    def recycled() -> Iterator[None]:
        yield
        steps.append("returned")

    monkeypatch.setattr(memory, "scratch_recycled", recycled)
    monkeypatch.setattr(type(A._cell.pattern), "forget", lambda _: steps.append("forgotten"))
    monkeypatch.setattr(explicit.notes, "note", lambda *_, **__: steps.append("noted"))
    A.tune(effort="estimate")
    assert steps[-3:] == ["noted", "forgotten", "returned"]  # comparisons forget too


def test_a_packed_copy_goes_with_its_matrix() -> None:
    A = asp.csr(matrix(), copy=True)
    A.tune(effort="measure", budget_s=0.7)
    del A
    assert kept_bytes()[1] == 0


@pytest.mark.usefixtures("paid")
def test_no_memory_is_kept_for_reuse_after_background_tuning() -> None:
    A, x = asp.csr(matrix(), copy=True), np.ones(20_000)
    with asp.options(overhead=1.0, runs=10**12, budget_s=1000.0):
        A @ x
        (state,) = A._cell.dispatcher.states.values()
        for _ in until(lambda: state.live_tuner is not None and state.live_tuner.session.is_finished):
            A @ x
    assert kept_bytes()[1] == 0
    assert "row_lengths" not in vars(A._cell.pattern)


@pytest.fixture
def alive_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Treat all packed copies as large; return a list that gets the bytes of each copy, and of those beside it."""
    for module in (search, session, confirmation):
        monkeypatch.setattr(module, "MAX_PAIR_BYTES", 1 << 10)
    counted, take = list[int](), PackedCopyCache.take

    def taken(self: PackedCopyCache, *args: Any, **how: Any) -> PackedCopy:
        found = take(self, *args, **how)
        counted.append(self.n_bytes - found.n_bytes)
        return found

    monkeypatch.setattr(PackedCopyCache, "take", taken)
    return counted


@pytest.mark.usefixtures("paid")
def test_large_packed_copies_never_exist_in_pairs_while_products_are_tuned(
    alive_bytes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    A, x, trim = asp.csr(matrix(), copy=True), np.ones(20_000), memory.ScratchPool.trim
    waiting_bytes: list[int] = []

    def trimmed(self: memory.ScratchPool, n_bytes: int) -> None:
        trim(self, n_bytes)
        waiting_bytes.append(runtime_api.lib.asp_scratch_kept_bytes())

    monkeypatch.setattr(memory.ScratchPool, "trim", trimmed)
    with asp.options(overhead=1.0, runs=10**12, budget_s=1000.0):
        wanted = A @ x
        (state,) = A._cell.dispatcher.states.values()
        for _ in until(lambda: state.live_tuner is not None and state.live_tuner.session.is_finished):
            np.testing.assert_allclose(A @ x, wanted)
    assert len(alive_bytes) > 1
    assert not any(alive_bytes)
    assert len(waiting_bytes) > 1
    assert max(waiting_bytes) <= 1 << 10


@pytest.mark.parametrize("columns", [1, 16])
def test_large_packed_copies_never_exist_in_pairs_while_tune_runs(columns: int, alive_bytes: list[int]) -> None:
    A = asp.csr(matrix(), copy=True)
    plan = A.tune(columns=columns, effort="measure", budget_s=1.5)
    assert not any(alive_bytes)
    assert A._cell.dispatcher.packed_copies.n_bytes == plan.packed_bytes


def test_work_space_of_another_size_takes_the_place_of_what_is_kept() -> None:
    with memory.scratch_recycled():
        for n_bytes in (8 << 20, 12 << 20, 5 << 20):
            array = memory.empty_scratch((n_bytes,), np.dtype(np.uint8))
            assert kept_bytes()[1] <= max(0, (12 << 20) - n_bytes)
            del array


def test_pages_of_losers_are_recycled_while_a_tuning_lasts() -> None:
    with memory.scratch_recycled():
        array = memory.empty_scratch((1 << 20,), np.dtype(np.float64))
        address = array.ctypes.data
        del array
        assert memory.empty_scratch((1 << 20,), np.dtype(np.float64)).ctypes.data == address
        assert kept_bytes()[1] > 0
    assert kept_bytes()[1] == 0
