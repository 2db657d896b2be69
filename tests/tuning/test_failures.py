"""Tests that products stay right when tuning fails: broken compilers, interrupts, concurrent threads."""

from __future__ import annotations

import errno
import itertools
import os
import stat
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from autosparse._native import runtime_api

import autosparse as asp
from autosparse import cache
from autosparse.dispatch import executor, fast_path
from autosparse.dispatch.state import FOREVER_NS, DispatchState
from autosparse.notices import FallbackWarning
from autosparse.operands.csr import Operand
from tests.tuning.forcing import ENOUGH_S, close, dense, make, state_of, until

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")


@pytest.fixture
def broken_compiler(tmp_path: Path) -> Path:
    """Return a compiler that records a checksum of each source that it is given, and fails."""
    path = tmp_path / "cc"
    notes = f'for given; do case "$given" in *.c) cksum <"$given" >> {tmp_path}/calls;; esac; done'
    path.write_text(f"#!/bin/sh\n{notes}\necho 'no such luck' >&2\nexit 1\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def compiled(compiler: Path) -> list[str]:
    """Return checksums of the sources that were given to the compiler, in order."""
    calls = compiler.parent / "calls"
    return calls.read_text().splitlines() if calls.exists() else []


def test_failing_compiler_costs_one_warning_and_no_product(broken_compiler: Path) -> None:
    plain = make(300, 300)
    A, B = asp.csr(plain, copy=True), dense(plain, 8)
    with asp.options(compiler=str(broken_compiler), isa="baseline"):  # which has no kernels that need no compiler
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            plan = A.tune(columns=8, budget_s=ENOUGH_S)
            close(A @ B, plain @ B)
        assert plan.is_default
        assert [one.category for one in caught] == [FallbackWarning]
        assert any(one.failed for one in plan.candidates)
        before = compiled(broken_compiler)
        assert before
        cache.open_store().forget(["plan"])
        for seed in (0, 9):  # the kernels that another matrix needs depend on the processor
            asp.csr(make(300, 300, seed=seed), copy=True).tune(columns=8, budget_s=ENOUGH_S)
        after = compiled(broken_compiler)[len(before) :]
        assert not set(before) & set(after), "a failure that is remembered was compiled again"


def test_interrupted_tuning_leaves_a_working_matrix() -> None:
    plain = make(400, 400)
    A, B = asp.csr(plain, copy=True), dense(plain, 16)

    def interrupt_at(n_steps: int) -> Callable[[float, str], None]:
        steps = itertools.count(1)

        def interrupt(fraction: float, text: str) -> None:
            if next(steps) == n_steps:
                raise KeyboardInterrupt

        return interrupt

    for n_steps in (1, 2, 3, 5, 9, 14):
        try:
            A.tune(columns=16, effort="full", budget_s=3, progress=interrupt_at(n_steps))
        except KeyboardInterrupt:
            assert A._cell.dispatcher.packed_copies.n_bytes == 0
        close(A @ B, plain @ B)
    assert not _children()


def _children() -> list[str]:
    """Return the names of running compilers among our child processes."""
    me, found = os.getpid(), []
    for stat_file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat_file.read_text().rsplit(")", 1)
        except OSError:
            continue
        if int(fields[1].split()[1]) == me and fields[1].split()[0] != "Z":
            found.append(fields[0])
    return [name for name in found if "cc" in name]


def test_products_deep_in_a_recursion_are_tuned_later(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []

    def too_deep(state: DispatchState, operand: Operand) -> bool:
        looks.append(state.product_ns)
        raise RecursionError

    monkeypatch.setattr(executor, "is_unpaid", too_deep)
    plain = make(400, 400)
    A, B = asp.csr(plain, copy=True), dense(plain, 16)
    state = state_of(A, 16)
    state.next_look_ns = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in until(lambda: len(looks) == 3):
            close(A @ B, plain @ B)
    assert 2 * looks[0] <= looks[1] <= looks[2] / 2 < FOREVER_NS


def test_products_deep_in_a_recursion_get_a_fast_path_later(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def too_deep(operand: Operand, state: DispatchState, **how: int) -> None:
        calls.append(state.n_calls)
        raise RecursionError

    monkeypatch.setattr(fast_path, "arm", too_deep)
    plain = make(60, 60)
    A, B = asp.csr(plain, copy=True), dense(plain, 16)
    state = state_of(A, 16)
    state.fast_path_due = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(40):
            close(A @ B, plain @ B)
    assert len(calls) >= 3
    assert all(2 * before <= after for before, after in itertools.pairwise(calls))


def test_eight_threads_at_once_get_the_right_answer() -> None:
    plain = make(800, 800)
    A, B = asp.csr(plain, copy=True), dense(plain, 16)
    wanted, wrong = plain @ B, []
    barrier = threading.Barrier(8)

    def work(number: int) -> None:
        barrier.wait()
        if number == 0:
            A.tune(columns=16, budget_s=1)
        wrong.extend(number for _ in range(40) if not np.allclose(A @ B, wanted, rtol=1e-4, atol=1e-4))

    options = asp.get_options()

    def in_context(number: int) -> None:
        with asp.options(cache_dir=options.cache_dir, overhead=1.0, runs=10**12):
            work(number)

    threads = [threading.Thread(target=in_context, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_background_tuning_ends_and_products_stay_right(paid: None) -> None:
    plain = make(1500, 1500)
    A, B = asp.csr(plain, copy=True), dense(plain, 16)
    wanted = plain @ B
    with asp.options(background=True, overhead=1.0, runs=10**12, budget_s=1000):
        state = state_of(A, 16)
        for _ in until(lambda: state.live_tuner is not None and state.live_tuner.session.is_finished):
            close(A @ B, wanted)
        assert state.live_tuner.failure is None
        assert state.live_tuner.session.search is not None


SHORT = {
    "imports return nothing": SystemError("<function _find_and_load> returned NULL without setting an exception"),
    "threads cannot start": RuntimeError("can't start new thread"),
    "processes cannot start": OSError(errno.ENOMEM, "Cannot allocate memory"),
}


@pytest.mark.parametrize("error", SHORT.values(), ids=SHORT)
@pytest.mark.parametrize("method", ["tune", "explain"])
def test_lack_of_memory_is_a_memory_error(error: Exception, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from autosparse.tuning import explicit

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(explicit, "context_of", fail)
    with pytest.raises(MemoryError):
        getattr(asp.csr(make()), method)()
