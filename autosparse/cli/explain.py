"""Command `explain PATH`: show what would run for a product of a matrix, and why; --effort tunes it first."""

from __future__ import annotations

import argparse
from pathlib import Path

from autosparse.cli.operands import Pair, add_columns, add_common, chosen_options, writable
from autosparse.cli.show import CommandError
from autosparse.ops import MATMUL


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `explain`."""
    parser.add_argument("path", type=Path, help="a .mtx, .mtx.gz or .npz file")
    add_columns(parser, default="1", note=", a vector")
    parser.add_argument("--transposed", action="store_true", help="explain A.T @ B instead of A @ B")
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="write the explanation as an HTML page, too (with one number of columns)",
    )
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the explanation for each number of columns."""
    if arguments.html is not None:
        writable("--html", arguments.html)
        if len(arguments.columns) > 1:
            widths = ",".join(map(str, arguments.columns))
            raise CommandError(
                f"--html writes one page, --columns {widths} names several", hint="pass one number of columns"
            )
    with chosen_options(arguments):
        pair = Pair.read(arguments.path, arguments.dtype)
        print(pair)
        matrix = pair.ours.T if arguments.transposed else pair.ours
        for n_columns in arguments.columns:
            if arguments.effort is not None:
                matrix.tune(MATMUL.name, columns=n_columns, effort=arguments.effort)
            explanation = matrix.explain(pair.dense(n_columns, transposed=arguments.transposed))
            print(f"\n{explanation}")
        if arguments.html is not None:
            explanation.html(arguments.html)
            print(f"\nwritten: {arguments.html}")
    return 0
