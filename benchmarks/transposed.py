"""Time C = A.T @ B of tall skinny CSR, and of wide CSC, against SciPy.

    python benchmarks/transposed.py --json transposed.jsonl

The benchmark shows false sharing: threads that write to each other's cache lines of C. A is (rows, cols) with 3 entries
per row; B has `columns` columns. Each case alternates with SciPy, into new results and with `out=` at 16 bytes after a
cache line, where NumPy's large arrays begin. The table has (time of SciPy) / (our time), followed by the least ratio.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse
from peerlib.environment import start_again
from peerlib.records import ResultFile
from peerlib.table import markdown
from peerlib.timing import Protocol, take_turns

LINE: Final = 64
LATE: Final = 16
ENTRIES: Final = 3


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--rows", type=int, default=1_000_000)
    add("--cols", default="10,100,1000,100000")
    add("--columns", default="1,4,16,17,24,32,64")
    add("--dtypes", default="float64,float32")
    add("--threads", type=int, default=2)
    add("--rounds", type=int, default=7)
    add("--json", type=Path, help="JSON lines: results are appended")
    return parser.parse_args(given)


def late_output(rows: int, columns: int, dtype: str) -> Any:
    """Return an array (rows, columns) that begins 16 bytes after a cache line."""
    item = np.dtype(dtype).itemsize
    room = np.empty(rows * columns + 2 * LINE // item, dtype)
    start = (-room.ctypes.data % LINE + LATE) // item
    return room[start : start + rows * columns].reshape(rows, columns)


def measure(args: argparse.Namespace, n_cols: int, columns: int, dtype: str) -> dict[str, float]:
    """Return the median seconds of one product by contender."""
    import autosparse as asp

    rng = np.random.default_rng(0)
    indices = rng.integers(0, n_cols, ENTRIES * args.rows, dtype=np.int32)
    indptr = np.arange(0, ENTRIES * args.rows + 1, ENTRIES, dtype=np.int32)
    values = rng.standard_normal(indices.size).astype(dtype)
    M = scipy.sparse.csr_array((values, indices, indptr), shape=(args.rows, n_cols))
    A, W = asp.csr(M, copy=True), asp.csc(M.T, copy=True)
    B = rng.standard_normal((args.rows, columns)).astype(dtype)
    out, T, V = late_output(n_cols, columns, dtype), M.T, A.T
    runs: dict[str, Callable[[], Any]] = {
        "scipy": lambda: T @ B,
        "csr.T": lambda: V @ B,
        "csr.T out=": lambda: asp.matmul(V, B, out=out),
        "csc": lambda: W @ B,
    }
    return {name: one.median_s for name, one in take_turns(runs, Protocol(rounds=args.rounds, most_s=3.0)).items()}


def main() -> int:
    """Measure and print the table."""
    args = arguments()
    start_again(args.threads)
    import autosparse as asp

    results = ResultFile(args.json)
    rows = [["dtype", "cols", "columns", "SciPy, ms", "csr.T", "csr.T out=", "csc"]]
    worst = float("inf")
    axes = args.dtypes.split(","), map(int, args.cols.split(",")), map(int, args.columns.split(","))
    with asp.options(effort="off", threads=args.threads):
        for dtype, n_cols, columns in itertools.product(*axes):
            times = measure(args, n_cols, columns, dtype)
            facts = {"dtype": dtype, "cols": n_cols, "columns": columns, "threads": args.threads}
            results.append(
                {"kind": "case", "key": f"{dtype}|{n_cols}|{columns}|{args.threads}", **facts, "times": times}
            )
            ratios = [times["scipy"] / times[name] for name in ("csr.T", "csr.T out=", "csc")]
            worst = min(worst, *ratios)
            rows.append(
                [dtype, str(n_cols), str(columns), f"{times['scipy'] * 1e3:.1f}", *(f"{r:.2f}" for r in ratios)]
            )
    print(f"{markdown(rows)}\n\nleast {worst:.2f} times SciPy's speed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
