"""Time over fifty ways of writing products and related operations, untuned, with SciPy's classes and autosparse's.

    python benchmarks/spellings.py --json benchmarks/results/spellings.jsonl
    python benchmarks/spellings.py --only "A.T @ y;csc @ x" --sizes 400000
    python benchmarks/spellings.py --part 2/4 --json FILE
    python benchmarks/spellings.py --quick

Contenders alternate in one process. The ratio is the median over rounds of SciPy's time over ours, with a 90 % interval
(bootstrap over rounds). Rounds are added while the interval contains the goal. The goal is 0.97, and 2 for transposed
products and operands in Fortran order from 100,000 stored entries on. A spelling whose whole interval lies below its
goal is marked with "!", and the script then exits with status 1. Answers are compared before timing. `--quick` runs
every spelling once at the smallest size and enforces no goal.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from peerlib.environment import start_again
from peerlib.records import ResultFile
from peerlib.shares import add_part, machine_line, share
from peerlib.summary import Distribution
from peerlib.table import aligned, markdown, seconds
from spellinglib.catalogue import SIZES, SPELLINGS
from spellinglib.race import Protocol, race

QUICK = Protocol(rounds=1, most_rounds=1, sample_s=1e-5)
HEADER = ["spelling", "entries", "SciPy", "ours", "times as fast", "90 %", "goal"]


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--only", default="", help="names of spellings, separated by semicolons; default: all")
    add("--sizes", default=",".join(map(str, SIZES)), help="stored entries, comma-separated")
    add("--rounds", type=int, default=Protocol().rounds)
    add(
        "--most-rounds",
        type=int,
        default=Protocol().most_rounds,
        help="maximum of rounds, used while the interval contains the goal",
    )
    add("--threads", type=int, default=2)
    add("--quick", action="store_true", help="run every spelling once at the smallest size; goals are not enforced")
    add("--json", type=Path, help="JSON lines, appended to; a Markdown table is written beside it")
    add("--list", action="store_true", help="only print the spellings")
    add_part(parser)
    parsed = parser.parse_args(given)
    parsed.only = list(filter(None, parsed.only.split(";"))) or list(SPELLINGS)
    if unknown := set(parsed.only) - set(SPELLINGS):
        parser.error(f"no such spelling: {', '.join(sorted(unknown))}; --list prints all")
    parsed.sizes = [min(SIZES)] if parsed.quick else [int(size) for size in parsed.sizes.split(",")]
    if unfit := set(parsed.sizes) - set(SIZES):
        parser.error(f"--sizes: no matrix with {unfit.pop()} entries; there are {', '.join(map(str, SIZES))}")
    return parsed


def row(record: Mapping[str, Any]) -> list[str]:
    """Return one row of the table."""
    low, high = record["interval"]
    ratio = f"{record['ratio']:.2f}{'!' if record['misses'] else ''}"
    times = seconds(record["scipy_s"]), seconds(record["ours_s"])
    return [
        record["spelling"],
        f"{record['entries']:,}",
        *times,
        ratio,
        f"{low:.2f} to {high:.2f}",
        f"{record['goal']:g}",
    ]


def measure(args: argparse.Namespace, results: ResultFile) -> list[dict[str, Any]]:
    """Race every chosen spelling at every size; return the records."""
    from peerlib.machine import machine_facts

    protocol = QUICK if args.quick else Protocol(rounds=args.rounds, most_rounds=args.most_rounds)
    run_id = time.strftime("%Y-%m-%dT%H:%M:%S")
    results.append({"kind": "run", "run": run_id, "threads": args.threads, **machine_facts()})
    records = []
    for entries, name in share([(entries, name) for entries in args.sizes for name in args.only], args.part):
        found = race(SPELLINGS[name], entries, protocol).record()
        record = {"kind": "case", "run": run_id, "key": f"{name}, {entries}", "spelling": name, "entries": entries}
        record |= found
        results.append(record)
        records.append(record)
        print("  ".join(row(record)), flush=True)
    return records


def summary(records: Sequence[Mapping[str, Any]]) -> str:
    """Format the geometric mean and the spellings that miss their goals."""
    dist = Distribution.of([record["ratio"] for record in records])
    missed = sorted((record["ratio"], record["spelling"], record["entries"]) for record in records if record["misses"])
    listed = ", ".join(f"{key} ({entries:,}) {ratio:.2f}" for ratio, key, entries in missed) or "none"
    return f"{dist.n} cases: geomean {dist.geomean:.2f}, least {dist.least:.2f}; below their goal: {listed}"


def write_table(path: Path) -> None:
    """Write the newest results of every case in `path` as a Markdown table beside it."""
    results = ResultFile(path)
    order = list(SPELLINGS)
    records = sorted(results.cases(), key=lambda record: (record["entries"], order.index(record["spelling"])))
    facts = [line for line in results.lines() if line["kind"] == "run"][-1]
    text = "\n\n".join((markdown([HEADER, *map(row, records)]), summary(records), machine_line(facts)))
    path.with_suffix(".md").write_text(f"{text}\n", encoding="utf-8")


def main() -> int:
    """Measure and print."""
    args = arguments()
    if args.list:
        print("\n".join(SPELLINGS))
        return 0
    start_again(args.threads)
    from autosparse.config import set_options

    set_options(effort="off", threads=args.threads)
    records = measure(args, ResultFile(args.json))
    print(f"\n{aligned([HEADER, *map(row, records)])}\n\n{summary(records)}")
    if args.json is not None:
        write_table(args.json)
    return int(not args.quick and any(record["misses"] for record in records))


if __name__ == "__main__":
    sys.exit(main())
