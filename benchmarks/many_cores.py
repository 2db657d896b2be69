"""Measure how products scale with threads, against MKL, torch and plain OpenMP C: one command of at most five minutes.

    python benchmarks/many_cores.py                 # 1, 2, 4, 8, 16 threads, those that the machine has
    python benchmarks/many_cores.py --quick         # half a minute
    python benchmarks/many_cores.py --json out.json

It needs no data and no compiler: matrices are generated, and autosparse's kernels are those compiled at installation.
MKL takes part if its package is installed, torch likewise, and the OpenMP loops if there is a C compiler. Each number
of threads has a process of its own, in which the contenders alternate. A ratio is a contender's median time over
autosparse's: above 1, autosparse is faster. `alone` is autosparse's time on one thread over its time on these threads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from peerlib.case import Case, Operation, UnavailableError
from peerlib.environment import child_environment, start_again
from peerlib.registry import PEERS
from peerlib.timing import SETTLE_S, Protocol, take_turns

THREADS: Final = (1, 2, 4, 8, 16)
OPERATIONS: Final = ("spmv", "spmm32", "spmm256", "sddmm32")
CONTENDERS: Final = ("autosparse-out", "mkl-hint", "torch-out", "torch", "openmp", "scipy")
LIMIT_S: Final = 270.0
"""Seconds of all measurements together; what remains is divided among the cases that are left."""


def matrices(n: int) -> dict[str, Any]:
    """Return generated matrices of n rows: a five-point grid, uniform rows, and rows of very different lengths."""
    side, rng = int(n**0.5), np.random.default_rng(0)
    line = sps.diags_array([np.ones(side - 1), np.ones(side), np.ones(side - 1)], offsets=[-1, 0, 1])
    grid = sps.kron(line, sps.eye_array(side)) + sps.kron(sps.eye_array(side), line)
    lengths = np.minimum(rng.zipf(1.8, n) + 1, n // 8)
    found = {"grid": grid, "uniform": _rows(np.full(n, 12), n, rng), "skewed": _rows(lengths, n, rng)}
    return {name: sps.csr_array(m) for name, m in found.items()}


def _rows(lengths: np.ndarray, n: int, rng: np.random.Generator) -> Any:
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    m = sps.csr_array((rng.standard_normal(indptr[-1]), rng.integers(0, n, indptr[-1], dtype=np.int32), indptr))
    m.sum_duplicates()
    m.resize(n, n)
    return m


def measure(threads: int, dtype: str, limit_s: float, n: int) -> list[dict[str, Any]]:
    """Return a record for each case on `threads` threads: the median seconds of each contender."""
    cases = [(name, m.astype(dtype), op) for name, m in matrices(n).items() for op in OPERATIONS]
    ends_at, records = time.perf_counter() + limit_s, []
    for done, (name, m, op) in enumerate(cases):
        case = Case.of(name, m, Operation.parse(op), threads=threads, effort="off", budget_s=0.0, seed=0)
        prepared = {}
        for peer in PEERS:
            if peer.name in CONTENDERS and peer.can_run(case.operation, dtype):
                try:
                    prepared[peer.name] = peer.prepared(case)
                except (UnavailableError, OSError, RuntimeError) as error:
                    sys.stderr.write(f"{peer.name} is left out: {error}\n")
        left_s = (ends_at - time.perf_counter()) / (len(cases) - done)
        protocol = Protocol(rounds=15, most_s=max(0.1, left_s), settle_s=SETTLE_S)
        timings = take_turns({one: it.run for one, it in prepared.items()}, protocol)
        for it in prepared.values():
            it.close()
        records.append({**case.facts(), "median_s": {one: timing.median_s for one, timing in timings.items()}})
    return records


def table(records: list[dict[str, Any]]) -> str:
    """Return the report: autosparse's time, its speed over one thread, and each contender's time over its own."""
    own = CONTENDERS[0]
    known = {(r["matrix"], r["operation"], r["threads"]): r["median_s"] for r in records}
    names = [name for name in CONTENDERS[1:] if any(name in found for found in known.values())]
    lines = [f"| matrix | operation | threads | ms | alone | {' | '.join(names)} |", f"|{'---|' * (5 + len(names))}"]
    for (matrix, operation, threads), found in sorted(known.items()):
        alone = known.get((matrix, operation, 1), found)[own] / found[own]
        ratios = (f"{found[name] / found[own]:.2f}" if name in found else "" for name in names)
        lines.append(
            f"| {matrix} | {operation} | {threads} | {1e3 * found[own]:.3f} | {alone:.2f} | {' | '.join(ratios)} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure on each number of threads and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", default="float32", choices=("float32", "float64"))
    parser.add_argument("--quick", action="store_true", help="smaller matrices, half a minute")
    parser.add_argument("--smallest", action="store_true", help="matrices of 900 rows, for a test of the command")
    parser.add_argument("--json", type=Path, help="file for the records")
    parser.add_argument("--threads", help="numbers of threads, separated by commas (default: 1 to 16, as there are)")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    n_cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    counts = [int(one) for one in given.threads.split(",")] if given.threads else [n for n in THREADS if n <= n_cpus]
    n_rows, limit_s = (900, 1.0) if given.smallest else (60_000, 24.0) if given.quick else (400_000, LIMIT_S)
    if given.child:
        start_again(given.child)
        sys.stdout.write(json.dumps(measure(given.child, given.dtype, limit_s / len(counts), n_rows)))
        return 0
    records: list[dict[str, Any]] = []
    for n in counts:
        command = [sys.executable, *sys.argv, "--child", str(n)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=child_environment())
        records += json.loads(done.stdout)
    sys.stdout.write(f"{table(records)}\n")
    if given.json:
        given.json.write_text(json.dumps(records, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
