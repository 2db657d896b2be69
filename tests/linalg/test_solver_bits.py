"""Tests that solvers give the same bits in every run, in every process and for any number of threads."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import autosparse as asp
from tests.linalg.calls import EIGENVALUES, EVERY, bits, call, plain

pytestmark = pytest.mark.filterwarnings("ignore:Exited:UserWarning")  # lobpcg has not converged
THREADS = (1, 2, 3, 4, 5)
SIDE = 150  # 22,500 unknowns: several chunks, and enough for several threads


def matrix(dtype: str) -> Any:
    return asp.csr(plain(SIDE, dtype), copy=True)


def dtypes(name: str) -> str:
    """Return the dtypes to test. ARPACK allocates its own vectors, and `minres` is real."""
    return "d" if name in EIGENVALUES else "df" if name == "minres" else "dfDF"


@pytest.mark.parametrize(("name", "dtype"), [(name, dtype) for name in EVERY for dtype in dtypes(name)])
def test_threads_do_not_change_bits(name: str, dtype: str) -> None:
    found = []
    for threads in THREADS:
        with asp.options(threads=threads, deterministic=True):
            found.append(bits(call(name, matrix(dtype), steps=6)))
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("name", EVERY)
def test_runs_do_not_change_bits(name: str) -> None:
    """Solve with one matrix repeatedly, from the first solve on."""
    A = matrix("d")
    with asp.options(deterministic=True):
        found = [bits(call(name, A, steps=6)) for _ in range(4)]
    assert all(one == found[0] for one in found)


PROCESS = """
import hashlib, sys
import autosparse as asp
from tests.linalg.calls import EVERY, bits, call, plain
A = asp.csr(plain(80), copy=True)
with asp.options(deterministic=True, threads=int(sys.argv[1])):
    for name in EVERY:
        print(name, hashlib.blake2b(b"".join(bits(call(name, A, steps=6)))).hexdigest())
"""


@pytest.mark.full
def test_processes_do_not_change_bits() -> None:
    commands = [[sys.executable, "-W", "ignore", "-c", PROCESS, str(threads)] for threads in (1, 1, 2, 4)]
    runs = [subprocess.run(one, capture_output=True, text=True, check=True).stdout for one in commands]
    assert len(runs[0].splitlines()) == len(EVERY)
    assert all(run == runs[0] for run in runs)
