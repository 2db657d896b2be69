"""asv benchmarks of whole programs in fresh processes, as people write them: default settings and an empty cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from typing import Final

PROGRAM: Final = """
import sys, time
import numpy as np, scipy.sparse
by, name = sys.argv[1:]
if by == "ours":
    import autosparse as asp
    csr, linalg = asp.csr, asp.linalg
else:
    import scipy.sparse.linalg as linalg
    csr = scipy.sparse.csr_array
line = scipy.sparse.diags_array([-1.0, 2.01, -1.0], offsets=[-1, 0, 1], shape=(300, 300))
m = scipy.sparse.kronsum(line, line, format="csr")
b = np.random.default_rng(0).standard_normal(m.shape[0])
start = time.perf_counter()
A = csr(m)
if name == "power iteration":
    x = b
    for _ in range(1500):
        y = A @ x
        x = y / np.linalg.norm(y)
elif name == "diffusion with new values":
    x = b
    for step in range(300):
        A.data[:] = m.data * (1.0 + 1e-3 * step)
        x = x - 0.01 * (A @ x)
elif name == "lsqr":
    x = linalg.lsqr(A, b, atol=1e-8, btol=1e-8, iter_lim=300)[0]
else:
    x, _ = getattr(linalg, name)(A, b, rtol=1e-8, maxiter=500)
print(time.perf_counter() - start)
"""


class WholeProgram:
    """Seconds from the matrix to the result, without imports of NumPy and SciPy."""

    params = (
        ("power iteration", "diffusion with new values", "cg", "minres", "bicgstab", "gmres", "lsqr"),
        ("scipy", "ours"),
    )
    param_names = ("program", "by")
    unit = "s"
    timeout = 120.0

    def setup(self, program: str, by: str) -> None:
        self.folder = tempfile.TemporaryDirectory()

    def teardown(self, program: str, by: str) -> None:
        self.folder.cleanup()

    def track_program(self, program: str, by: str) -> float:
        environment = {**os.environ, "AUTOSPARSE_CACHE_DIR": f"{self.folder.name}/cache{time.monotonic_ns()}"}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, by, program],
            env=environment,
            cwd=self.folder.name,
            capture_output=True,
            text=True,
            check=True,
        )
        return float(done.stdout)
