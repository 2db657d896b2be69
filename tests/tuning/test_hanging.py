"""Tests of a compiler that hangs: it delays no product that did not ask for it, and ends with the process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from autosparse._native import runtime_api
from autosparse._native.c import build

import autosparse as asp
from autosparse.tuning import live as driver_module
from autosparse.tuning.trials import context as bench_module
from tests.tuning.compilers import executable
from tests.tuning.forcing import close, dense, make, state_of, until

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")
UNASKED = {"overhead": 1.0, "runs": 10**8, "budget_s": 1000.0}


def hanging(folder: Path) -> str:
    """Return a compiler that writes its process id to `folder` and never ends."""
    return executable(folder / "cc", f"#!/bin/sh\necho $$ >> {folder}/pids\nexec sleep 600\n")


def running(folder: Path) -> list[int]:
    """Return the process ids of compilers of `folder` that are alive."""
    pids = folder / "pids"
    return [pid for pid in map(int, pids.read_text().split()) if _is_alive(pid)] if pids.exists() else []


def _is_alive(pid: int) -> bool:
    """Return whether process `pid` runs and is no zombie.

    The process may end between any two checks, and its files in /proc with it.
    """
    try:
        os.kill(pid, 0)
        if not Path("/proc/self/stat").exists():
            return True
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def context_of(state: Any) -> Any:
    """Return the tuning context of the state, or None before tuning began."""
    return state.live_tuner and state.live_tuner.session.context


def test_products_go_on_while_a_compiler_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paid: None) -> None:
    """Check that products continue while the compiler still runs: each waits WAIT_S at most.

    On a busy machine two products may take longer than the compiler is given. It is then given more.
    """
    assert driver_module.WAIT_S <= 0.5
    monkeypatch.setattr(driver_module, "WAIT_S", 0.01)
    monkeypatch.setattr(bench_module, "HANGING_COMPILER", 0.0)
    for limit_s in (0.5, 4.0, 32.0):
        monkeypatch.setattr(bench_module, "MIN_LIMIT_S", limit_s)
        (tmp_path / str(limit_s)).mkdir()
        n_beside = products_beside_a_compiler(tmp_path / str(limit_s), limit_s)
        if n_beside > 1:
            break
    assert n_beside > 1, "no product came back while the compiler ran"


def products_beside_a_compiler(folder: Path, limit_s: float) -> int:
    """Return how many products came back while a compiler ran that is stopped after `limit_s`."""
    plain = make(400, 400)
    A, B = asp.csr(plain, copy=True), dense(plain, 8)
    wanted = plain @ B
    n_beside = 0
    options = {**UNASKED, "compiler": hanging(folder), "cache_dir": folder / "cache"}
    with asp.options(**options), warnings.catch_warnings():
        warnings.simplefilter("ignore", asp.FallbackWarning)
        state = state_of(A, 8)
        for _ in until(
            lambda: bool(context_of(state) and context_of(state).failures) and not state.live_tuner._in_background
        ):
            close(A @ B, wanted)
            n_beside += bool(running(folder))
            time.sleep(1e-3)
    assert state.live_tuner.failure is None
    assert f"more than {limit_s:g} s" in context_of(state).failures[0]
    return n_beside


def test_a_limit_in_proportion_to_the_price(paid: None) -> None:
    """Check the limit of a compilation: proportional to its estimated cost, or the given budget where it is larger."""
    plain = make(400, 400)
    A = asp.csr(plain, copy=True)
    with asp.options(**UNASKED):
        state = state_of(A, 8)
        for _ in until(lambda: context_of(state) is not None):
            A @ dense(plain, 8)
    context = context_of(state)
    expected = max(
        bench_module.MIN_LIMIT_S, bench_module.HANGING_COMPILER * context.stats.cost_estimates.price_s("compile")
    )
    assert context.compile_limit_s() == expected
    context.patience_s = 1e3
    assert context.compile_limit_s() == 1e3


def test_compilers_of_these_tests_may_be_slow() -> None:
    """Check that the higher limit of the fixture `own_cache` is not cut to that of the library."""
    assert build.COMPILE_LIMIT_S >= bench_module.MIN_LIMIT_S


def test_a_forked_child_is_not_blocked_by_a_finishing_step(paid: None) -> None:
    """Check that a forked child can take the lock of an event that another thread held at the fork.

    Without this, 1 in 7,000 children hung.
    """
    plain = make(400, 400)
    A = asp.csr(plain, copy=True)
    with asp.options(compiler="no-such-compiler", **UNASKED), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = state_of(A, 8)
        for _ in until(lambda: state.live_tuner is not None):
            A @ dense(plain, 8)
    live_tuner = state.live_tuner
    live_tuner._handed_over = threading.Event()
    with live_tuner._handed_over._cond:
        live_tuner.forget_threads()
        assert live_tuner._handed_over is None  # no product waits for the parent's thread


AT_EXIT = """
import sys, time
import numpy as np, scipy.sparse as sps
import autosparse as asp
from pathlib import Path
plain = sps.random_array((400, 400), density=0.05, format="csr", random_state=np.random.default_rng(0))
A, x = asp.csr(plain, copy=True), np.ones(400)
with asp.options(compiler=sys.argv[1], overhead=1.0, runs=10**12, budget_s=1000.0):
    while not Path(sys.argv[2]).exists():
        assert np.allclose(A @ x, plain @ x)
"""


def test_a_process_ends_with_its_compilers(tmp_path: Path) -> None:
    compiler = hanging(tmp_path)
    command = [sys.executable, "-c", AT_EXIT, compiler, str(tmp_path / "pids")]
    subprocess.run(
        command, check=True, timeout=300, env={**os.environ, "AUTOSPARSE_CACHE_DIR": str(tmp_path / "cache")}
    )
    assert (tmp_path / "pids").exists()
    assert not running(tmp_path)
    assert not list((tmp_path / "cache").rglob("failure*/*")), "that it was stopped is no failure of the kernel"
