"""Child process of solvers.py: make a system, or solve it with one contender.

    python -m solverlib.child prepare NAME KIND DTYPE FILE
    python -m solverlib.child solve CONTENDER SOLVER FILE RTOL MAX_ITERATIONS SECONDS
    python -m solverlib.child orders SOLVER FILE RTOL MAX_ITERATIONS N_ORDERS

It prints one line of JSON. Imports are not timed. `first_s` is the time of preparing the matrix and of the first solve;
`wall_s` is the median of the following solves, of which there is at least one, for `SECONDS`. `orders` prints residuals
of SciPy's solver for the same system with its unknowns and equations in other orders.
"""

from __future__ import annotations

import json
import pickle
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse.linalg

from solverlib.contenders import SOLVERS, library, prepare, taken
from solverlib.systems import System, make


def store(name: str, kind: str, dtype: str, path: Path) -> dict[str, Any]:
    """Store the system in a file."""
    system = make(name, kind, dtype)
    if system is None:
        return {"is_there": False}
    with path.open("wb") as stream:
        pickle.dump(system, stream, protocol=5)
    return {"is_there": True, "rows": system.n, "entries": int(system.m.nnz)}


def touch(system: System) -> None:
    """Touch and free as much memory as a solve takes: a virtual machine fetches new pages from its host slowly."""
    np.ones(max(1, 12 * system.B.nbytes // 64 + 2 * system.m.data.nbytes // 8))


def solve(contender: str, solver: str, path: Path, *, rtol: float, most: int, seconds: float) -> dict[str, Any]:
    """Solve repeatedly; return times, iterations as reported by the solver, and true residuals."""
    with path.open("rb") as stream:
        system: System = pickle.load(stream)  # noqa: S301 (written by our own parent)
    lib, call = library(contender, solver), SOLVERS[solver].call
    touch(system)
    cpu_s, begun_s = time.process_time(), time.perf_counter()
    A = taken(contender, system.m)
    if prepare(contender, A):
        begun_s = time.perf_counter()
    x, told = call(lib, A, system, rtol, most)
    first_s = time.perf_counter() - begun_s
    times, end_s = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end_s:
        at_s = time.perf_counter()
        x, told = call(lib, A, system, rtol, most)
        times.append(time.perf_counter() - at_s)
    made: dict[str, Any] = {
        "first_s": first_s, "wall_s": statistics.median(times), "n_solves": len(times) + 1,
        "cpu_s": time.process_time() - cpu_s, "told": int(np.max(told)),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }  # fmt: skip
    if SOLVERS[solver].residuals:
        made |= residuals(system, x)
    return made


def residuals(system: System, x: Any) -> dict[str, float]:
    """Return |b - A x| / |b| and |A^T (b - A x)| / (|A| |b|), with the Frobenius norm of A.

    For several right-hand sides the largest value is returned.
    """
    b = (system.B if x.ndim == 2 else system.b).astype(np.float64)
    m = system.m.astype(np.float64)
    r = b - m @ x
    sizes = np.linalg.norm(b, axis=0)
    normal = np.linalg.norm(m.T @ r, axis=0) / (scipy.sparse.linalg.norm(m) * sizes)
    return {"residual": float(np.max(np.linalg.norm(r, axis=0) / sizes)), "normal_residual": float(np.max(normal))}


def orders(solver: str, path: Path, *, rtol: float, most: int, n_orders: int) -> dict[str, list[float]]:
    """Return the residuals of `n_orders` solves by SciPy, each in another order of summation."""
    with path.open("rb") as stream:
        system: System = pickle.load(stream)  # noqa: S301 (written by our own parent)
    found: dict[str, list[float]] = {"residual": [], "normal_residual": []}
    for seed in range(n_orders):
        shuffled = system.permuted(np.random.default_rng(seed))
        x, _ = SOLVERS[solver].call(library("SciPy", solver), shuffled.m, shuffled, rtol, most)
        for name, value in residuals(shuffled, x).items():
            found[name].append(value)
    return found


def main(given: list[str]) -> int:
    """Run the command of the command line."""
    if given[0] == "prepare":
        print(json.dumps(store(given[1], given[2], given[3], Path(given[4]))))
        return 0
    if given[0] == "orders":
        solver, path, rtol, most, n_orders = given[1:]
        found = orders(solver, Path(path), rtol=float(rtol), most=int(most), n_orders=int(n_orders))
        print(json.dumps(found))
        return 0
    contender, solver, path, rtol, most, seconds = given[1:]
    print(json.dumps(solve(contender, solver, Path(path), rtol=float(rtol), most=int(most), seconds=float(seconds))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
