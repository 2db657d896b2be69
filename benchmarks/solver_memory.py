"""Compare the peak memory of solves by SciPy and by autosparse with what a tuned matrix may take.

    python benchmarks/solver_memory.py
    python benchmarks/solver_memory.py --only cg,lsqr --sides 64,84 --seconds 12
    python benchmarks/solver_memory.py child CONTENDER SOLVER FILE SECONDS      # one process (Linux)

Each run is a fresh process with default settings and an empty cache: ``A = asp.csr(m)`` with `m` alive, then solves on
a grid of SIDE³ points for `--seconds`, so that tuning runs. The peak counts from the moment before `A` is made. Allowed
are SciPy's peak, the matrix's own copy, and the largest packed copies of A and Aᵀ at one time (rows of Aᵀ included).
`modules` is what autosparse takes beyond that on 20³, where no array has a megabyte: the library and its tuning.
`excess` is the peak beyond all of these, in MiB and as a multiple of the matrix. Values are `alike` (second
differences, whose few values are encoded) or `different`.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse
from peerlib.table import aligned
from solverlib.contenders import SOLVERS, library, taken
from solverlib.systems import System, grid
from solvers import child

MIB: Final = float(1 << 20)
SMALL: Final = 20
"""Points along each side of the grid that shows the memory of modules."""
SOLVED: Final = ("cg", "bicgstab", "minres", "gmres", "lsqr", "lsmr")
RTOL: Final = 1e-8
MAX_ITERATIONS: Final = 500


def bytes_of(name: str) -> int:
    """Return a field of the process's status, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    raise SystemExit(f"/proc/self/status has no {name}: this benchmark needs Linux")


def system(side: int, values: str) -> System:
    """Return the system of a grid, with `values` as the module's docstring says."""
    m, rng = grid(side, 3), np.random.default_rng(0)
    if values == "different":
        m.data *= 1.0 + 1e-3 * rng.random(m.nnz)
        m = scipy.sparse.csr_array((m + m.T) / 2)
    return System(m, rng.random(m.shape[0]), np.zeros((m.shape[0], 0)))


def solve(contender: str, solver: str, path: Path, seconds: float) -> dict[str, float]:
    """Solve for `seconds`; return the peak in bytes, and for autosparse the largest packed copies at one time."""
    packed_bytes = [0]
    with path.open("rb") as stream:  # making the system would leave free memory behind
        problem: System = pickle.load(stream)  # noqa: S301 (written by our own parent)
    lib, call = library(contender, solver), SOLVERS[solver].call
    if contender != "SciPy":
        _note_copies(packed_bytes)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    before_bytes, end_s = bytes_of("VmRSS"), time.perf_counter() + seconds
    A, is_first = taken(contender, problem.m), True
    while is_first or time.perf_counter() < end_s:
        _x = call(lib, A, problem, RTOL, MAX_ITERATIONS)  # alive during the next solve
        is_first = False
    m = problem.m
    return {
        "peak": bytes_of("VmHWM") - before_bytes,
        "packed": max(packed_bytes),
        "matrix": m.data.nbytes + m.indices.nbytes + m.indptr.nbytes,
    }


def _note_copies(packed_bytes: list[int]) -> None:
    """Append to `packed_bytes` the bytes of all copies beside the matrix's own whenever one is made."""
    from autosparse.dispatch import turned
    from autosparse.operands.packed_copies import PackedCopyCache

    take, made = PackedCopyCache.take, turned.TurnedRows.__init__
    rows_bytes = [0]

    def noted_take(self: Any, *args: Any, **how: Any) -> Any:
        found = take(self, *args, **how)
        packed_bytes.append(self.n_bytes + rows_bytes[0])
        return found

    def noted_rows(self: Any, *args: Any, **how: Any) -> None:
        made(self, *args, **how)
        rows_bytes[0] = self.n_bytes
        packed_bytes.append(self.n_bytes)

    PackedCopyCache.take = noted_take  # type: ignore[method-assign]
    turned.TurnedRows.__init__ = noted_rows  # type: ignore[method-assign]


def measured(contender: str, solver: str, path: Path, seconds: float) -> dict[str, float]:
    """Return what `solve` finds in a fresh process with an empty cache."""
    with tempfile.TemporaryDirectory(prefix="autosparse-memory-") as folder:
        given = (os.fspath(Path(__file__).resolve()), "child", contender, solver, path, seconds)
        found: dict[str, float] = json.loads(child(given, {"AUTOSPARSE_CACHE_DIR": folder}))
        return found


def beyond(solver: str, side: int, values: str, seconds: float) -> tuple[dict[str, float], float, float]:
    """Return what autosparse took, SciPy's peak, and the bytes beyond it and the copies."""
    with tempfile.NamedTemporaryFile(prefix="autosparse-memory-") as stream:
        pickle.dump(system(side, values), stream, protocol=5)
        stream.flush()
        ours = measured("autosparse", solver, Path(stream.name), seconds)
        theirs = measured("SciPy", solver, Path(stream.name), min(seconds, 3.0))["peak"]
    return ours, theirs, ours["peak"] - theirs - ours["matrix"] - ours["packed"]


def main(given: list[str]) -> int:
    """Measure and print a table."""
    if given[:1] == ["child"]:
        contender, solver, path, seconds = given[1:]
        print(json.dumps(solve(contender, solver, Path(path), float(seconds))))
        return 0
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", default=",".join(SOLVED), help="solvers, comma-separated")
    parser.add_argument("--sides", default="64,84", help="points along each side of the grids, comma-separated")
    parser.add_argument("--values", default="alike,different", help="kinds of values, comma-separated")
    parser.add_argument("--seconds", type=float, default=12.0, help="seconds of solves in each process")
    args = parser.parse_args(given)
    rows = [["solver", "side", "values", "matrix", "SciPy", "copies", "modules", "peak", "excess", "matrices"]]
    for solver in args.only.split(","):
        _, _, modules = beyond(solver, SMALL, "different", 2.0 * args.seconds)
        for side in map(int, args.sides.split(",")):
            for values in args.values.split(","):
                ours, theirs, rest = beyond(solver, side, values, args.seconds)
                copies, excess = ours["matrix"] + ours["packed"], rest - modules
                sizes = (ours["matrix"], theirs, copies, modules, ours["peak"], excess)
                shown = [f"{size / MIB:.1f}" for size in sizes]
                rows.append([solver, f"{side}^3", values, *shown, f"{excess / ours['matrix']:+.2f}"])
                print("  ".join(rows[-1]), flush=True)
    print(aligned(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
