"""Measure the gain of tuning for the ways in which programs hold a matrix and change it between products.

    python benchmarks/holding.py --out benchmarks/results/holding.jsonl
    python benchmarks/holding.py --only "set all,scaled" --columns 1 --dtypes float64 --rounds 9
    python benchmarks/holding.py --out FILE --part 2/8
    python benchmarks/holding.py --quick

Each round of a case is a fresh process with an empty plan cache, in which SciPy, the default kernel and the tuned
matrix alternate. The gain is the median time of the default kernel over that of the tuned matrix, over rounds, with a
90 % interval (bootstrap over rounds). While the interval contains 0.97, rounds are added, up to `--most-rounds`. Lazy
tuning is off, except for ways that make a matrix for each product. `--quick` uses a small matrix, one round and few
products: it checks that everything runs, and its times have no meaning.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from holdinglib.ways import WAYS, Way
from peerlib.environment import child_environment
from peerlib.records import ResultFile
from peerlib.shares import add_part, machine_line, share
from peerlib.summary import Distribution
from peerlib.table import aligned, markdown
from programlib.race import ENOUGH, N_DRAWS, compile_bytecode

BENCHMARKS: Final = Path(__file__).resolve().parent
MATRICES: Final = ("grid", "random")
N_WINDOWS: Final = 40
N_PRODUCTS: Final = {1: 12, 32: 4}
"""Number of products in a window, by columns of the dense operand."""
HEADER: Final = ["way", "matrix", "columns", "dtype", "SciPy", "default", "tuned", "look", "gain", "90 %", "x SciPy"]


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--only", default="", help="names of ways, comma-separated; default: all")
    add("--columns", default="1,32", help="numbers of columns of the dense operand")
    add("--dtypes", default="float32,float64")
    add("--rounds", type=int, default=5, help="fresh processes per case")
    add(
        "--most-rounds",
        type=int,
        default=15,
        help="maximum of rounds, used while the interval of the gain contains 0.97",
    )
    add("--out", type=Path, help="JSON lines, appended to; a Markdown table of the newest results is written beside it")
    add("--quick", action="store_true", help="use a small matrix and few products, to check that everything runs")
    add("--list", action="store_true", help="only print the ways")
    add_part(parser)
    parsed = parser.parse_args(given)
    parsed.only = [name.strip() for name in parsed.only.split(",") if name.strip()] or list(WAYS)
    if unknown := set(parsed.only) - set(WAYS):
        parser.error(f"no such way: {', '.join(sorted(unknown))}; there are {', '.join(WAYS)}")
    parsed.columns = [int(one) for one in parsed.columns.split(",")]
    parsed.dtypes = parsed.dtypes.split(",")
    return parsed


def run_once(way: Way, case: Mapping[str, Any], *, quick: bool) -> dict[str, Any]:
    """Run one round in a fresh process and return its result."""
    n_windows, n_products = (2, 3) if quick else (N_WINDOWS, N_PRODUCTS.get(case["columns"], 4))
    given = (way.name, case["matrix"], case["columns"], case["dtype"], n_windows, n_products)
    with tempfile.TemporaryDirectory(prefix="autosparse-holding-") as cache:
        settings = {"AUTOSPARSE_CACHE_DIR": cache} | ({} if way.anew else {"AUTOSPARSE_OVERHEAD": "0"})
        done = subprocess.run(
            [sys.executable, "-m", "holdinglib.child", *map(str, given)],
            capture_output=True, text=True, check=False,
            env=child_environment(PYTHONPATH=str(BENCHMARKS), **settings),
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{way.name} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def interval(rounds: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Return the 5th and 95th percentile of the gain over bootstrap draws of the rounds, as `programs.py` does."""
    rng, n = random.Random(0), len(rounds)
    default, tuned = ([one["median_us"][name] for one in rounds] for name in ("default", "tuned"))
    gains = sorted(
        statistics.median(rng.choices(default, k=n)) / statistics.median(rng.choices(tuned, k=n))
        for _ in range(N_DRAWS)
    )
    return gains[N_DRAWS // 20], gains[-N_DRAWS // 20]


def measured(way: Way, case: Mapping[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """Run the rounds of a case and return its record."""
    rounds: list[dict[str, Any]] = []
    while len(rounds) < (1 if args.quick else args.rounds):
        rounds.append(run_once(way, case, quick=args.quick))
    while not args.quick and len(rounds) < args.most_rounds:
        low, high = interval(rounds)
        if not low < ENOUGH <= high:
            break
        rounds.append(run_once(way, case, quick=False))
    median_us = {
        name: statistics.median(one["median_us"][name] for one in rounds) for name in ("scipy", "default", "tuned")
    }
    looks = [one["look_us"] for one in rounds if one["look_us"] is not None]
    gain = median_us["default"] / median_us["tuned"]
    return {
        "median_us": median_us, "gain": gain, "interval": interval(rounds), "rounds": rounds,
        "look_us": statistics.median(looks) if looks else None, "times_scipy": median_us["scipy"] / median_us["tuned"],
    }  # fmt: skip


def row(record: Mapping[str, Any]) -> list[str]:
    """Return one row of the table."""
    times = [f"{record['median_us'][name]:.0f} us" for name in ("scipy", "default", "tuned")]
    look = "-" if record["look_us"] is None else f"{record['look_us']:.1f} us"
    spread = "{:.2f} to {:.2f}".format(*record["interval"])
    case = [record["what"], record["matrix"], str(record["columns"]), record["dtype"]]
    return [*case, *times, look, f"{record['gain']:.2f}", spread, f"{record['times_scipy']:.2f}"]


def summary(records: Sequence[Mapping[str, Any]]) -> str:
    """Summarise the gains, and list the cases that fall below the lower bound that docs/ state."""
    dist = Distribution.of([record["gain"] for record in records])
    below = [f"{record['key']} {record['gain']:.2f}" for record in records if record["interval"][1] < ENOUGH]
    writes = [
        f"{record['key']} {record['times_scipy']:.2f}"
        for record in records
        if record["way"] in ("set all", "scaled") and record["times_scipy"] < 1.2
    ]
    return (
        f"{dist.n} cases: gain over the default kernel, geomean {dist.geomean:.2f}, least {dist.least:.2f}; interval "
        f"below {ENOUGH}: {', '.join(below) or 'none'}; changed values below 1.2 x SciPy: {', '.join(writes) or 'none'}"
    )


def cases(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return every chosen case."""
    matrices = ("small grid",) if args.quick else MATRICES
    return [
        {"way": name, "matrix": matrix, "columns": columns, "dtype": dtype}
        for name in args.only
        for matrix in matrices
        for columns in args.columns
        for dtype in args.dtypes
    ]


def measure(args: argparse.Namespace, results: ResultFile) -> list[dict[str, Any]]:
    """Run every chosen case; return the records."""
    from peerlib.machine import machine_facts

    run_id = time.strftime("%Y-%m-%dT%H:%M:%S")
    results.append({"kind": "run", "run": run_id, "rounds": args.rounds, "only": args.only, **machine_facts()})
    compile_bytecode()
    records = []
    for case in share(cases(args), args.part):
        name = case["way"]
        key = ", ".join(map(str, case.values()))
        record = {"kind": "case", "run": run_id, "key": key, **case}
        record |= {"what": WAYS[name].what, **measured(WAYS[name], case, args)}
        results.append(record)
        records.append(record)
        print("  ".join(row(record)), flush=True)
    return records


def write_table(out: Path) -> None:
    """Write the newest results of every case in `out` as a Markdown table beside it."""
    results = ResultFile(out)
    records = results.cases()
    facts = [line for line in results.lines() if line["kind"] == "run"][-1]
    text = "\n\n".join((markdown([HEADER, *map(row, records)]), summary(records), machine_line(facts)))
    out.with_suffix(".md").write_text(f"{text}\n", encoding="utf-8")


def main() -> int:
    """Measure and print."""
    args = arguments()
    if args.list:
        print(aligned([[way.name, way.what] for way in WAYS.values()]))
        return 0
    records = measure(args, ResultFile(args.out))
    print(f"\n{markdown([HEADER, *map(row, records)])}\n\n{summary(records)}")
    if args.out is not None:
        write_table(args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
