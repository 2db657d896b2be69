"""Tests of the helper threads: any number of callers, fork, and busy cores."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api

import autosparse as asp
from tests.native.hooks import needs_hooks, on_several_threads, shared_jobs
from tests.native.runtime_cases import assert_product, forced, isas, needs_runtime, patterns, spoken, values

pytestmark = [needs_runtime, needs_hooks]


def product(threads: int) -> None:
    A, csr = spoken(patterns()["tall"], "float32", "int32")
    B = values(np.random.default_rng(1), (A.shape[1], 8), "float32")
    out = np.empty((A.shape[0], 8), np.float32)
    runtime_api.matmul(csr, A.shape, B, out, threads=threads)
    assert_product(out, A, B)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this machine has no second core")
def test_helpers_take_part_when_allowed_and_only_then():
    with forced(isas()[-1]):
        before = shared_jobs()
        product(threads=1)
        assert shared_jobs() == before
        product(threads=2)
        assert shared_jobs() > before


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this machine has no second core")
@pytest.mark.parametrize(("dtype", "is_shared"), [("float32", False), ("float64", True)])
def test_the_estimate_of_dots_counts_bytes(dtype: str, is_shared: bool) -> None:
    """Check a product whose estimated time is above the bound of sharing for doubles, and below it for floats.

    The pool takes a job that lasts much longer than its estimate for one whose helper lost its core.
    """
    rng = np.random.default_rng(2)
    m = sps.random_array((500, 500), density=0.008, format="csr", rng=rng, dtype=dtype)
    X, Y = (rng.standard_normal((500, 60)).astype(dtype) for _ in range(2))
    with on_several_threads(), asp.options(threads=2, effort="off"):
        A, before = asp.csr(m), shared_jobs()
        asp.sddmm(A, X, Y.T)
        assert (shared_jobs() > before) is is_shared


@pytest.mark.skipif(not pathlib.Path("/proc/self/task").is_dir(), reason="needs /proc")
def test_there_are_no_more_threads_than_processors():
    """Check that a product that may use many more threads than there are processors starts no useless ones."""
    script = (
        "import pathlib, numpy as np, scipy.sparse as sps, autosparse as asp\n"
        "asp.set_options(threads=64, effort='off')\n"
        "m = sps.random_array((40_000, 40_000), density=1e-3, format='csr', random_state=np.random.default_rng(0))\n"
        "A, x = asp.csr(m), np.ones(40_000)\n"
        "for _ in range(40): A @ x\n"
        "names = [one.read_text().strip() for one in pathlib.Path('/proc/self/task').glob('*/comm')]\n"
        "print(names.count('autosparse'))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= len(os.sched_getaffinity(0)) - 1


def test_many_threads_may_multiply_at_once():
    A, csr = spoken(patterns()["rows of at most 40"], "float64", "int32")
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for turn in range(60):
                transposed = turn % 2 == 1
                op = A.T if transposed else A
                B = values(np.random.default_rng(seed + turn), (op.shape[1], 5), "float64")
                out = np.full((op.shape[0], 5), np.nan)
                runtime_api.matmul(csr, A.shape, B, out, transposed=transposed, threads=3)
                assert_product(out, op, B)
        except BaseException as error:  # noqa: BLE001  (passed to the main thread)
            failures.append(error)

    with forced(isas()[-1]):
        workers = [threading.Thread(target=work, args=(100 * n,)) for n in range(6)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert not failures


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")  # Python 3.12 warns of fork
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_multiplies_with_threads_of_its_own():
    """Check products in a forked child after the parent has used its helpers; with OpenMP this would hang."""
    with forced(isas()[-1]):
        product(threads=4)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for _ in range(20):
                    product(threads=4)
                code = 0 if runtime_api.lib.asp_was_forked() else 2
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        product(threads=4)
    assert not runtime_api.lib.asp_was_forked()


def test_the_interpreter_ends_while_helpers_sleep_or_spin():
    script = (
        "import numpy as np\n"
        "from autosparse._native import runtime_api as r\n"
        "r.lib.asp_force_helpers(1)\n"
        "n = 50_000\n"
        "csr = (np.arange(n + 1, dtype=np.int32), np.arange(n, dtype=np.int32), np.ones(n, np.float32))\n"
        "out = r.matmul(csr, (n, n), np.ones(n, np.float32), np.empty(n, np.float32), threads=4)\n"
        "assert (out == 1).all()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def test_threads_follow_threadpoolctl():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    if not any(entry["user_api"] == "openmp" for entry in threadpoolctl.threadpool_info()):
        pytest.skip("the runtime was built without OpenMP")
    with threadpoolctl.threadpool_limits(limits=1, user_api="openmp"):
        assert runtime_api.max_threads() == 1
    assert runtime_api.max_threads() >= 1
