"""Tests that products on torch tensors share PyTorch's OpenMP threads while the override's kernels are registered."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from autosparse._native import runtime_api

from tests.processes import run_with_torch
from tests.torch.samples import assert_close, torch

import autosparse.torch as asp  # isort: skip  (torch first: the line above skips where it is missing)
from autosparse.torch import team  # isort: skip

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse"),
    pytest.mark.skipif(not runtime_api.available, reason="the C runtime is not built"),
]


def run(code: str, variables: Mapping[str, str] = MappingProxyType({})) -> str:
    """Run the code in another process, a new one where variables are set, and return its output."""
    if variables:
        command, environment = [sys.executable, "-W", "ignore", "-c", code], {**os.environ, **variables}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    else:
        done = run_with_torch(code)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def world(n: int = 3000, m: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a matrix that is large enough for several threads, and an operand."""
    generator = torch.Generator().manual_seed(0)
    crow = torch.arange(n + 1) * 20
    col = torch.randint(n, (n, 20), generator=generator).sort(1).values.reshape(-1)
    A = torch.sparse_csr_tensor(crow, col, torch.randn(20 * n, generator=generator, dtype=torch.float64), (n, n))
    return A, torch.randn(n, m, generator=generator, dtype=torch.float64)


def test_any_number_of_threads_gives_the_product():
    A, B = world()
    dense, before = A.to_dense(), torch.get_num_threads()
    want, want_transposed = dense @ B, dense.t() @ B
    try:
        with asp.override():
            for n_threads in (1, 2, 3, 5, 2):
                torch.set_num_threads(n_threads)
                for _ in range(4):
                    assert_close(A @ B, want)
                    assert_close(A.t() @ B, want_transposed)
    finally:
        torch.set_num_threads(before)
        asp.uninstall()


PRODUCTS = """
import os, sys, torch, autosparse.torch as asp
torch.set_num_threads(2)
n = 3000
A = torch.sparse_csr_tensor(torch.arange(n + 1) * 20, torch.arange(20 * n) // 7 % n, torch.ones(20 * n), (n, n),
                            check_invariants=False)
B = torch.ones(n, 16)
def names():
    return [open(f"/proc/self/task/{one}/comm").read().strip() for one in os.listdir("/proc/self/task")]
def products():
    for _ in range(20):
        C = A @ B  # a few entries are looked at: dense operators of PyTorch do not end in a forked child
        assert [float(C[row, 5]) for row in (0, 1499, 1500, n - 1)] == [20.0] * 4
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the system does not tell a process's threads")
def test_no_threads_of_our_own_are_started_where_pytorchs_serve():
    if team._addresses() == (0, 0):
        pytest.skip("this PyTorch has no OpenMP library whose threads could be shared")
    assert run(PRODUCTS + "asp.install(); products(); print('autosparse' in names())") == "False"


def test_a_forked_child_multiplies_with_threads_of_its_own():
    """Check a forked child: OpenMP threads do not survive a fork, and waiting for them would never end."""
    code = (
        PRODUCTS
        + """
asp.install()
products()
child = os.fork()
if not child:
    products()
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""
    )
    assert run(code) == "0"


def test_a_library_without_openmp_changes_nothing(monkeypatch):
    monkeypatch.setattr(team, "_FUNCTIONS", ("no_such_function", "omp_get_thread_num"))
    assert team._addresses() == (0, 0)
    A, B = world(2000, 8)
    with asp.override():
        assert_close(A @ B, A.to_dense() @ B)
    asp.uninstall()


def test_programs_on_tensors_do_not_import_scipy_sparse():
    """Check that products do not import scipy.sparse, which takes longer than most programs' first steps."""
    code = (
        PRODUCTS
        + """
asp.install()
for _ in range(200):
    A @ B
import autosparse.tuning.planner  # imported in the background after some time of products
print("scipy.sparse" in sys.modules)
"""
    )
    assert run(code) == "False"


FORKED = """
import os, signal, sys, threading
import torch
{before}
torch.set_num_threads(2)
n = 3000
A = torch.sparse_csr_tensor(torch.arange(n + 1) * 20, torch.arange(20 * n) // 7 % n, torch.ones(20 * n), (n, n),
                            check_invariants=False)
B = torch.ones(n, 16)
torch.ones(1000, 1000).add_(1)  # starts threads of OpenMP
child = os.fork()
if not child:
    signal.alarm(30)
    {inside}
    for _ in range(20):
        C = A @ B
    os._exit(0 if [float(C[row, 5]) for row in (0, 1499, n - 1)] == [20.0] * 3 else 2)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize(
    ("before", "inside"),
    [
        ("import autosparse.torch as asp; asp.install()", ""),
        pytest.param("import autosparse.torch as asp", "asp.install()", marks=pytest.mark.full),
        ("", "import autosparse.torch as asp; asp.install()"),
    ],
    ids=["registered before the fork", "registered in the child", "imported in the child"],
)
def test_a_child_multiplies_where_only_its_parent_has_used_openmp(before, inside):
    """Check products in a forked child, where PyTorch's own product would not end."""
    assert run(FORKED.format(before=before, inside=inside)) == "0"


def test_workers_of_a_data_loader_multiply():
    code = (
        PRODUCTS
        + """
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, at):
        return (A @ B)[at]
asp.install()
products()
torch.ones(1000, 1000).add_(1)
rows = [row for batch in DataLoader(Rows(), batch_size=2, num_workers=2) for row in batch]
print(all(float(row[3]) == 20 for row in rows), len(rows))
"""
    )
    assert run(code) == "True 4"


OPENMP = {
    "OMP_NUM_THREADS": "1", "OMP_PROC_BIND": "true", "OMP_THREAD_LIMIT": "1", "OMP_DYNAMIC": "true",
    "OMP_MAX_ACTIVE_LEVELS": "4", "OMP_WAIT_POLICY": "active",
}  # fmt: skip


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({name: value}, id=f"{name}={value}", marks=[pytest.mark.full] * (n > 1))
        for n, (name, value) in enumerate(OPENMP.items())
    ],
)
def test_settings_of_openmp_change_no_product(variables):
    assert run(PRODUCTS + "asp.install(); products(); print('done')", variables) == "done"


REGION = """
import ctypes
from autosparse.torch import team
begun, ended = [], []
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def inside(_):
    begun.append(1)
    products()
    ended.append(1)  # not where a product fails: ctypes prints the error and goes on
parallel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)(team._addresses()[0])
asp.install()
parallel(ctypes.cast(inside, ctypes.c_void_p), None, 2, 0)
print(len(begun) == len(ended) > 0)
"""


def test_products_inside_a_parallel_region_of_openmp():
    if team._addresses() == (0, 0):
        pytest.skip("this PyTorch has no OpenMP library whose threads could be shared")
    assert run(PRODUCTS + REGION) == "True"


def test_several_threads_multiply_while_the_number_of_threads_changes():
    code = (
        PRODUCTS
        + """
import threading
asp.install()
failures = []
def work():
    try:
        for n_threads in (1, 3, 2, 4, 2):
            torch.set_num_threads(n_threads)
            products()
    except BaseException as error:
        failures.append(error)
workers = [threading.Thread(target=work) for _ in range(3)]
[worker.start() for worker in workers]
[worker.join() for worker in workers]
print(failures)
"""
    )
    assert run(code) == "[]"


def test_autograds_threads_multiply():
    """Check reentrant backward passes, which run on threads of the engine."""
    code = (
        PRODUCTS
        + """
class Nested(torch.autograd.Function):
    @staticmethod
    def forward(ctx, X):
        ctx.save_for_backward(X)
        return X.sum()
    @staticmethod
    def backward(ctx, grad):
        X, = ctx.saved_tensors
        with torch.enable_grad():
            inner = X.detach().requires_grad_()
            (A @ inner).sum().backward()
        return inner.grad
with asp.override():
    X = B.clone().requires_grad_()
    Nested.apply(X).backward()
print(float(X.grad.sum()))
"""
    )
    assert run(code) == str(20.0 * 3000 * 16)


def test_limits_of_threadpoolctl_hold():
    pytest.importorskip("threadpoolctl")
    code = (
        PRODUCTS
        + """
import threadpoolctl
asp.install()
with threadpoolctl.threadpool_limits(1, user_api="openmp"):
    products()
    print(torch.get_num_threads(), end=" ")
products()
print("done")
"""
    )
    assert run(code) == "1 done"


def test_an_interrupt_between_products_leaves_the_pool_usable():
    code = (
        PRODUCTS
        + """
import signal
asp.install()
is_armed = False  # a second interrupt must not come while the first one is handled
def interrupt(*_):
    global is_armed
    if is_armed:
        is_armed = False
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.01)
n_interrupts = 0
while n_interrupts < 5:
    try:
        is_armed = True
        while True:
            A @ B
    except KeyboardInterrupt:
        n_interrupts += 1
signal.setitimer(signal.ITIMER_REAL, 0)
products()
print("done")
"""
    )
    assert run(code) == "done"


def test_threads_of_our_own_serve_after_the_last_uninstall(monkeypatch):
    """Check that the team is released afterwards, so that later products do not depend on PyTorch's library."""
    calls: list[tuple[int, int]] = []
    real = runtime_api.lib

    class Lib:
        def __getattr__(self, name):
            return getattr(real, name)

        def asp_pool_team(self, *addresses):
            calls.append(addresses)
            real.asp_pool_team(*addresses)

    monkeypatch.setattr(team.runtime_api, "lib", Lib())
    asp.uninstall()
    calls.clear()
    asp.install()
    asp.uninstall()
    assert calls[-1] == (0, 0)
    assert len(calls) == 2
