"""Tests of jobs on a host's team of threads, in small libraries that stand for OpenMP.

The libraries give fewer threads than asked for, or unusual thread numbers. ThreadSanitizer cannot see the
synchronisation of libgomp, but it sees these teams, which are made of threads of the system
(`test_runtime_sanitized.py` runs this file under it).
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from autosparse._native import runtime_api

from tests.native.hooks import forced_choice, needs_hooks, shared_jobs
from tests.native.runtime_cases import (
    assert_product,
    forced,
    isas,
    needs_runtime,
    patterns,
    spoken,
    values,
    with_lengths,
)

pytestmark = [needs_runtime, needs_hooks]

HOST = """
#include <pthread.h>

typedef struct { void (*work)(void *); void *data; int number; } member;
static _Thread_local int number;
int most = 64, n_calls, is_numbered = 1;

int omp_get_thread_num(void) { return is_numbered ? number : 0; }

static void *run(void *given)
{
    member *it = given;
    number = it->number;
    it->work(it->data);
    return 0;
}

void GOMP_parallel(void (*work)(void *), void *data, unsigned n, unsigned flags)
{
    pthread_t threads[64];
    member members[64];
    (void)flags;
    if ((int)n > most) n = (unsigned)most;
    __atomic_fetch_add(&n_calls, 1, __ATOMIC_RELAXED);
    for (unsigned i = 1; i < n; i++) {
        members[i] = (member){work, data, (int)i};
        pthread_create(&threads[i], 0, run, &members[i]);
    }
    work(data);
    for (unsigned i = 1; i < n; i++) pthread_join(threads[i], 0);
}
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("host")
    (folder / "host.c").write_text(HOST, encoding="utf-8")
    library = folder / "host.so"
    sanitizer = ["-fsanitize=thread"] if "libtsan" in os.environ.get("LD_PRELOAD", "") else []
    command = [
        "cc",
        "-O1",
        "-g",
        "-shared",
        "-fPIC",
        "-pthread",
        *sanitizer,
        str(folder / "host.c"),
        "-o",
        str(library),
    ]
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # it stops the compiler
    subprocess.run(command, check=True, env=plain)
    return ctypes.CDLL(str(library))


def address(host: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(host, name), ctypes.c_void_p).value or 0


@contextmanager
def team_of(host: ctypes.CDLL, *, most: int = 64, is_numbered: bool = True) -> Iterator[None]:
    """Run shared jobs on the threads of `host` in the block."""
    ctypes.c_int.in_dll(host, "most").value = most
    ctypes.c_int.in_dll(host, "is_numbered").value = int(is_numbered)
    runtime_api.lib.asp_pool_team(address(host, "GOMP_parallel"), address(host, "omp_get_thread_num"))
    try:
        with forced(isas()[-1]):
            yield
    finally:
        runtime_api.lib.asp_pool_team(0, 0)


def product(threads: int, *, seed: int = 1, transposed: bool = False) -> None:
    A, csr = spoken(patterns()["tall"], "float32", "int32")
    op = A.T if transposed else A
    B = values(np.random.default_rng(seed), (op.shape[1], 8), "float32")
    out = np.full((op.shape[0], 8), np.nan, np.float32)
    runtime_api.matmul(csr, A.shape, B, out, transposed=transposed, threads=threads)
    assert_product(out, op, B)


def test_jobs_too_short_for_a_large_team_stay_on_the_calling_thread(host):
    """Check that a job of 20,000 entries starts no team of 255 threads.

    The caller waits until every thread of a team has ended, while it need not wait for helpers that come late.
    """
    A, csr = spoken(with_lengths(np.full(2000, 10), 500, np.random.default_rng(2)), "float32", "int32")
    B, out = np.ones((500, 8), np.float32), np.empty((2000, 8), np.float32)
    with team_of(host), forced_choice("helpers", 0):
        before = ctypes.c_int.in_dll(host, "n_calls").value
        for _ in range(20):
            runtime_api.matmul(csr, A.shape, B, out, threads=255)
        assert_product(out, A, B)
        assert ctypes.c_int.in_dll(host, "n_calls").value == before


@pytest.mark.parametrize("most", [1, 2, 3, 64], ids="{} given".format)
@pytest.mark.parametrize("is_numbered", [True, False], ids=["numbered", "all number 0"])
def test_a_team_of_any_size_gives_the_product(host, most, is_numbered):
    """Check teams smaller than requested, as with OMP_DYNAMIC, OMP_THREAD_LIMIT or a region around the call."""
    before = shared_jobs()
    with team_of(host, most=most, is_numbered=is_numbered):
        for threads in (2, 5, 3):
            product(threads)
            product(threads, transposed=True)
    assert shared_jobs() > before


def test_several_threads_multiply_while_the_team_comes_and_goes(host):
    failures: list[BaseException] = []
    is_done = threading.Event()

    def multiply(seed: int) -> None:
        try:
            for turn in range(25):
                product(3, seed=seed + turn, transposed=turn % 2 == 1)
        except BaseException as error:  # noqa: BLE001  (passed to the main thread)
            failures.append(error)

    def switch() -> None:
        at = address(host, "GOMP_parallel"), address(host, "omp_get_thread_num")
        while not is_done.wait(0.002):
            runtime_api.lib.asp_pool_team(0, 0)
            runtime_api.lib.asp_pool_team(*at)

    with team_of(host):
        switching = threading.Thread(target=switch)
        workers = [threading.Thread(target=multiply, args=(100 * n,)) for n in range(4)]
        for thread in (switching, *workers):
            thread.start()
        for worker in workers:
            worker.join()
        is_done.set()
        switching.join()
    assert not failures, failures[0]


def test_one_thread_asks_for_no_team(host):
    with team_of(host):
        before = ctypes.c_int.in_dll(host, "n_calls").value
        product(1)
        assert ctypes.c_int.in_dll(host, "n_calls").value == before
