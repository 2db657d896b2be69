"""Compare conjugate gradients of SciPy, autosparse and PETSc, and algebraic multigrid of pyamg, on the same grids.

    python benchmarks/solver_peers.py --out benchmarks/results/solver_peers.md
    python benchmarks/solver_peers.py --petsc "env LD_LIBRARY_PATH=... /usr/bin/python3"

All solve to the same tolerance on the true residual. The solvers alternate in one process; PETSc runs in its own
process on one core (`--petsc` names an interpreter that has petsc4py). pyamg's hierarchy is made once and is not timed.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse.linalg
from peerlib.table import markdown, seconds
from solverlib.systems import GRIDS, grid

import autosparse as asp

RTOL: Final = 1e-8
MAX_ITERATIONS: Final = 2000
CHILD: Final = Path(__file__).resolve().parent / "solverlib" / "petsc_child.py"


def solvers(m: Any, b: Any) -> dict[str, Callable[[], Any]]:
    """Return functions that solve the system once, by name."""
    A, how = asp.csr(m), {"rtol": RTOL, "maxiter": MAX_ITERATIONS}
    polynomial = asp.linalg.chebyshev(A, 4)
    made: dict[str, Callable[[], Any]] = {
        "SciPy, cg": lambda: scipy.sparse.linalg.cg(m, b, **how)[0],
        "autosparse, cg": lambda: asp.linalg.cg(A, b, **how)[0],
        "autosparse, cg with chebyshev(A, 4)": lambda: asp.linalg.cg(A, b, M=polynomial, **how)[0],
    }
    try:
        import pyamg
    except ImportError:
        return made
    np.random.seed(0)  # noqa: NPY002 (pyamg draws from the global generator)
    plain, ours = (pyamg.smoothed_aggregation_solver(one) for one in (m, A))
    made["pyamg, SciPy's matrix and pyamg's cg"] = lambda: plain.solve(b, tol=RTOL, accel="cg")
    M = ours.aspreconditioner()
    made["pyamg as M of autosparse, cg"] = lambda: asp.linalg.cg(A, b, M=M, **how)[0]
    return made


def petsc(command: str, m: Any, b: Any, rounds: int) -> dict[str, Any] | None:
    """Return the results of PETSc's process, or None if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "system.npz"
        np.savez(path, data=m.data, indices=m.indices, indptr=m.indptr, b=b)
        given = [*shlex.split(command), str(CHILD), str(path), str(RTOL), str(MAX_ITERATIONS), str(rounds)]
        done = subprocess.run(given, capture_output=True, text=True, check=False)
    found: dict[str, Any] | None = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
    return found


def rows(name: str, rounds: int, command: str | None) -> list[list[str]]:
    """Return the table's rows of one grid."""
    m = grid(*GRIDS[name])
    b = np.random.default_rng(0).random(m.shape[0])
    each = solvers(m, b)
    times: dict[str, list[float]] = {one: [] for one in each}
    residuals = {}
    for _ in range(rounds):
        for one, call in each.items():
            begun_s = time.perf_counter()
            x = call()
            times[one].append(time.perf_counter() - begun_s)
            residuals[one] = float(np.linalg.norm(b - m @ x) / np.linalg.norm(b))
    found = petsc(command, m, b, rounds) if command else None
    if found is not None:
        title = f"PETSc {found['version']}, cg, one process"
        times[title], residuals[title] = found["times_s"], found["residual"]
    reference = statistics.median(times["SciPy, cg"])
    made = []
    for one, some in times.items():
        middle = statistics.median(some)
        made.append([name, one, seconds(middle), f"{reference / middle:.2f}", f"{residuals[one]:.1e}"])
    return made


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--systems", default="grid 40^3,grid 500^2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--petsc", metavar="COMMAND", help="an interpreter that has petsc4py")
    parser.add_argument("--out", type=Path, help="file for the Markdown table")
    args = parser.parse_args()
    table = [["system", "solver", "time", "times as fast as SciPy", "residual over b"]]
    for name in args.systems.split(","):
        table += rows(name, args.rounds, args.petsc)
    print(text := markdown(table))
    if args.out is not None:
        args.out.write_text(f"{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
