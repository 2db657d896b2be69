"""Command `bench PATH`: compare the times of autosparse and SciPy on one matrix or all matrices of a folder."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from autosparse import log
from autosparse.cli import show, timing
from autosparse.cli.operands import (
    Pair,
    add_columns,
    add_common,
    add_count,
    add_runs,
    chosen_options,
    files,
    folder_to_write,
    writable,
)
from autosparse.cli.show import CommandError
from autosparse.config import Effort, get_options
from autosparse.errors import AutosparseError
from autosparse.ops import MATMUL

Row = dict[str, str | int | float | bool]
BAR_TEXT = 40
"""Maximum length of the text beside the progress bar, so that the next line of output covers it."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bench`."""
    parser.add_argument("path", type=Path, help="a .mtx, .mtx.gz or .npz file, or a folder of them")
    add_columns(parser, default="1,32,256")
    add_count(parser, "--min-nnz", "skip matrices with fewer stored entries", least=0, default=0)
    add_runs(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measured times to this file, too")
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="measure on the workers of this Dask scheduler; --json is then a folder"
    )
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Time products against SciPy; print a line per matrix and product, then geometric means per product."""
    if arguments.scheduler is not None:
        return _on_cluster(arguments)
    if arguments.json is not None:
        writable("--json", arguments.json)
    rows: list[Row] = []
    progress, paths = log.progress_line(), list(files(arguments.path))
    try:
        with chosen_options(arguments):
            for n_done, path in enumerate(paths):
                progress(n_done / len(paths), path.name[:BAR_TEXT])
                _measure_file(path, arguments, rows)
        progress(1.0, "")
    finally:  # also of an interrupted run
        if rows and arguments.json is not None:
            arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if not rows:
        if arguments.json is not None:
            arguments.json.write_text("[]\n", encoding="utf-8")
        raise CommandError("no matrix was measured", hint="pass a smaller --min-nnz, or another folder")
    _summary(rows, arguments.columns)
    return 0


def _on_cluster(arguments: argparse.Namespace) -> int:
    """Measure on a Dask cluster, once per matrix and kind of machine; results in the folder are not repeated."""
    if arguments.json is None:
        raise CommandError("times from a cluster are kept in a folder", hint="pass --json FOLDER")
    folder_to_write("--json", arguments.json)
    paths = list(files(arguments.path))
    words = ["--columns", ",".join(map(str, arguments.columns)), "--min-nnz", str(arguments.min_nnz)]
    for name in ("dtype", "effort", "runs", "budget_s"):
        if (value := getattr(arguments, name)) is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    from distributed import Client

    from autosparse.dask.benchmarking import ClusterBench

    n_files, progress = 0, log.progress_line()
    with Client(arguments.scheduler) as client:
        bench = ClusterBench(client, lambda: paths, arguments.json, words, arguments.threads)
        for done in bench.run():
            n_files += 1
            progress(min(0.999, n_files / len(paths)), f"{n_files:,} new files")  # each kind of machine adds its own
            ratios = [f"x{row['columns']} {row['scipy_s'] / row['ours_s']:.2f}" for row in done.result]
            print(
                f"{done.machine:<15} {done.kind} {done.job.name[:40]:<40} {', '.join(ratios) or 'too small'}",
                flush=True,
            )
    print(f"{n_files:,} new files in {arguments.json}")
    return show.left_out((one.job.name, one.kind, one.reason) for one in bench.failed)


def _measure_file(path: Path, arguments: argparse.Namespace, rows: list[Row]) -> None:
    """Append a row for each number of columns to `rows`; unusable files of a folder are reported and skipped."""
    try:
        pair = Pair.read(path, arguments.dtype)
        if pair.theirs.nnz >= arguments.min_nnz:
            for n_columns in arguments.columns:
                rows.append(_measure(pair, n_columns, arguments))  # noqa: PERF401  an interrupt keeps earlier rows
    except (AutosparseError, OSError, MemoryError) as error:
        if not arguments.path.is_dir():
            raise
        reason = (str(error) or type(error).__name__).splitlines()[0]
        print(f"left out: {path.name}: {reason.replace(str(path), path.name)}", file=sys.stderr)


def _measure(pair: Pair, n_columns: int, arguments: argparse.Namespace) -> Row:
    B = pair.dense(n_columns)
    first_s = timing.once(lambda: pair.ours @ B)
    why = "default kernel"
    if get_options().effort is not Effort.OFF:
        plan = pair.ours.tune(MATMUL.name, columns=n_columns, runs=arguments.runs, effort=arguments.effort)
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
    print("\nspeedup: SciPy's time / autosparse's time")
    print(show.table(("product", "matrices", "geomean", "worst", "best"), lines))
