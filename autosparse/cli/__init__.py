"""Command line interface ``python -m autosparse COMMAND``, with one module per sub-command.

A sub-command is a module with `configure(parser)` and `run(arguments) -> int`, and a row of `COMMANDS`. Nothing outside
this package prints. The exit status is 0 on success, 1 on failure (a message and a hint go to stderr), 2 for wrong
usage, and 130 after an interrupt.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from autosparse._version import __version__
from autosparse.errors import AutosparseError

COMMANDS: Final[Mapping[str, str]] = {
    "demo": "tune the products of a real matrix and compare their times with SciPy's",
    "bench": "compare the times of autosparse and SciPy on one matrix or on all matrices of a folder",
    "tune": "search for the fastest plan for a product of a matrix, and remember it",
    "explain": "show which plan a product of a matrix would use, and why",
    "collect": "measure schedules on many sparsity patterns, as training data for cost models",
    "train": "train a cost model on the measurements of `collect`",
    "calibrate": "measure the rates of this machine for cost models",
    "transfer": "predict the best programs for an accelerator that a file describes, from a few measurements",
    "cache": "list, show, clear, export or import remembered plans and kernels",
    "report": "write a page that shows what tuning cost and saved, from the records of the cache",
    "doctor": "check this installation: compiler, processor, optional packages, GPU, cache",
}
"""Help text of each sub-command, by name; the module `autosparse.cli.<name>` implements it."""
EXAMPLES: Final[Mapping[str, str]] = {
    "demo": "demo",
    "bench": "bench matrices/ --columns 1,32 --json times.json",
    "tune": "tune matrix.mtx --columns 32 --effort full --budget-s 20",
    "explain": "explain matrix.npz --columns 32 --html plan.html",
    "collect": "collect --out measurements --ops spmv --seconds 3600",
    "train": "train --data measurements --op spmv --extractor boosted --out run",
    "calibrate": "calibrate --undo",
    "transfer": "transfer spade a.mtx b.mtx --plan to-measure.csv",
    "cache": "cache ls",
    "report": "report page.html",
    "doctor": "doctor",
}
"""Example of each sub-command's use, by name, shown at the end of its help."""


def make_parser() -> argparse.ArgumentParser:
    """Create the argument parser of all sub-commands."""
    parser = argparse.ArgumentParser(
        prog="python -m autosparse", description="SciPy sparse matrices that tune themselves."
    )
    parser.add_argument("--version", action="version", version=f"autosparse {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        example = f"Example: python -m autosparse {EXAMPLES[name]}"
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", epilog=example)
        importlib.import_module(f"{__name__}.{name}").configure(command)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status of the process."""
    arguments = make_parser().parse_args(argv)
    command = importlib.import_module(f"{__name__}.{arguments.command}")
    try:
        status = int(command.run(arguments))
        sys.stdout.flush()  # here, where a closed pipe is no error
        return status
    except BrokenPipeError:  # `| head` closed the pipe: flushing at exit must not fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (AutosparseError, OSError, MemoryError) as error:
        print(f"autosparse {arguments.command}: {error or type(error).__name__}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was found until now is kept", file=sys.stderr)
        return 130
