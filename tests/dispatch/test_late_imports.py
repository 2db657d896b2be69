"""Tests that a product which has run once opens no file later.

Products go on without descriptors, in another root, as another user; tuning without memory fails cleanly.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from autosparse._native import runtime_api

pytestmark = [
    pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime"),
    pytest.mark.skipif(sys.platform == "win32", reason="limits, roots and users are POSIX"),
]

FIRST = """
import os, resource, tempfile, warnings
import numpy as np, numpy.testing, scipy.sparse as sps, autosparse as asp
m = sps.random_array((1000, 1000), density=.02, random_state=np.random.default_rng(0), format="csr")
A, X = asp.csr(m), np.ones((1000, 8))
A @ X
def no_descriptors():
    files = []
    try:
        while True:
            files.append(open(os.devnull))
    except OSError:
        return files
"""
THEN = """
warnings.simplefilter("ignore")
for _ in range(1500):
    C = A @ X
np.testing.assert_allclose(C, m @ X)
np.testing.assert_allclose(A @ X[:, 0], m @ X[:, 0])
np.testing.assert_allclose((A @ A).toarray(), (m @ m).toarray())
print("fine")
"""


def run(code: str) -> str:
    command = ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_products_go_on_without_descriptors() -> None:
    assert "fine" in run(f"{FIRST}kept = no_descriptors()\n{THEN}")


def test_large_results_of_light_matrices_need_no_descriptors() -> None:
    """Check a result with more entries than a light matrix has where the library can be loaded."""
    large = """
m = sps.random_array((40_000, 40_000), density=2e-4, random_state=np.random.default_rng(0), format="csr")
A = asp.csr(m)
A @ np.ones(40_000)
kept = no_descriptors()
C = A @ A
assert C.nnz > 1 << 20
np.testing.assert_allclose(C @ np.ones(40_000), m @ (m @ np.ones(40_000)))
print("fine")
"""
    assert "fine" in run(f"{FIRST}{large}")


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root: chroot")
def test_products_go_on_in_another_root() -> None:
    assert "fine" in run(f"{FIRST}os.chroot(tempfile.mkdtemp()); os.chdir('/')\n{THEN}")


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root: setuid")
def test_products_go_on_with_fewer_rights() -> None:
    assert "fine" in run(f"{FIRST}os.chdir('/'); os.setgid(65534); os.setuid(65534)\n{THEN}")


@pytest.mark.parametrize("room", [1, 8, 12])
def test_tuning_without_memory_says_so(room: int) -> None:
    """Tuning may raise MemoryError or succeed, because the memory it needs depends on the system."""
    limit = f"""
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + {room} * 2**20
resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))
try:
    A.tune("matmul", columns=8, effort="measure", budget_s=1)
except MemoryError:
    pass
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print("fine")
"""
    if not Path("/proc/self/statm").exists():
        pytest.skip("this system has no /proc")
    assert "fine" in run(FIRST + limit)
