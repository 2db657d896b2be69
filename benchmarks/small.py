"""Time every common operation on small matrices with SciPy's class and autosparse's, where Python dominates.

    python benchmarks/small.py [--sizes 10,100,1000] [--dtypes float64,float32,int64] [--only TEXT] [--part K/N]
        [--json FILE]
    python benchmarks/small.py --report --json FILE [--table FILE]

Contenders alternate in shuffled rounds in one process; times are medians. An operation misses the target if it takes
more than 1.3 times SciPy's time and more than 2 us longer; it is then marked with "!". Rows "after A @ x" use matrices
that were multiplied before, so that autosparse checks their arrays for modifications. `A = csr(m)`, which copies `m`,
with some products has its own bound: it must not take longer than SciPy's products, plus `m.copy()` for fewer than
three products (`--only "csr(m); A" --sizes 200,2000,20000,200000,2000000` for 1e3 to 1e7 entries).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse
from peerlib.environment import start_again
from peerlib.machine import machine_facts
from peerlib.records import ResultFile
from peerlib.shares import add_part, machine_line, share
from peerlib.small_operations import OPERATIONS, Operation, Setting
from peerlib.table import aligned, markdown, seconds
from peerlib.timing import Protocol, Timing, take_turns

RATIO: Final = 1.3
MORE_S: Final = 2e-6
MAX_LINES: Final = 40
"""Maximum number of operations of which the table shows all."""
NEAR: Final = 1.05
"""Ratio to SciPy's time up to which longer tables leave an operation out."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Median times of one operation on one matrix."""

    operation: str
    n: int
    dtype: str
    multiplied: bool  # whether A was multiplied before
    scipy_s: float
    ours_s: float
    has_bound: bool = False  # must not exceed SciPy's time

    @property
    def ratio(self) -> float:
        """Our time over SciPy's."""
        return self.ours_s / self.scipy_s

    @property
    def more_s(self) -> float:
        """Our time minus SciPy's, in seconds."""
        return self.ours_s - self.scipy_s

    @property
    def misses(self) -> bool:
        """Return whether the target is missed."""
        return self.ratio > 1.0 if self.has_bound else self.ratio > RATIO and self.more_s > MORE_S

    @property
    def name(self) -> str:
        """Name of the row in the table."""
        return f"{self.operation}, after A @ x" if self.multiplied else self.operation


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--sizes", default="10,100,1000")
    parser.add_argument("--dtypes", default="float64,float32,int64")
    parser.add_argument("--only", default="", help="operations whose name contains this")
    parser.add_argument("--state", choices=("fresh", "multiplied", "both"), default="both")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sample-us", type=float, default=400.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="append rows to this file")
    parser.add_argument("--table", type=Path, help="write the table as Markdown")
    add_part(parser)
    parser.add_argument("--report", action="store_true", help="print the table of --json and measure nothing")
    return parser.parse_args(given)


def matrix(n: int, dtype: str) -> Any:
    """Return a pentadiagonal n x n matrix of integers, as a plain csr_array."""
    diagonals = [np.full(n - abs(k), k + 3) for k in (-2, -1, 0, 1, 2)]
    return scipy.sparse.diags_array(diagonals, offsets=[-2, -1, 0, 1, 2], shape=(n, n), format="csr", dtype=dtype)


def runs(operation: Operation, n: int, dtype: str, *, multiplied: bool) -> dict[str, Callable[[], Any]]:
    """Return the operation with SciPy's class and with autosparse's."""
    import autosparse

    made = {}
    for name, library in (("scipy", scipy.sparse), ("ours", autosparse)):
        m = matrix(n, dtype)
        A = getattr(library, f"{operation.format}_array")(m.copy())
        if multiplied:
            A @ np.ones(n, dtype)
        made[name] = operation.prepare(Setting(library=library, m=m, A=A, n=n, dtype=dtype))
    return made


def measure(args: argparse.Namespace) -> Iterator[Row]:
    """Time the selected operations, row by row."""
    protocol = Protocol(rounds=args.rounds, sample_s=args.sample_us * 1e-6, warm_s=args.sample_us * 2e-7)
    states = {"fresh": (False,), "multiplied": (True,), "both": (False, True)}[args.state]
    for operation in share([one for one in OPERATIONS if args.only in one.name], args.part):
        for n in map(int, args.sizes.split(",")):
            for dtype in args.dtypes.split(","):
                for multiplied in states if operation.has_state else states[:1]:
                    found = take_turns(runs(operation, n, dtype, multiplied=multiplied), protocol)
                    yield _row(operation, n, dtype, multiplied and operation.has_state, found)


def _row(operation: Operation, n: int, dtype: str, multiplied: bool, found: dict[str, Timing]) -> Row:
    return Row(
        operation=operation.name, n=n, dtype=dtype, multiplied=multiplied, has_bound=operation.has_bound,
        scipy_s=found["scipy"].median_s, ours_s=found["ours"].median_s,
    )  # fmt: skip


def table(rows: Sequence[Row]) -> list[list[str]]:
    """Return a line per operation and state; for each size it shows the dtype that is farthest from the target.

    Of more than `MAX_LINES` operations, only those with a ratio above `NEAR` at some size have a line; the last line
    counts the others.
    """
    sizes = sorted({row.n for row in rows})
    lines = [["", *(f"n = {n}: SciPy" if show == "" else show for n in sizes for show in ("", "ratio", "more"))]]
    names, slower = dict.fromkeys(row.name for row in rows), {row.name for row in rows if row.ratio > NEAR}
    is_long = len(names) > MAX_LINES
    for name in names:
        if is_long and name not in slower:
            continue
        line = [name]
        for n in sizes:
            found = [row for row in rows if row.name == name and row.n == n]
            worst = max(found, key=lambda row: (row.misses, min(row.ratio / RATIO, row.more_s / MORE_S)), default=None)
            line += ["-"] * 3 if worst is None else _cells(worst)
        lines.append(line)
    if is_long:
        text = f"{len(names) - len(slower)} other operations: at most {NEAR} at every size"
        lines.append([text, *["-"] * (len(lines[0]) - 1)])
    return lines


def _cells(row: Row) -> list[str]:
    mark = "!" if row.misses else ""
    return [f"{seconds(row.scipy_s)} {row.dtype}", f"{row.ratio:.2f}{mark}", f"{row.more_s * 1e6:+.1f} us"]


def summary(rows: Sequence[Row]) -> str:
    """Format the number of missed targets and the geometric mean of the ratios."""
    missed = [row for row in rows if row.misses]
    target = f"above {RATIO} x SciPy's time and {MORE_S * 1e6:.0f} us more, or above their own bound"
    text = f"{len(rows)} cases, {len(missed)} miss the target ({target})"
    ratios = [row.ratio for row in rows]
    return f"{text}; geomean of ratios {float(np.exp(np.mean(np.log(ratios)))):.2f}" if rows else text


def main() -> int:
    """Measure and print."""
    args = arguments()
    if args.report:
        rows = kept_rows(args.json)
    else:
        start_again(args.threads)
        from autosparse.config import set_options

        set_options(effort="off", threads=args.threads)
        rows = list(measure(args))
        if args.json:
            _append(args.json, rows)
    print(aligned(table(rows)))
    print(summary(rows))
    if args.table:
        args.table.write_text(page(args.json, rows), encoding="utf-8")
    return 0


def kept_rows(path: Path) -> list[Row]:
    """Return the rows of a result file, the newest of each operation, size and dtype."""
    cases = (line for line in ResultFile(path).lines() if line["kind"] == "case")
    read = (Row(**{name: value for name, value in line.items() if name != "kind"}) for line in cases)
    return list({(row.name, row.n, row.dtype): row for row in read}.values())


def page(path: Path | None, rows: Sequence[Row]) -> str:
    """Return the table of `rows` as Markdown, with the machine that the result file `path` names."""
    facts = [line for line in ResultFile(path).lines() if line["kind"] == "machine"]
    told = f"\n\n{machine_line(facts[-1])}" if facts else ""
    return f"{markdown(table(rows))}\n\n{summary(rows)}{told}\n"


def _append(path: Path, rows: Sequence[Row]) -> None:
    with path.open("a", encoding="utf-8") as file:
        print(json.dumps({"kind": "machine", **machine_facts()}), file=file)
        for row in rows:
            print(json.dumps({"kind": "case", **dataclasses.asdict(row)}), file=file)


if __name__ == "__main__":
    sys.exit(main())
