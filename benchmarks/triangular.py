"""Time triangular solves, incomplete factorizations, and `cg` with them, against SciPy's functions.

    python benchmarks/triangular.py --out benchmarks/results/triangular.md
    python benchmarks/triangular.py --quick --parts solve

`solve`: the lower triangle of each square real matrix, made non-singular by a diagonal that exceeds the sum of its row;
SciPy's `spsolve_triangular`, ours at the first call, and ours afterwards on one and on several threads. A chain is a
triangle with less than `CHAIN` rows per level. `setup`: `ilu0` and SciPy's `spilu` without fill. `cg`: everything from
the matrix of SciPy's to the solution, with `ic0` and with `spilu` in its symmetric mode.

The contenders alternate in one process; times are medians. Real matrices are taken from the folder that
AUTOSPARSE_MATRICES names, else from ``../shared/matrices``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from autosparse._native import runtime_api
from peerlib.environment import matrices_folder
from peerlib.table import markdown, seconds
from solverlib.systems import GRIDS, REAL, grid, make

import autosparse as asp
from autosparse.linalg.triangular.triangle import Triangle, levels_of

PARTS: Final = ("solve", "setup", "cg")
CHAIN: Final = 4.0
"""Rows per level below which a triangle is a chain."""
RTOL: Final = 1e-8
MAX_ITERATIONS: Final = 150
QUICK: Final = {"max_entries": 30_000, "rounds": 1, "systems": 2}


def timed(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the median time of each call, taken in turn."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            begun_s = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begun_s)
    return {name: statistics.median(some) for name, some in times.items()}


def real_matrices(max_entries: int) -> Iterator[tuple[str, Any]]:
    """Yield the square real matrices in CSR with at most so many entries."""
    folder = matrices_folder()
    for path in sorted(folder.glob("*.npz")) if folder is not None else ():
        with np.load(path) as file:
            if "format" not in file or "data" not in file or len(set(file["shape"])) != 1:
                continue
            if file["data"].size > max_entries:
                continue
        yield path.stem, scipy.sparse.csr_array(scipy.sparse.load_npz(path)).astype(float)


def lower_triangle(m: Any) -> Any:
    """Return the lower triangle of `m` with a dominant diagonal."""
    strict = scipy.sparse.tril(m, -1)
    made = scipy.sparse.csr_array(strict + scipy.sparse.diags_array(abs(strict).sum(axis=1) + 1.0))
    made.sort_indices()
    return made


def rows_per_level(m: Any) -> float:
    """Return the mean number of rows of a level of a lower triangle."""
    strict = scipy.sparse.csr_array(scipy.sparse.tril(m, -1))
    index = strict.indptr.astype(np.int32), strict.indices.astype(np.int32)
    triangle = Triangle(index[0][:-1], index[0][1:], index[1], strict.data, None, is_backward=False)
    return float(triangle.n / max(1, levels_of(triangle, 1)[1]))


def solve_rows(args: argparse.Namespace) -> list[list[str]]:
    """Return the table of triangular solves, with geometric means at its end."""
    table = [["triangle", "rows", "entries", "rows per level", "SciPy", "ours, first", "1 thread", "ours", "ratio"]]
    ratios: dict[str, list[float]] = {"others": [], "chains": []}
    for name, m in real_matrices(args.max_entries):
        L = lower_triangle(m)
        b, A, alone = np.ones(L.shape[0]), asp.csr(L), asp.csr(L, copy=True)

        def on_one_thread(alone: Any = alone, b: Any = b) -> None:
            with asp.options(threads=1):
                asp.linalg.spsolve_triangular(alone, b)

        on_one_thread()
        first = timed({"ours": lambda A=A, b=b: asp.linalg.spsolve_triangular(A, b)}, 1)["ours"]
        theirs = {"SciPy": lambda L=L, b=b: scipy.sparse.linalg.spsolve_triangular(L, b)}
        ours = {"ours": lambda A=A, b=b: asp.linalg.spsolve_triangular(A, b), "1 thread": on_one_thread}
        took = timed(theirs, args.rounds) | timed(ours, 5 * args.rounds)
        width, ratio = rows_per_level(L), took["SciPy"] / took["ours"]
        ratios["chains" if width < CHAIN else "others"].append(ratio)
        table.append([
            name, f"{L.shape[0]:,}", f"{L.nnz:,}", f"{width:.1f}", seconds(took["SciPy"]), seconds(first),
            seconds(took["1 thread"]), seconds(took["ours"]), f"{ratio:.1f}",
        ])  # fmt: skip
    for kind, found in ratios.items():
        if found:
            mean = f"{statistics.geometric_mean(found):.1f} (least {min(found):.1f})"
            table.append([f"geometric mean of {len(found)} {kind}", *[""] * 7, mean])
    return table


def systems(args: argparse.Namespace) -> Iterator[tuple[str, Any, Any]]:
    """Yield (name, definite matrix, right-hand side) of grids and real matrices."""
    n_left, wanted = args.systems, set(filter(None, args.only.split(",")))
    for name in (*(one for one in GRIDS if np.prod([GRIDS[one][0]] * GRIDS[one][1]) <= args.max_entries), *REAL):
        if wanted and name not in wanted:
            continue
        if name in GRIDS:
            m = grid(*GRIDS[name])
            b = np.random.default_rng(0).random(m.shape[0])
        else:
            made = make(name, "definite", "float64") if matrices_folder() is not None else None
            if made is None or made.m.nnz > args.max_entries:
                continue
            m, b = made.m, made.b
        yield name, m, b
        n_left -= 1
        if not n_left:
            return


def setup_rows(args: argparse.Namespace) -> list[list[str]]:
    """Return the table of factorizations without fill."""
    table = [["matrix", "entries", "spilu, fill_factor=1", "its entries", "ilu0", "ratio"]]
    ratios = []
    for name, m, _ in systems(args):
        columns, A = m.tocsc(), asp.csr(m)
        how = {"fill_factor": 1, "drop_tol": 0, "permc_spec": "NATURAL", "diag_pivot_thresh": 0}
        factor = scipy.sparse.linalg.spilu(columns, **how)
        took = timed(
            {
                "spilu": lambda columns=columns, how=how: scipy.sparse.linalg.spilu(columns, **how),
                "ilu0": lambda A=A: asp.linalg.ilu0(A),
            },
            args.rounds,
        )
        ratios.append(took["spilu"] / took["ilu0"])
        table.append([
            name, f"{m.nnz:,}", seconds(took["spilu"]), f"{factor.nnz - m.shape[0]:,}", seconds(took["ilu0"]),
            f"{ratios[-1]:.1f}",
        ])  # fmt: skip
    if ratios:
        mean = f"{statistics.geometric_mean(ratios):.1f} (least {min(ratios):.1f})"
        table.append([f"geometric mean of {len(ratios)}", *[""] * 4, mean])
    return table


def with_spilu(m: Any, b: Any, count: Callable[[Any], None]) -> Any:
    """Solve as a user of SciPy does who knows that the preconditioner of `cg` must be symmetric."""
    symmetric = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
    factor = scipy.sparse.linalg.spilu(m.tocsc(), **symmetric)
    M = scipy.sparse.linalg.LinearOperator(m.shape, factor.solve)
    return scipy.sparse.linalg.cg(m, b, M=M, rtol=RTOL, maxiter=MAX_ITERATIONS, callback=count)


def with_ic0(m: Any, b: Any, count: Callable[[Any], None]) -> Any:
    """Solve by our functions, from the matrix of SciPy's on."""
    A = asp.csr(m)
    return asp.linalg.cg(A, b, M=asp.linalg.ic0(A), rtol=RTOL, maxiter=MAX_ITERATIONS, callback=count)


def cg_rows(args: argparse.Namespace) -> list[list[str]]:
    """Return the table of whole solves."""
    table = [["system", "unknowns", "cg with spilu", "iterations", "cg with ic0", "iterations", "ratio"]]
    ratios = []
    for name, m, b in systems(args):
        steps: dict[str, list[int]] = {"spilu": [], "ic0": []}
        info: dict[str, int] = {}

        def solve(kind: str, steps: Any = steps, info: Any = info, m: Any = m, b: Any = b) -> None:
            steps[kind].clear()
            call = with_spilu if kind == "spilu" else with_ic0
            info[kind] = call(m, b, lambda _: steps[kind].append(1))[1]

        took = timed({kind: lambda kind=kind, solve=solve: solve(kind) for kind in steps}, args.rounds)
        ratio = took["spilu"] / took["ic0"]
        ended = {kind: f"{len(steps[kind])}{'' if info[kind] == 0 else ', not converged'}" for kind in steps}
        ratios += [] if any(info.values()) else [ratio]
        table.append([
            name, f"{m.shape[0]:,}", seconds(took["spilu"]), ended["spilu"], seconds(took["ic0"]), ended["ic0"],
            f"{ratio:.2f}",
        ])  # fmt: skip
    if ratios:
        mean = f"{statistics.geometric_mean(ratios):.2f} (least {min(ratios):.2f})"
        table.append([f"geometric mean of {len(ratios)} where both converge", *[""] * 5, mean])
    return table


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--parts", default=",".join(PARTS), help=f"comma-separated, of {', '.join(PARTS)}")
    parser.add_argument("--max-entries", type=int, default=3_000_000, help="maximum number of entries of a matrix")
    parser.add_argument("--systems", type=int, default=100, help="maximum number of systems of setup and cg")
    parser.add_argument("--only", default="", help="names of systems of setup and cg, comma-separated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small matrices and one round, to check that it works")
    parser.add_argument("--out", type=Path, help="file for the Markdown tables")
    args = parser.parse_args()
    if args.quick:
        vars(args).update(QUICK)
    if not runtime_api.available:
        print("the C runtime is not there: nothing to measure")
        return 1
    makers = {"solve": solve_rows, "setup": setup_rows, "cg": cg_rows}
    text = "\n\n".join(f"## {part}\n\n{markdown(makers[part](args))}" for part in args.parts.split(","))
    print(text)
    if args.out is not None:
        args.out.write_text(f"{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
