"""The process that makes a system or solves it with one contender, and nothing else.

python -m solverlib.child prepare NAME KIND DTYPE FILE
python -m solverlib.child solve CONTENDER SOLVER FILE RTOL MOST SECONDS
python -m solverlib.child orders SOLVER FILE RTOL MOST

Prints one line of JSON. Imports are not timed. `first_s` is the time to take the matrix into service and of the first
solve after it; `wall_s` is the median of the solves that follow, for `SECONDS` and at least one. `orders` prints
residuals of SciPy's solver for the same system with its unknowns and equations in other orders.
"""

from __future__ import annotations

import json
import pickle
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse.linalg

from solverlib.contenders import SOLVERS, library, taken
from solverlib.systems import System, make

ORDERS: Final = 6
"""Orders of summation of the solves that show how far residuals depend on rounding."""


def prepare(name: str, kind: str, dtype: str, path: Path) -> dict[str, Any]:
    """Keep the system in a file."""
    system = make(name, kind, dtype)
    if system is None:
        return {"is_there": False}
    with path.open("wb") as stream:
        pickle.dump(system, stream, protocol=5)
    return {"is_there": True, "rows": system.n, "entries": int(system.m.nnz)}


def touch(system: System) -> None:
    """Touch as much memory as a solve takes, and free it: a virtual machine fetches pages from its host first."""
    np.ones(max(1, 12 * system.B.nbytes // 64 + 2 * system.m.data.nbytes // 8))


def solve(contender: str, solver: str, path: Path, *, rtol: float, most: int, seconds: float) -> dict[str, Any]:
    """Solve again and again; times, iterations as the solver tells them, and the true residual."""
    with path.open("rb") as stream:
        system: System = pickle.load(stream)  # noqa: S301 (written by our own parent)
    lib, call = library(contender), SOLVERS[solver].call
    touch(system)
    cpu_s, begun_s = time.process_time(), time.perf_counter()
    A = taken(contender, system.m)
    if contender == "prototype":
        lib.prepare(A)
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
    """Return |b - A x| / |b| and |A^T (b - A x)| / (|A| |b|), the largest of several right sides; |A| by Frobenius."""
    b = (system.B if x.ndim == 2 else system.b).astype(np.float64)
    m = system.m.astype(np.float64)
    r = b - m @ x
    sizes = np.linalg.norm(b, axis=0)
    normal = np.linalg.norm(m.T @ r, axis=0) / (scipy.sparse.linalg.norm(m) * sizes)
    return {"residual": float(np.max(np.linalg.norm(r, axis=0) / sizes)), "normal_residual": float(np.max(normal))}


def orders(solver: str, path: Path, *, rtol: float, most: int) -> dict[str, list[float]]:
    """Return the residuals of `ORDERS` solves by SciPy: each sums in an order of its own."""
    with path.open("rb") as stream:
        system: System = pickle.load(stream)  # noqa: S301 (written by our own parent)
    found: dict[str, list[float]] = {"residual": [], "normal_residual": []}
    for seed in range(ORDERS):
        shuffled = system.permuted(np.random.default_rng(seed))
        x, _ = SOLVERS[solver].call(library("SciPy"), shuffled.m, shuffled, rtol, most)
        for name, value in residuals(shuffled, x).items():
            found[name].append(value)
    return found


def main(given: list[str]) -> int:
    """The command line."""
    if given[0] == "prepare":
        print(json.dumps(prepare(given[1], given[2], given[3], Path(given[4]))))
        return 0
    if given[0] == "orders":
        solver, path, rtol, most = given[1:]
        print(json.dumps(orders(solver, Path(path), rtol=float(rtol), most=int(most))))
        return 0
    contender, solver, path, rtol, most, seconds = given[1:]
    print(json.dumps(solve(contender, solver, Path(path), rtol=float(rtol), most=int(most), seconds=float(seconds))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
