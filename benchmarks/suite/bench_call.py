"""asv benchmarks of one product: steady, as the first call of a new object, and the first uses of a new process."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

import scipy.sparse

import autosparse
from autosparse.config import reload_options, set_options
from suite import cases

FIRST_USE = """
import sys, time
import numpy as np, scipy.sparse
by, name, path = sys.argv[1:]
m = scipy.sparse.csr_array(scipy.sparse.load_npz(path))
x = np.ones(m.shape[1], dtype=m.dtype)
if by == "ours":
    import autosparse
csr = scipy.sparse.csr_array if by == "scipy" else autosparse.csr
start = time.perf_counter()
A = csr(m)
if name == "slices":
    for row in range(20):
        A[row : row + 1000].sum()
else:
    for _ in range(1 if name == "first product" else 20):
        A @ x
print(time.perf_counter() - start)
"""


class SteadyCall:
    """Repeated ``A @ B``."""

    params = (cases.names(), cases.COLUMNS, ("scipy", "off", "measure"))
    param_names = ("matrix", "columns", "by")

    def setup(self, matrix: str, columns: int, by: str) -> None:
        m = cases.matrix(matrix)
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # threads may still write plans
        self.B = cases.dense(m.shape[1], columns)
        self.A = m if by == "scipy" else autosparse.csr(m)
        set_options(cache_dir=self.folder.name, effort="off" if by == "scipy" else by)
        if by == "measure":
            self.A.tune("matmul", columns=columns, runs=100_000, effort=by, budget_s=3.0)
        self.A @ self.B

    def teardown(self, matrix: str, columns: int, by: str) -> None:
        reload_options()
        self.folder.cleanup()

    def time_product(self, matrix: str, columns: int, by: str) -> None:
        self.A @ self.B


class NewObject:
    """Wrapping a matrix and multiplying once; the time includes everything that the first product triggers."""

    params = (cases.names(), ("scipy", "ours"))
    param_names = ("matrix", "by")

    def setup(self, matrix: str, by: str) -> None:
        self.m = cases.matrix(matrix)
        self.x = cases.dense(self.m.shape[1], 1)
        self.wrap = type(self.m) if by == "scipy" else autosparse.csr
        self.wrap(self.m) @ self.x

    def time_wrap_and_first_product(self, matrix: str, by: str) -> None:
        self.wrap(self.m) @ self.x


class NewProcess:
    """First use of a process with an empty cache, including imports of autosparse's own parts."""

    params = (("first product", "twenty products", "slices"), ("scipy", "ours"))
    param_names = ("program", "by")
    unit = "s"
    timeout = 120.0

    def setup(self, program: str, by: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = f"{self.folder.name}/m.npz"
        scipy.sparse.save_npz(self.path, cases.matrix("poisson"))

    def teardown(self, program: str, by: str) -> None:
        self.folder.cleanup()

    def track_first_use(self, program: str, by: str) -> float:
        """Return the median of five processes."""
        return statistics.median(self._seconds(program, by) for _ in range(5))

    def _seconds(self, program: str, by: str) -> float:
        done = subprocess.run(
            [sys.executable, "-c", FIRST_USE, by, program, self.path],
            env={**os.environ, "AUTOSPARSE_CACHE_DIR": f"{self.folder.name}/cache{time.monotonic_ns()}"},
            cwd=self.folder.name,
            capture_output=True,
            text=True,
            check=True,
        )
        return float(done.stdout)
