"""Command `transfer TARGET`: rank programs for an accelerator from a few measured configurations."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

from autosparse.cli.operands import add_count, writable
from autosparse.cli.show import CommandError
from autosparse.errors import ScheduleError
from autosparse.tuner.research.targets.simulation import DEFAULT_OPERATION, OPERATIONS

TIME = "cycles"
"""Name of the column of measured times."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `transfer`."""
    parser.add_argument(
        "target", help="the accelerator: spade, small or wide, or a JSON file as docs/transfer.md describes it"
    )
    parser.add_argument("matrices", nargs="+", type=Path, metavar="MATRIX", help="the matrices (.npz or .mtx files)")
    doing = parser.add_mutually_exclusive_group(required=True)
    doing.add_argument(
        "--plan", type=Path, metavar="CSV",
        help="write the configurations to measure to this file, with cycles where the accelerator can be simulated",
    )  # fmt: skip
    doing.add_argument(
        "--samples",
        type=Path,
        metavar="CSV",
        help="read measurements from this file, and rank the programs for the matrices",
    )
    parser.add_argument(
        "--op", choices=list(OPERATIONS), default=DEFAULT_OPERATION, help=f"operation (default: {DEFAULT_OPERATION})"
    )
    add_count(parser, "--configurations", "configurations to measure per matrix", default=100)
    add_count(parser, "--top", "number of programs to show", default=5, metavar="K")


def run(arguments: argparse.Namespace) -> int:
    """Write a plan of measurements for an accelerator, or fit a model to measured times and rank programs."""
    from autosparse import accelerators

    try:
        target = accelerators.read(arguments.target)
    except FileNotFoundError:
        hint = "pass a name that ships, or a file that describes an accelerator"
        raise CommandError(f"there is no accelerator {arguments.target!r}", hint=hint) from None
    if arguments.plan is not None:
        return _plan(target, arguments)
    return _rank(target, arguments)


def _plan(target: Any, arguments: argparse.Namespace) -> int:
    from autosparse import accelerators
    from autosparse.tuner.research.targets.accelerator import ALL, PARAMETERS, UNBOUNDED
    from autosparse.tuner.research.transfer.source import to_measure

    writable("--plan", arguments.plan)
    rows = []
    for path in arguments.matrices:
        pattern = accelerators.pattern_of(_read(path))
        cycles = accelerators.times(target, pattern, operation=arguments.op) if target.machine else None
        for number in to_measure(target, pattern.shape, n=arguments.configurations):
            values = [ALL if one == UNBOUNDED else one for one in target.configurations[number].values]
            rows.append([str(path), *values, "" if cycles is None else cycles[number]])
    with arguments.plan.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["matrix", *PARAMETERS, TIME], *rows])
    filled = "simulated" if target.machine else f"fill in the column {TIME}"
    print(f"{len(rows)} samples of {len(arguments.matrices)} matrices in {arguments.plan}: {filled}")
    return 0


def _rank(target: Any, arguments: argparse.Namespace) -> int:
    from autosparse import accelerators

    measured = _measured(target, arguments.samples)
    sampled = {name: _read(Path(name)) for name in measured}
    model = accelerators.transfer(target, measured, sampled, operation=arguments.op)
    before, after = model.transferred.pairs
    gained = f"pairs in order on one left out, by the residual: {before:.3f} -> {after:.3f}"
    print(f"{len(measured)} matrices; {gained}; {model.correction}")
    for path in arguments.matrices:
        print(path)
        for number in model.ranking(_read(path), arguments.top):
            print(f"  {target.to_text(number)}")
    return 0


def _measured(target: Any, path: Path) -> dict[str, dict[int, float]]:
    """Read {matrix name: {configuration number: time}} from a CSV file; raise CommandError for a broken line."""
    found: dict[str, dict[int, float]] = {}
    if not path.is_file():
        raise CommandError(f"there is no {str(path)!r}", hint="pass a file that --plan wrote, with times")
    with path.open(encoding="utf-8", newline="") as file:
        for at, row in enumerate(csv.DictReader(file), start=2):
            try:
                values = {name: _number(text) for name, text in row.items() if name not in ("matrix", TIME)}
                found.setdefault(row["matrix"], {})[target.find(values)] = float(row[TIME])
            except (KeyError, ValueError, TypeError, ScheduleError) as error:
                reason = f"{path} line {at}: {error}"
                raise CommandError(reason, hint=f"keep the columns of --plan, with {TIME} in each line") from None
    return found


def _number(text: str) -> int | str:
    return int(text) if text.strip().isdecimal() else text


def _read(path: Path) -> Any:
    from autosparse.cli.operands import Pair

    return Pair.read(path).theirs
