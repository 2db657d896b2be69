"""Measure the gain of tuning for three ways of holding a matrix: a copy of a live original, `copy=True`, shared.

    python benchmarks/ownership.py --json ownership.jsonl --seconds 80
    python benchmarks/ownership.py --json ownership.jsonl --report ownership.md

For every matrix, operation and dtype three matrices are made from one of SciPy's, which stays alive: `asp.csr(m)`,
`asp.csr(m, copy=True)` and `asp.csr(m, copy=False)`. Each is tuned by `effort="measure"` without a stored plan. The
three and a matrix with the default kernel are then timed in alternation. A gain is (time of the default kernel) / (time
of the plan), in medians over rounds, with products into new results. An interrupted run continues where it stopped.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from peerlib.environment import matrices_folder
from peerlib.machine import machine_facts
from peerlib.matrices import load
from peerlib.records import ResultFile
from peerlib.table import markdown
from sweeplib.cases import one_of_each_group

HOLDINGS: Final[Mapping[str, dict[str, Any]]] = {"alive": {}, "copied": {"copy": True}, "shared": {"copy": False}}
"""Keyword arguments of `asp.csr` by the name of the holding."""
PRODUCTS: Final = (("matmul", 1), ("matmul", 8), ("matmul", 32), ("matmul", 256), ("sddmm", 256))
SAMPLE_S: Final = 1e-3
"""Minimum duration of one sample in seconds; short products are repeated to fill it."""
BELOW: Final = 0.97
"""Ratio below which a case is counted as slower."""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--matrices", type=Path, default=matrices_folder(), help="folder with an index.csv")
    add("--groups", type=int, default=82, help="number of groups; one matrix of each is measured")
    add("--max-nnz", type=int, default=2_000_000)
    add("--budget", type=float, default=0.5, help="maximum seconds of one tuning")
    add("--rounds", type=int, default=15)
    add("--seconds", type=float, default=float("inf"), help="begin no case after this many seconds")
    add("--cache", type=Path, help="keep compiled kernels in this folder (default: a temporary one)")
    add("--json", type=Path, help="JSON lines; results are appended and not measured again")
    add("--report", type=Path, help="write the table of --json to this page and measure nothing")
    return parser.parse_args(given)


def operands_of(matrix: Any, operation: str, columns: int) -> tuple[Any, ...]:
    """Return the dense operands of a product with `matrix`, which all contenders read.

    Operands of their own would begin at different distances from a cache line, which changes the time of a product with
    eight columns of float64 by up to a third.
    """
    draw, (n_rows, n_cols) = np.random.default_rng(0), matrix.shape
    if operation == "sddmm":
        return tuple(draw.standard_normal((extent, columns)).astype(matrix.dtype) for extent in (n_rows, n_cols))
    shape = (n_cols,) if columns == 1 else (n_cols, columns)
    return (draw.standard_normal(shape).astype(matrix.dtype),)


def run_of(matrix: Any, operation: str, operands: tuple[Any, ...]) -> Callable[[], Any]:
    """Return a function that computes one product with `matrix`."""
    import autosparse as asp

    if operation == "sddmm":
        X, Y = operands
        return lambda: asp.sddmm(matrix, X, Y.T)
    (B,) = operands
    return lambda: matrix @ B


def sample_s(run: Callable[[], Any], n: int) -> float:
    """Return the mean seconds of `n` products in a row; each result lives until the next one exists."""
    start_s = time.perf_counter()
    for _ in range(n):
        kept = run()
    taken_s = time.perf_counter() - start_s
    del kept
    return taken_s / n


def measure(M: Any, operation: str, columns: int, args: argparse.Namespace) -> dict[str, Any]:
    """Tune the three holdings of `M` and return the gain of each over the default kernel."""
    import autosparse as asp
    from autosparse import cache
    from autosparse.config import get_options

    operands = operands_of(M, operation, columns)
    contenders = {"default": run_of(asp.csr(M), operation, operands)}
    why = {}
    for name, given in HOLDINGS.items():
        cache.open_store(get_options()).forget(("plan",))
        held = asp.csr(M, **given)
        plan = held.tune(operation, columns=columns, effort="measure", budget_s=args.budget)
        why[name] = str(plan.schedule) if plan.schedule is not None else "default"
        contenders[name] = run_of(held, operation, operands)
    once_s = min(sample_s(run, 2) for run in contenders.values())
    n = max(1, round(SAMPLE_S / once_s))
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(args.rounds):
        for name, run in contenders.items():
            taken[name].append(sample_s(run, n))
    medians = {name: statistics.median(times) for name, times in taken.items()}
    gains = {name: round(medians["default"] / medians[name], 4) for name in HOLDINGS}
    return {"gains": gains, "default_s": medians["default"], "plans": why}


def collect(args: argparse.Namespace, results: ResultFile) -> None:
    """Measure the cases that `results` lacks, until the time is over."""
    from autosparse.config import set_options

    cache_dir = args.cache or Path(tempfile.mkdtemp())
    set_options(overhead=0.0, cache_dir=cache_dir)  # no lazy tuning
    known = {record["key"] for record in results.cases()}
    rows = one_of_each_group(args.matrices, n_groups=args.groups, nnz=(20_000, args.max_nnz), seed=0)
    results.append({"kind": "run", **machine_facts()})
    end_s = time.monotonic() + args.seconds
    for row in rows:
        for dtype in ("float32", "float64"):
            for operation, columns in PRODUCTS:
                key = f"{row['name']}|{dtype}|{operation}|{columns}"
                if key in known:
                    continue
                if time.monotonic() > end_s:
                    return
                M = load(args.matrices / f"{row['name']}.npz", dtype=dtype)
                record = {"kind": "case", "key": key, "matrix": row["name"], "dtype": dtype}
                record |= {"product": f"{operation} {columns}", **measure(M, operation, columns, args)}
                results.append(record)
                print(key, record["gains"], flush=True)


def row_of(product: str, dtype: str, records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one row of the table."""
    gains = {name: [record["gains"][name] for record in records] for name in HOLDINGS}
    beside = [alive / copied for alive, copied in zip(gains["alive"], gains["copied"], strict=True)]
    shared = gains["shared"]
    return [
        product,
        dtype,
        str(len(records)),
        *(f"{statistics.geometric_mean(gains[name]):.2f}" for name in HOLDINGS),
        f"{statistics.geometric_mean(beside):.3f}",
        f"{min(beside):.2f}",
        f"{min(shared):.2f}",
        str(sum(gain < BELOW for gain in shared)),
    ]


HEADER: Final = [
    *("product", "dtype", "matrices", "gain, m alive", "gain, copy=True", "gain, copy=False"),
    *("alive / copied", "least", "least gain shared", f"shared below {BELOW}"),
]


def report(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the table as Markdown."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for record in records:
        found.setdefault((record["product"], record["dtype"]), []).append(record)
    return markdown([HEADER, *(row_of(*which, found[which]) for which in found)])


def main() -> int:
    """Measure, or write the page."""
    args = arguments()
    with tempfile.TemporaryDirectory() as folder:
        results = ResultFile(args.json or Path(folder) / "ownership.jsonl")
        if args.report:
            text = (__doc__ or "").split("\n\n", 2)[2]
            args.report.write_text(f"# Ways of holding a matrix\n\n{text}\n{report(results.cases())}\n")
            return 0
        collect(args, results)
        print(report(results.cases()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
