"""Compare ``A @ x`` with SciPy on small problems while other processes keep every core busy.

    python benchmarks/busy.py --matrices DIR

A parallel region ends when its last thread does. If the operating system has suspended that thread, a product of 0.2 ms
can take 8 ms. Each sample therefore spans many scheduler slices, and totals are compared instead of medians.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from peerlib.environment import matrices_folder, start_again
from peerlib.matrices import find_matrices, load
from peerlib.records import ResultFile
from peerlib.streams import Stream, side_by_side
from peerlib.summary import Distribution
from peerlib.table import aligned, distribution_rows, seconds
from peerlib.timing import warm_up

SPIN = "while True: pass"


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--matrices", type=Path, default=matrices_folder(), help="folder of matrices, or one file")
    add("--min-nnz", type=int, default=2_000)
    add("--only", action="append", default=[], metavar="NAME")
    add("--limit", type=int)
    add("--below", type=float, default=1e-3, help="only matrices whose product takes SciPy less than this many seconds")
    add("--threads", type=int, default=2)
    add("--busy", type=int, default=2, help="number of other processes that spin")
    add("--seconds", type=float, default=2.0, help="measuring time per matrix")
    add("--dtype", choices=("float32", "float64"), default="float32")
    add("--json", type=Path)
    parsed = parser.parse_args(given)
    if parsed.matrices is None:
        parser.error("no folder of matrices: give --matrices DIR or set AUTOSPARSE_MATRICES")
    return parsed


@contextmanager
def busy_cores(n_processes: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run `n_processes` processes that spin for the duration of the block."""
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(n_processes)]
    try:
        yield spinning
    finally:
        for process in spinning:
            process.kill()
        for process in spinning:
            process.wait()


def compare(m: Any, args: argparse.Namespace) -> dict[str, Any] | None:
    """Return totals of autosparse's and SciPy's streams beside busy processes, or None if the product is too long."""
    import autosparse

    x = np.random.default_rng(0).standard_normal(m.shape[1]).astype(m.dtype)
    quiet_s = warm_up(lambda: m @ x, 0.005)
    if quiet_s >= args.below:
        return None
    A = autosparse.csr(m, copy=True)
    warm_up(lambda: A @ x, 0.005)
    with busy_cores(args.busy):
        for run in (lambda: A @ x, lambda: m @ x):
            warm_up(run, 0.1)
        totals = side_by_side(Stream(lambda: A @ x), Stream(lambda: m @ x), n_calls=10**9, most_s=args.seconds)
    n = totals.n_measured
    paced = {"ours_s": totals.first_s / n, "scipy_s": totals.second_s / n}
    return {"ratio": totals.ratio(), "quiet_scipy_s": quiet_s, "n_calls": n, **paced}


def main() -> int:
    """Measure and print."""
    args = arguments()
    start_again(args.threads)
    from peerlib.machine import machine_facts

    from autosparse.config import set_options

    set_options(threads=args.threads, effort="off")
    results = ResultFile(args.json)
    results.append({"kind": "run", **machine_facts()})
    ratios = []
    for file in find_matrices(args.matrices, min_nnz=args.min_nnz, only=tuple(args.only), limit=args.limit):
        found = compare(load(file.path, dtype=args.dtype), args)
        if found is None:
            continue
        ratios.append(found["ratio"])
        results.append({"kind": "case", "key": file.name, "matrix": file.name, **found})
        times = f"ours {seconds(found['ours_s'])}  scipy {seconds(found['scipy_s'])}"
        print(f"{file.name:32s} {found['ratio']:.3f}  {times}  (quiet {seconds(found['quiet_scipy_s'])})", flush=True)
    if ratios:
        print(f"\nour time / SciPy's with {args.busy} busy neighbours")
        print(aligned(distribution_rows([("A @ x", Distribution.of(ratios))])), f"  most {max(ratios):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
