"""Tests of products and tuning during interpreter shutdown: in `__del__`, in `atexit`, and in background threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """
import atexit, sys
import numpy as np, scipy.sparse as sps
import autosparse as asp
plain = sps.random_array((300, 300), density=0.05, format="csr", random_state=np.random.default_rng(0))
x, X = np.ones(300), np.ones((300, 8))
wanted, wide = plain @ x, plain @ X
def right(A, allclose=np.allclose):
    assert allclose(A @ x, wanted) and allclose(A @ X, wide) and allclose(A.T @ X, plain.T @ X)
def say(text, write=sys.stdout.write, flush=sys.stdout.flush):
    write(text + "\\n"), flush()
class Last:
    def __init__(self, A, x, wanted):
        self.A, self.x, self.wanted = A, x, wanted
    def __del__(self, say=say):
        for _ in range(20):
            off = (self.A @ self.x - self.wanted).ravel().tolist()
            assert max(map(abs, off)) < 1e-9
        say("right")
"""
IN_DEL = """
last = Last(asp.csr(plain), x, wanted)
wide_one = Last(asp.csr(plain), X, wide)
used = asp.csr(plain); right(used); used = Last(used, x, wanted)
tuned = asp.csr(plain); tuned.tune(budget_s=0.5); tuned = Last(tuned, x, wanted)
in_cycle = Last(asp.csc(plain), x, wanted); in_cycle.me = in_cycle
asp.set_options(overhead=1.0, runs=10**9)
would_tune = Last(asp.csr(plain), x, wanted)
"""
AT_EXIT = """
A, B = asp.csr(plain), asp.csr(plain)
def last():
    asp.csr(plain).tune(budget_s=0.5)
    A.tune(columns=8, effort="full", budget_s=1)  # compiles several kernels
    right(A)
    with asp.options(overhead=1.0, runs=10**9, background={background}):
        for _ in range(100):
            right(B)
    say("right")
{before}
atexit.register(last)
"""
LAST = {
    "products in __del__": (IN_DEL, 6),
    "products and tuning in atexit": (AT_EXIT.format(before="", background=False), 1),
    "... after everything else was registered": (AT_EXIT.format(before="right(A); B.tune()", background=True), 1),
    "... and before": (AT_EXIT.format(before="", background=True) + "right(A); B.tune(budget_s=0.5)", 1),
}


IN_TURN = [pytest.param(case, marks=pytest.mark.full if case.startswith("...") else ()) for case in LAST]


@pytest.mark.parametrize("case", IN_TURN)
def test_last_products_are_right(case: str, tmp_path: Path) -> None:
    script, n_right = LAST[case]
    environment = {**os.environ, "AUTOSPARSE_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", HEAD + script]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["right"] * n_right


HELD_ELSEWHERE = """
import collections
import numpy as np, scipy.sparse as sps
import autosparse as asp
A = asp.csr(sps.diags_array([np.ones(59_999), np.ones(60_000)], offsets=[-1, 0], format="csr"), copy=True)
with asp.options(runs=10**6):
    for _ in range(2000):
        A @ np.ones(60_000)
collections.held_elsewhere = A  # freed after the modules of the library
"""


def test_a_matrix_that_another_module_holds_ends_quietly(tmp_path: Path) -> None:
    environment = {**os.environ, "AUTOSPARSE_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", HELD_ELSEWHERE]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
