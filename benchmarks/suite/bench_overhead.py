"""asv benchmarks of the overhead of a call, on tiny matrices, and of the import."""

from __future__ import annotations

import statistics
import subprocess
import sys

import numpy as np
import scipy.sparse

import autosparse

IMPORTED = "import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"


class TinyProduct:
    """``A @ x`` with 3 entries per row."""

    params = ((10, 1000), ("scipy", "ours"))
    param_names = ("n", "by")

    def setup(self, n: int, by: str) -> None:
        m = scipy.sparse.diags_array([1.0, 2.0, 1.0], offsets=[-1, 0, 1], shape=(n, n), format="csr")
        self.A = m if by == "scipy" else autosparse.csr(m)
        self.x = np.ones(n)
        self.A @ self.x

    def time_product(self, n: int, by: str) -> None:
        self.A @ self.x

    def time_transposed(self, n: int, by: str) -> None:
        self.A.T @ self.x


class Import:
    """Median import time of fresh processes."""

    params = ("scipy.sparse", "autosparse")
    param_names = ("module",)
    unit = "s"
    timeout = 120.0

    def track_import(self, module: str) -> float:
        command = [sys.executable, "-c", IMPORTED.format(module=module)]
        return statistics.median(float(subprocess.check_output(command, text=True)) for _ in range(5))
