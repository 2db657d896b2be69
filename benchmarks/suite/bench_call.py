"""asv benchmarks of one product: steady, as the first call of a new object, and as the first call of a new process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

import autosparse
from autosparse.config import reload_options, set_options
from suite import cases

FIRST_CALL = """
import time, numpy as np, scipy.sparse, autosparse
m = scipy.sparse.load_npz({path!r})
x = np.ones(m.shape[1], dtype=m.dtype)
start = time.perf_counter()
A = autosparse.csr(m)
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
    """First product of a process with an empty cache, including imports of autosparse's own parts."""

    unit = "s"
    timeout = 120.0

    def setup(self) -> None:
        import scipy.sparse

        self.folder = tempfile.TemporaryDirectory()
        self.path = f"{self.folder.name}/m.npz"
        scipy.sparse.save_npz(self.path, cases.matrix("poisson"))

    def teardown(self) -> None:
        self.folder.cleanup()

    def track_first_product(self) -> float:
        environment = {**os.environ, "AUTOSPARSE_CACHE_DIR": f"{self.folder.name}/cache{time.monotonic_ns()}"}
        code = FIRST_CALL.format(path=self.path)
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            cwd=self.folder.name,
            capture_output=True,
            text=True,
            check=True,
        )
        return float(done.stdout)
