"""`bench PATH`: autosparse against SciPy on one matrix or every matrix of a folder."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from autosparse.cli import show, timing
from autosparse.cli.errors import CommandError
from autosparse.cli.operands import Pair, add_common, at_least, chosen_options, columns, files
from autosparse.errors import AutosparseError

Row = dict[str, str | int | float | bool]


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of `bench`."""
    parser.add_argument("path", type=Path, help="a .mtx, .mtx.gz or .npz file, or a folder of them")
    parser.add_argument("--columns", type=columns, default=[1, 32, 256], metavar="N,N", help="columns of B (1,32,256)")
    parser.add_argument("--min-nnz", type=at_least(0), default=0, metavar="N", help="leave out smaller matrices")
    parser.add_argument(
        "--runs", type=at_least(1), default=10_000, metavar="N", help="products that tuning is to pay for"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the times")
    add_common(parser, effort="measure")


def run(arguments: argparse.Namespace) -> int:
    """Print a line per matrix and product, then the geometric mean per product."""
    rows: list[Row] = []
    with chosen_options(arguments):
        for path in files(arguments.path):
            try:
                pair = Pair.read(path, arguments.dtype)
            except AutosparseError as error:
                if not arguments.path.is_dir():
                    raise
                print(f"left out: {str(error).splitlines()[0]}", file=sys.stderr)
                continue
            if pair.theirs.nnz >= arguments.min_nnz:
                rows += [_measure(pair, n_columns, arguments) for n_columns in arguments.columns]
    if not rows:
        raise CommandError("no matrix was measured", cure="a smaller --min-nnz, or another folder")
    _summary(rows, arguments.columns)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


def _measure(pair: Pair, n_columns: int, arguments: argparse.Namespace) -> Row:
    B = pair.dense(n_columns)
    first_s = timing.once(lambda: pair.ours @ B)
    why = "default kernel"
    if arguments.effort != "off":
        plan = pair.ours.tune("matmul", columns=n_columns, runs=arguments.runs)
        why = show.schedule(plan)
    times_s = timing.race({"scipy": lambda: pair.theirs @ B, "ours": lambda: pair.ours @ B})
    row: Row = {
        "matrix": pair.name,
        "nnz": pair.theirs.nnz,
        "columns": n_columns,
        "dtype": str(pair.theirs.dtype),
        "scipy_s": times_s["scipy"],
        "ours_s": times_s["ours"],
        "first_s": first_s,
        "plan": why,
    }
    faster = show.factor(times_s["ours"], times_s["scipy"])
    times = f"{show.seconds(times_s['scipy']):>9} -> {show.seconds(times_s['ours']):>9}  {faster:>7}"
    print(f"{pair.name[:40]:<40} {pair.theirs.nnz:>11,} nnz  x{n_columns:<4} {times}", flush=True)
    return row


def _summary(rows: Sequence[Row], wanted: Sequence[int]) -> None:
    lines = []
    for n_columns in wanted:
        ratios = [float(row["scipy_s"]) / float(row["ours_s"]) for row in rows if row["columns"] == n_columns]
        numbers = (statistics.geometric_mean(ratios), min(ratios), max(ratios))
        lines.append((show.product(n_columns), str(len(ratios)), *(f"{number:.2f}x" for number in numbers)))
    print("\nSciPy's time over ours")
    print(show.table(("product", "matrices", "geomean", "worst", "best"), lines))
