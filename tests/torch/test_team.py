"""Products on torch tensors share the threads of PyTorch's OpenMP while the override's kernels are registered."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from autosparse._native import runtime_api

from tests.torch.world import assert_close, torch

import autosparse.torch as asp  # isort: skip  (torch first: the line above skips where it is missing)
from autosparse.torch import team  # isort: skip

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse"),
    pytest.mark.skipif(not runtime_api.available, reason="the C runtime is not built"),
]


def run(code: str) -> str:
    """What a fresh process prints."""
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def world(n: int = 3000, m: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    """A matrix that is large enough for several threads, and an operand."""
    generator = torch.Generator().manual_seed(0)
    crow = torch.arange(n + 1) * 20
    col = torch.randint(n, (n, 20), generator=generator).sort(1).values.reshape(-1)
    A = torch.sparse_csr_tensor(crow, col, torch.randn(20 * n, generator=generator, dtype=torch.float64), (n, n))
    return A, torch.randn(n, m, generator=generator, dtype=torch.float64)


def test_any_number_of_threads_gives_the_product():
    A, B = world()
    want, before = A.to_dense() @ B, torch.get_num_threads()
    try:
        with asp.override():
            for n_threads in (1, 2, 3, 5, 2):
                torch.set_num_threads(n_threads)
                for _ in range(4):
                    assert_close(A @ B, want)
                    assert_close(A.t() @ B, A.to_dense().t() @ B)
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
    """Threads of OpenMP do not survive a fork, and waiting for them would never end."""
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
    """The first look of the planner imported it, which takes longer than most programs' first steps."""
    code = (
        PRODUCTS
        + """
asp.install()
for _ in range(200):
    A @ B
print("scipy.sparse" in sys.modules)
"""
    )
    assert run(code) == "False"
