"""Command `tune PATH`: find the plan for one product and store it for later processes."""

from __future__ import annotations

import argparse
from pathlib import Path

from autosparse import log
from autosparse.cli import show
from autosparse.cli.operands import Pair, add_columns, add_common, add_runs, chosen_options
from autosparse.ops import MATMUL


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tune`."""
    parser.add_argument("path", type=Path, help="a .mtx, .mtx.gz or .npz file")
    add_columns(parser, default="1", note=", a vector")
    add_runs(parser)
    parser.add_argument("--transposed", action="store_true", help="tune A.T @ B instead of A @ B")
    parser.add_argument(
        "--hybrid",
        action="store_const",
        const=True,
        help="search for plans that store the matrix in several parts, too (hybrid formats)",
    )
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Tune for each number of columns in turn and print the plans found."""
    with chosen_options(arguments):
        pair = Pair.read(arguments.path, arguments.dtype)
        print(pair, flush=True)
        matrix = pair.ours.T if arguments.transposed else pair.ours
        for n_columns in arguments.columns:
            wanted = {"columns": n_columns, "runs": arguments.runs, "effort": arguments.effort}
            plan = matrix.tune(MATMUL.name, **wanted, progress=log.progress_line())
            spent = "remembered" if plan.remembered else f"found in {show.seconds(plan.tune_s + plan.pack_s)}"
            print(f"{show.product(n_columns, transposed=arguments.transposed)}: {show.schedule(plan)}")
            print(f"  {spent}: {plan.why}")
            if plan.measured_s is not None and plan.default_s is not None:
                print(f"  {show.seconds(plan.measured_s)}, default kernel {show.seconds(plan.default_s)}")
    return 0
