"""Measure what dense rows apart from the rest gain under `measure`, for finite elements with 40 half-filled rows.

    python benchmarks/dense_rows.py [--threads 2] [--budget-s 5] [--table PAGE.md]
    python benchmarks/dense_rows.py --quick        # one small generated matrix, to try the script out

Each matrix is tuned twice for the same number of seconds with an empty cache: with composites of dense rows (the
default) and without (`hybrid=False`). The two are then timed in alternation, medians, float32, new results.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from peerlib import hybrid_cases as made
from peerlib.environment import matrices_folder
from peerlib.table import markdown

import autosparse as asp
from autosparse.config import set_options

MATRICES: Final = ("elast_cube_sphere_r1", "elast_bunny", "cotan_nefertiti", "elast_indheat")
COLUMNS: Final = 256
ROUNDS: Final = 15
RUNS: Final = 1_000_000
"""Expected products, with which every search of the budget pays."""
WAYS: Final[dict[str, dict[str, Any]]] = {"with": {}, "without": {"hybrid": False}}


def small() -> Any:
    """Return the 5-point stencil on a 60 x 60 grid in float32."""
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(60, 60))
    return made.typed(sp.kronsum(line, line, format="csr"))


def matrices(*, quick: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield (name, function that makes the matrix without its dense rows)."""
    if quick:
        yield "stencil 60 x 60", small
        return
    for name in MATRICES:
        yield name, partial(made.real, name)


def seconds(m: Any, budget_s: float, threads: int) -> tuple[dict[str, float], bool]:
    """Return the median seconds of a product by each way, and whether the plan with composites is one."""
    B = np.random.default_rng(0).standard_normal((m.shape[1], COLUMNS)).astype(np.float32)
    tuned, plans = {}, {}
    for name, options in WAYS.items():
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, asp.options(threads=threads, **options):
            set_options(cache_dir=folder)
            tuned[name] = asp.csr(m.copy())
            plans[name] = tuned[name].tune("matmul", columns=COLUMNS, runs=RUNS, effort="measure", budget_s=budget_s)
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(ROUNDS):
        for name, options in WAYS.items():
            with asp.options(threads=threads, **options):
                start = time.perf_counter()
                tuned[name] @ B
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in times.items()}, " + " in str(plans["with"])


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--budget-s", type=float, default=5.0)
    parser.add_argument("--quick", action="store_true", help="one small matrix, half a second of search")
    parser.add_argument("--table", type=Path, help="write the table as Markdown")
    args = parser.parse_args()
    if not args.quick and matrices_folder() is None:
        parser.error("no folder of matrices: set AUTOSPARSE_MATRICES")
    rows, gains = [["matrix", "entries", "without", "with composites", "gain", "plan is a composite"]], []
    for name, make in matrices(quick=args.quick):
        m = made.with_dense_rows(make())
        found, is_composite = seconds(m, 0.5 if args.quick else args.budget_s, args.threads)
        gains.append(found["without"] / found["with"])
        cells = (f"{1e3 * found[way]:.1f} ms" for way in ("without", "with"))
        rows.append([name, f"{m.nnz:,}", *cells, f"{gains[-1]:.2f}", "yes" if is_composite else "no"])
        print(" | ".join(rows[-1]), flush=True)
    rows.append(["geometric mean", "", "", "", f"{math.exp(statistics.mean(map(math.log, gains))):.2f}", ""])
    print(" | ".join(rows[-1]))
    if args.table:
        args.table.write_text(markdown(rows) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
