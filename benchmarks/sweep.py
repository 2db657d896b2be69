"""Search for plans that are slower than the default kernel, over matrices, dtypes, columns, threads, ISAs and tiers.

    python benchmarks/sweep.py --json sweep.jsonl --cache DIR --tiers estimate,measure --seconds 140
    python benchmarks/sweep.py --json sweep.jsonl --report

One matrix of each of at least 40 groups of the folder's index.csv is measured. Any prefix of the order of cases is a
balanced sample of every axis (`sweeplib.cases`), and an interrupted sweep continues where it stopped. In each case a
matrix is tuned by `effort="estimate"`, `"measure"` and, if requested, `"full"`, without stored plans. Each plan that is
not the default kernel is timed against it as users run products, into new results and with `out=`, in alternation,
until the ratio is clearly above 0.95 or all rounds are used.

A ratio below 0.95 is measured twice more, and the mean of the second and third counts; all are recorded. A tuning gets
one second (`--budget`). Its candidates, and the final race that accepts a plan, get a tenth of the default samples.
This makes wrong choices more likely, so a sweep without slow plans is strong evidence and one with slow plans is weak
evidence.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from peerlib.environment import matrices_folder
from peerlib.machine import machine_facts
from peerlib.records import ResultFile
from peerlib.table import markdown
from sweeplib.cases import Axes, SweepCase, in_order, named, one_of_each_group
from sweeplib.comparison import Rounds
from sweeplib.worker import LIMIT, WAYS, Bench, Worker, serve

LIMITS: Final = (LIMIT, 0.9)
"""Ratios below which plans are counted."""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--matrices", type=Path, default=matrices_folder(), help="folder with an index.csv")
    add("--groups", type=int, default=48, help="number of groups; one matrix of each is measured")
    add("--min-nnz", type=int, default=20_000)
    add("--max-nnz", type=int, default=3_000_000)
    add("--only", action="append", default=[], metavar="NAME", help="only this matrix (repeatable)")
    add("--dtypes", default="float32,float64")
    add("--columns", default="1,8,32,128,256")
    add("--threads", default="1,2")
    add("--isas", default="avx2,avx512")
    add("--tiers", default="estimate,measure", help="tiers among estimate, measure, full")
    add("--budget", type=float, default=1.0, help="maximum seconds of one tuning")
    add("--rounds", type=int, default=31, help="maximum rounds of a ratio")
    add("--seconds", type=float, default=float("inf"), help="begin no case after this many seconds")
    add("--cases", type=int, help="maximum number of cases")
    add("--seed", type=int, default=0, help="seed of the order and of the choice of matrices")
    add("--json", type=Path, help="JSON lines: results are appended; cases that it holds are not measured again")
    add("--cache", type=Path, help="keep kernels in this folder from one slice to the next (default: a temporary one)")
    add("--report", action="store_true", help="only print the report of --json")
    add("--worker", action="store_true", help=argparse.SUPPRESS)
    parsed = parser.parse_args(given)
    if parsed.matrices is None and not parsed.report:
        parser.error("no folder of matrices: give --matrices DIR or set AUTOSPARSE_MATRICES")
    return parsed


def cases(args: argparse.Namespace) -> list[SweepCase]:
    """Return all cases of the sweep, in order."""
    nnz = (args.min_nnz, args.max_nnz)
    matrices = (
        named(args.matrices, args.only)
        if args.only
        else one_of_each_group(args.matrices, n_groups=args.groups, nnz=nnz, seed=args.seed)
    )
    columns, threads = (tuple(map(int, one.split(","))) for one in (args.columns, args.threads))
    axes = Axes(dtypes=args.dtypes.split(","), columns=columns, threads=threads, isas=args.isas.split(","))
    return in_order(matrices, axes, seed=args.seed + 1)


def run(args: argparse.Namespace, results: ResultFile, kept: Path) -> None:
    """Measure the cases that `results` lacks, in one process per instruction set."""
    done = {record["key"] for record in results.cases()}
    tiers = args.tiers.split(",")
    wanted = [(case, [tier for tier in tiers if case.key(tier) not in done]) for case in cases(args)]
    todo = [(case, missing) for case, missing in wanted if missing][: args.cases]
    if todo:
        results.append({"kind": "run", **machine_facts(), "budget_s": args.budget, "rounds": args.rounds})
    workers: dict[str, Worker] = {}
    start_s = time.monotonic()
    try:
        for case, missing in todo:
            if time.monotonic() - start_s > args.seconds:
                break
            if (worker := workers.get(case.isa)) is None or not worker.is_alive:
                workers[case.isa] = worker = Worker(Path(__file__).resolve(), sys.argv[1:], isa=case.isa, cache=kept)
            for record in worker.measure(case, missing):
                results.append(record)
                print(line(record), flush=True)
    finally:
        for worker in workers.values():
            worker.close()


def line(record: dict[str, Any]) -> str:
    """Format one record."""
    if record["kind"] != "case":
        return f"{record['key']}: failed: {record['reason']}"
    found = record.get("ratios")
    shown = " ".join(f"{way} {found[way]:.2f}" for way in WAYS) if found else "default"
    return f"{record['key']}: {shown} ({sum(record['seconds']):.1f} s)"


def report(records: Sequence[dict[str, Any]], *, n_worst: int = 20) -> str:
    """Format counts by tier, dtype, columns, threads and instruction set, and the worst cases."""
    rows = [["of", "plans", "tuned", "geomean", "least", *(f"below {limit}" for limit in LIMITS)]]
    for axis in ("tier", "dtype", "columns", "threads", "isa"):
        for value in sorted({record[axis] for record in records}, key=str):
            part = [record for record in records if record[axis] == value]
            found = [record["ratios"][way] for record in part if "ratios" in record for way in WAYS]
            mean, least = (statistics.geometric_mean(found), min(found)) if found else (1.0, 1.0)
            below = (str(sum(ratio < limit for ratio in found)) for limit in LIMITS)
            tuned = str(len(found) // len(WAYS))
            rows.append([f"{axis} {value}", str(len(part)), tuned, f"{mean:.2f}", f"{least:.2f}", *below])
    tuned_records = [record for record in records if "ratios" in record]
    worst = sorted((record["ratios"][way], way, record["key"], record) for record in tuned_records for way in WAYS)
    lines = [
        f"{ratio:.3f}  {way:<3} {key}  measured: {' '.join(f'{one[way]:.2f}' for one in record['taken'])}"
        for ratio, way, key, record in worst[:n_worst]
    ]
    n_matrices = len({record["matrix"] for record in records})
    counted = f"{len(records)} plans of {n_matrices} matrices"
    return f"{counted}\n\n{markdown(rows)}\n\nworst cases:\n" + "\n".join(lines)


def main() -> int:
    """Measure and report."""
    args = arguments()
    if args.worker:
        rounds = Rounds(least=min(8, args.rounds), most=args.rounds)
        serve(Bench(folder=args.matrices, budget_s=args.budget, rounds=rounds))
        return 0
    results = ResultFile(args.json)
    if not args.report:
        with tempfile.TemporaryDirectory(prefix="autosparse-sweep-") as temporary:
            run(args, results, args.cache or Path(temporary))
    print(report(results.cases()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
