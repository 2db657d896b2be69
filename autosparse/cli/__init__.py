"""The command line: `python -m autosparse COMMAND`. One file per sub-command; the only place that prints.

A sub-command is a module with `configure(parser)` and `run(arguments) -> int`, and a row of `COMMANDS`.
Exit status: 0 done, 1 could not be done (one line and a cure on stderr), 2 wrong usage, 130 interrupted.
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
    "demo": "plans and times on a real matrix, against SciPy",
    "bench": "autosparse against SciPy on a matrix or a folder of them",
    "tune": "find and remember the plan for one product of a matrix",
    "explain": "what would run for a matrix, and why",
    "collect": "measure schedules on many patterns: training data for cost models",
    "train": "learn a cost model from what `collect` measured",
    "calibrate": "fit learned cost models to this machine, so that tuning uses them",
    "transfer": "rank programs of an accelerator that a file describes, from a few samples",
    "cache": "what is remembered: ls, show, clear, export, import",
    "report": "a page of what was tuned, saved and lost in this cache",
    "doctor": "what autosparse found on this machine, and what is missing",
}
"""Name -> help; `autosparse.cli.<name>` has the rest."""


def make_parser() -> argparse.ArgumentParser:
    """The parser of all sub-commands."""
    parser = argparse.ArgumentParser(
        prog="python -m autosparse", description="SciPy sparse matrices that tune themselves."
    )
    parser.add_argument("--version", action="version", version=f"autosparse {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        importlib.import_module(f"{__name__}.{name}").configure(command)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the process's exit status."""
    arguments = make_parser().parse_args(argv)
    command = importlib.import_module(f"{__name__}.{arguments.command}")
    try:
        return int(command.run(arguments))
    except BrokenPipeError:  # `| head` closed the pipe: nothing is left to say, not even at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (AutosparseError, OSError, MemoryError) as error:
        print(f"autosparse {arguments.command}: {error or type(error).__name__}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was found until now is kept", file=sys.stderr)
        return 130
