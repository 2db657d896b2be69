"""Measure the overhead of a call and the import time, against SciPy.

python benchmarks/overhead.py
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import scipy.sparse
from peerlib.environment import start_again
from peerlib.table import aligned, seconds
from peerlib.timing import Protocol, take_turns

SIZES: Final = (10, 100, 1000)
PRODUCTS: Final[Mapping[str, Callable[[Any, np.ndarray], Any]]] = {
    "A @ x": lambda A, x: A @ x,
    "A.T @ x": lambda A, x: A.T @ x,
    "A @ B (4 columns)": lambda A, x: A @ x,
}
IMPORT: Final = "import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--imports", type=int, default=15, help="fresh processes per module")
    return parser.parse_args(given)


def tiny(n: int, columns: int) -> tuple[Any, np.ndarray]:
    """Return a tridiagonal n x n matrix and a dense operand."""
    m = scipy.sparse.diags_array([1.0, 2.0, 1.0], offsets=[-1, 0, 1], shape=(n, n), format="csr")
    return m, np.ones(n) if columns == 1 else np.ones((n, columns))


def call_rows(rounds: int) -> list[list[str]]:
    """Return rows with the times of tiny products: SciPy, autosparse, difference."""
    import autosparse

    rows = []
    for name, product in PRODUCTS.items():
        for n in SIZES:
            m, x = tiny(n, 4 if "B" in name else 1)
            A = autosparse.csr(m, copy=True)
            runs = {"scipy": lambda: product(m, x), "ours": lambda: product(A, x)}  # noqa: B023 (run in this turn)
            found = take_turns(runs, Protocol(rounds=rounds, sample_s=5e-3, warm_s=1e-3))
            theirs_s, ours_s = found["scipy"].median_s, found["ours"].median_s
            rows.append([name, str(n), seconds(theirs_s), seconds(ours_s), f"{(ours_s - theirs_s) * 1e6:+.2f} us"])
    return rows


def import_times_s(modules: Sequence[str], n_processes: int) -> dict[str, float]:
    """Return the median import time of each module over fresh processes that alternate."""
    samples: dict[str, list[float]] = {module: [] for module in modules}
    for _ in range(n_processes):
        for module in modules:
            command = [sys.executable, "-c", IMPORT.format(module=module)]
            samples[module].append(float(subprocess.check_output(command, text=True)))
    return {module: statistics.median(times) for module, times in samples.items()}


def main() -> int:
    """Measure and print."""
    args = arguments()
    start_again(args.threads)
    from autosparse.config import set_options

    set_options(effort="off", threads=args.threads)
    print(aligned([["", "n", "scipy", "ours", "difference"], *call_rows(args.rounds)]))
    used = "autosparse; autosparse.csr"  # also resolves a lazily imported name
    found = import_times_s(("scipy.sparse", "autosparse", used), args.imports)
    theirs_s = found.pop("scipy.sparse")
    print(f"\nimport scipy.sparse {seconds(theirs_s)}")
    for module, time_s in found.items():
        print(f"import {module} {seconds(time_s)} = {time_s / theirs_s:.2f} x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
