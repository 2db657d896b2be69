"""Solves of small systems in every form: `python solvers.py --part small` and its child process.

    python -m solverlib.small SOLVER DTYPE ROUNDS N_FORKS

The child prints a line of JSON for each number of unknowns and form: plain, with a diagonal `M`, with a callback, with
`x0`, and with a LinearOperator as A. In each round SciPy and autosparse alternate in blocks of about `BLOCK_S`. The
ratio is SciPy's median time over autosparse's, with a 90 % interval (bootstrap over rounds). `first` is the time beyond
SciPy's of preparing the matrix and of the first solve, each in a forked process: the median of `N_FORKS` pairs.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from programlib.race import ENOUGH, N_DRAWS

from solverlib.systems import SMALL, System, make

BLOCK_S: Final = 2e-3
COUNTS: Final = (25, 3)
"""Numbers of rounds, and of forked pairs of first solves."""
MAX_LATE_S: Final = 0.01
"""Seconds that preparing the matrix and the first solve may take beyond SciPy's."""
MAX_ITERATIONS: Final = 100
TOLERANCE: Final = 1e-3
N_VALUES: Final = 4
"""Number of eigenvalues, singular values, and columns of `lobpcg`."""
SQUARE: Final = ("cg", "bicgstab", "gmres", "cgs", "qmr", "minres")
SOLVERS: Final = (*SQUARE, "lsqr", "lsmr", "lobpcg", "expm_multiply", "eigsh", "svds", "spsolve_triangular")
DTYPES: Final = ("float32", "float64", "complex128")
FORMS: Final = ("plain", "M", "callback", "x0", "operator")
Solve = Callable[[Any, Any], object]
"""Function (module of solvers, A) that solves once."""


def forms(solver: str, dtype: str) -> tuple[str, ...]:
    """Return the forms in which a solver can be called; none if it does not take the dtype."""
    if solver == "minres" and dtype == "complex128":
        return ()
    refused = {"lsqr": "M callback", "lsmr": "M callback", "lobpcg": "callback", "svds": "M callback x0"}
    refused |= {"eigsh": "M callback x0", "expm_multiply": "M callback x0"}
    if solver == "spsolve_triangular":
        return ("plain",)
    return tuple(form for form in FORMS if form not in refused.get(solver, ""))


def system_of(solver: str, dtype: str, n: int) -> System:
    """Return the system with `n` unknowns that a solver is timed with."""
    unsymmetric = solver in ("bicgstab", "gmres", "cgs", "qmr", "lsqr", "lsmr", "svds", "spsolve_triangular")
    kind = "decaying" if solver == "expm_multiply" else "unsymmetric" if unsymmetric else "definite"
    system = make(f"n = {n}", kind, dtype)
    assert system is not None
    m = scipy.sparse.csr_array(scipy.sparse.tril(system.m)) if solver == "spsolve_triangular" else system.m
    return System(m, system.b, np.ascontiguousarray(system.B[:, :N_VALUES]))


def solve_of(solver: str, form: str, system: System) -> Solve:
    """Return a function that solves the system in this form."""
    b, n = system.b, system.n
    M = scipy.sparse.diags_array(1.0 / system.m.diagonal()) if form == "M" else None
    how: dict[str, Any] = {}
    if solver in SQUARE:
        how = {"rtol": TOLERANCE, "maxiter": 5 if solver == "gmres" else MAX_ITERATIONS}
        if M is not None:
            as_operator = scipy.sparse.linalg.aslinearoperator  # SciPy's qmr takes nothing else
            identity = scipy.sparse.eye_array(n)
            how |= {"M1": as_operator(M), "M2": as_operator(identity)} if solver == "qmr" else {"M": M}
        if form == "callback":
            how |= {"callback": lambda _: None} | ({"callback_type": "pr_norm"} if solver == "gmres" else {})
    elif solver in ("lsqr", "lsmr"):
        how = {"atol": TOLERANCE, "btol": TOLERANCE, "iter_lim" if solver == "lsqr" else "maxiter": MAX_ITERATIONS}
    elif solver == "lobpcg":
        how = {"tol": TOLERANCE, "maxiter": 10} | ({} if M is None else {"M": M})
    elif solver in ("eigsh", "svds"):
        how = {"k": min(N_VALUES, n // 3), "tol": 1e-2, "v0": b}  # random vectors would take numbers of their own
    if form == "x0" and (solver in SQUARE or solver in ("lsqr", "lsmr")):
        how["x0"] = np.full(n, 0.5, b.dtype)
    given = () if solver in ("eigsh", "svds") else (system.B if solver == "lobpcg" else b,)

    def solve(lib: Any, A: Any) -> object:
        return getattr(lib, solver)(A, *(one.copy() if solver == "lobpcg" else one for one in given), **how)

    return solve


def taken(lib: Any, m: Any, form: str) -> Any:
    """Return the operand as a user of the library prepares it."""
    import autosparse as asp

    A = asp.csr(m) if lib is asp.linalg else m
    return scipy.sparse.linalg.aslinearoperator(A) if form == "operator" else A


def seconds_of(solve: Solve, lib: Any, A: Any, n: int) -> float:
    """Return the mean time of `n` solves."""
    begun_s = time.perf_counter()
    for _ in range(n):
        solve(lib, A)
    return (time.perf_counter() - begun_s) / n


def steady(solve: Solve, operands: dict[Any, Any], n_rounds: int) -> dict[str, Any]:
    """Return the times and the ratio of repeated solves; the libraries alternate."""
    times: dict[Any, list[float]] = {lib: [] for lib in operands}
    counts = {}
    for lib, A in operands.items():
        seconds_of(solve, lib, A, 3)
        counts[lib] = max(1, int(BLOCK_S / seconds_of(solve, lib, A, 2)))
    for at in range(n_rounds):
        for lib in list(operands)[:: 1 if at % 2 else -1]:
            times[lib].append(seconds_of(solve, lib, operands[lib], counts[lib]))
    theirs, ours = times.values()
    rng, middle = random.Random(0), statistics.median
    ratios = sorted(
        middle(rng.choices(theirs, k=n_rounds)) / middle(rng.choices(ours, k=n_rounds)) for _ in range(N_DRAWS // 4)
    )
    low, high = ratios[len(ratios) // 20], ratios[-len(ratios) // 20]
    return {
        "least": min(theirs) / min(ours),
        "ratio": middle(theirs) / middle(ours),
        "interval": (low, high),
        "SciPy_s": middle(theirs),
    }


def first_s(solve: Solve, lib: Any, m: Any, form: str) -> float:
    """Return the seconds of preparing the matrix and of the first solve in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        begun_s = time.perf_counter()
        solve(lib, taken(lib, m, form))
        os.write(writing, str(time.perf_counter() - begun_s).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        told = stream.read()
    os.waitpid(child, 0)
    return float(told)


def cases(solver: str, dtype: str, n_rounds: int, n_forks: int) -> Iterator[dict[str, Any]]:
    """Yield the record of every number of unknowns and form."""
    import autosparse.linalg

    libraries = scipy.sparse.linalg, autosparse.linalg
    for lib in libraries:
        getattr(lib, solver)  # loads the module, as `from ... import solver` does
    selected = [(n, form, system_of(solver, dtype, n)) for n in SMALL for form in forms(solver, dtype)]
    firsts = {}
    for n, form, system in selected:  # before this process has solved anything
        solve, beyond = solve_of(solver, form, system), []
        for _ in range(n_forks):
            theirs_s, ours_s = (first_s(solve, lib, system.m, form) for lib in libraries)
            beyond.append(ours_s - theirs_s)
        firsts[n, form] = statistics.median(beyond) if beyond else 0.0
    for n, form, system in selected:
        operands = {lib: taken(lib, system.m, form) for lib in libraries}
        found = steady(solve_of(solver, form, system), operands, n_rounds)
        yield {"solver": solver, "dtype": dtype, "n": n, "form": form, "first_s": firsts[n, form], **found}


def table(records: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return a row for each solver, dtype and form: the least ratio by number of unknowns, and the slowest first."""
    rows = [["solver", "dtype", "form", *(f"n = {n:,}" for n in SMALL), "first"]]
    for key in dict.fromkeys((one["solver"], one["dtype"], one["form"]) for one in records):
        own = {one["n"]: one for one in records if (one["solver"], one["dtype"], one["form"]) == key}
        ratios = [f"{own[n]['ratio']:.2f}" for n in SMALL]
        rows.append([*key, *ratios, f"{max(one['first_s'] for one in own.values()) * 1e3:+.1f} ms"])
    return rows


def misses(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each case whose interval reaches below SciPy's speed, or whose first solve is too slow."""
    found = []
    for one in records:
        (low, high), late_s = one["interval"], one["first_s"]
        if low < ENOUGH or late_s > MAX_LATE_S:
            name = f"{one['solver']}, {one['dtype']}, n = {one['n']}, {one['form']}"
            found.append(f"{name}: {one['ratio']:.2f} ({low:.2f} to {high:.2f}), first {late_s * 1e3:+.1f} ms")
    return found or ["no miss"]


def main(given: list[str]) -> int:
    """Run the child process."""
    solver, dtype, n_rounds, n_forks = given
    for record in cases(solver, dtype, int(n_rounds), int(n_forks)):
        print(json.dumps(record), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
