"""Compare the best single format with the best composite that searches of equal length find.

    python benchmarks/hybrid.py [--cases TEXT] [--budget-s 20]                       # planted and the paper's matrices
    python benchmarks/hybrid.py --matrices DIR --columns 32,256 [--only NAME]        # real matrices
    python benchmarks/hybrid.py --step candidates                                   # time to propose composites
    python benchmarks/hybrid.py --matrices DIR --products matmul:1,matmul:32,matmul:256,sddmm:256 --chosen-only

Each case is searched twice with the same number of seconds, with ``hybrid=False`` and with ``hybrid=True``, each in a
new process with an empty cache. A third process times, in alternation: the two chosen plans, the fastest single formats
of both searches, rows sorted by length, and measured composites. Records of earlier versions also have composites of
the schedules that parts were tried with first ("fixed"). All values are float32.

With --chosen-only the two chosen plans alone are timed, which shows whether searching for composites does harm. With
--again there is a second search without composites, which shows how much two equal searches differ.

An interrupted run continues where it stopped. Steps can be run one by one: --step search (which also compiles the
kernels of the race) and --step race (short; the machine should be quiet). With --at-most S no step starts after S
seconds. --report prints the tables of the results file.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from peerlib.archives import output
from peerlib.environment import start_again
from peerlib.hybrid_case import (
    DEFAULT,
    SCIPY,
    HybridCase,
    alone,
    built,
    is_composite,
    mean_s,
    proposing_s,
    raced,
    ready_singles,
    searched,
)
from peerlib.hybrid_cases import GENERATED, MILLION
from peerlib.hybrid_table import report
from peerlib.machine import machine_facts
from peerlib.matrices import MatrixFile, find_matrices
from peerlib.records import ResultFile, given_arguments
from peerlib.timing import Protocol

N_SINGLES: Final = 3
N_COMPOSITES: Final = 2
"""Number of fastest composites of a search that are timed besides the chosen plan."""
MIN_NNZ: Final = 100_000
SEED: Final = 0


def planted() -> Iterator[HybridCase]:
    """Yield the matrices with planted parts, and the paper's masks, weights and case study."""
    for name, (_, products) in GENERATED.items():
        for operation, columns in products:
            yield HybridCase(name, operation, columns)


def real(args: argparse.Namespace) -> Iterator[HybridCase]:
    """Yield matrices of the folder with enough entries, in the order of `drawn`."""
    files = find_matrices(args.matrices, min_nnz=args.least_nnz, only=tuple(args.only))
    for file in drawn(files, args.matrices, args.limit):
        for operation, columns in args.products:
            yield HybridCase(file.name, operation, columns, file.path, args.transposed)


def drawn(files: Sequence[MatrixFile], folder: Path, limit: int | None) -> list[MatrixFile]:
    """Return `files` in a random order (fixed seed) that alternates between groups; the first `limit` of them."""
    from autosparse.tuner.research.collect.recipes import real_files

    group_of = {one.name: one.group for one in real_files(folder)} if folder.is_dir() else {}
    rng, groups = random.Random(SEED), defaultdict(list)
    for file in rng.sample(files, len(files)):
        groups[group_of.get(file.path.name, file.name)].append(file)
    turns = sorted((at, n, file) for n, group in enumerate(groups.values()) for at, file in enumerate(group))
    return [file for _, _, file in turns][:limit]


def contenders(found: Mapping[str, Mapping[str, Any]], case: HybridCase, *, chosen_only: bool) -> dict[str, list[str]]:
    """Return the names of the schedules to time by kind, from the two searches of a case."""
    kinds = {name: [one["chosen"]] for name, one in found.items()}
    if chosen_only:
        return kinds
    singles = [
        one
        for search in found.values()
        for one in [one for one in search["times_s"] if not is_composite(one)][:N_SINGLES]
    ]
    composites = [one for one in found["on"]["times_s"] if is_composite(one)]
    kinds["single"] = list(dict.fromkeys([DEFAULT, *kinds["off"], *singles, *ready_singles(case.operation)]))
    kinds["composite"] = composites[:N_COMPOSITES]
    if case.path is None and case.operation == "matmul":
        kinds["scipy"] = [SCIPY]
    return kinds


def search(case: HybridCase, args: argparse.Namespace) -> dict[str, Any]:
    """Run the searches of a case and compile the kernels of its race; return the record."""
    wanted = {"off": False, "on": True, **({"again": False} if args.again else {})}
    found = {
        name: alone(searched, case, hybrid=hybrid, budget_s=args.budget_s, threads=args.threads)
        for name, hybrid in wanted.items()
    }
    kinds = contenders(found, case, chosen_only=args.chosen_only)
    texts = list(dict.fromkeys(one for kind in kinds.values() for one in kind))
    alone(built, case, texts, cache=args.cache, threads=args.threads)
    facts = {"name": case.title, "operation": case.operation, "columns": case.columns}
    kept = {name: {key: one[key] for key in ("chosen", "why", "seconds", "n_measured")} for name, one in found.items()}
    return {
        "kind": "search", "key": case.key, **facts, "shape": found["on"]["shape"], "nnz": found["on"]["nnz"],
        "budget_s": args.budget_s, "threads": args.threads, "chosen_only": args.chosen_only, "contenders": kinds,
        "searches": kept,
    }  # fmt: skip


def race(case: HybridCase, line: Mapping[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """Time the results of both searches in alternation; equal plans are timed once. Return the record."""
    kinds = line["contenders"]
    texts = list(dict.fromkeys(one for kind in kinds.values() for one in kind))
    protocol = Protocol(rounds=args.rounds, most_s=args.race_s)
    times: dict[str, dict[str, float]] = {texts[0]: {}}
    if len(texts) > 1:
        times = alone(raced, case, texts, cache=args.cache, threads=args.threads, protocol=protocol)
    fastest = {}
    for kind, names in kinds.items():
        ran = [name for name in names if name in times]
        best = min(ran, key=lambda name: mean_s(times[name]) if times[name] else 0.0, default=None)
        fastest[kind] = None if best is None else {"schedule": best, **times[best]}
    return {**line, "kind": "case", "fastest": fastest, "times_s": times, "protocol": asdict(protocol)}


def known(results: ResultFile, kind: str, args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return the newest line of this kind by key, among lines that fit the arguments."""
    return {
        line["key"]: line
        for line in results.lines()
        if line.get("kind") == kind
        and line["budget_s"] == args.budget_s
        and line["threads"] == args.threads
        and (args.chosen_only or not line["chosen_only"])
        and (not args.again or "again" in line["searches"])
    }


def run(args: argparse.Namespace, results: ResultFile) -> None:
    """Measure the cases that `results` lacks."""
    start_s, has_begun = time.perf_counter(), False
    cases = [*real(args)] if args.matrices is not None else [*planted()]
    wanted = [case for case in cases if any(text in case.key for text in args.cases.split(","))]
    found, done = known(results, "search", args), known(results, "case", args)
    for case in wanted:
        if case.key in done or time.perf_counter() - start_s > args.at_most:
            continue
        if not has_begun:
            results.append({"kind": "run", **machine_facts(), "threads": args.threads, "arguments": given_arguments()})
            has_begun = True
        if case.key not in found and args.step != "race":
            found[case.key] = search(case, args)
            results.append(found[case.key])
        if case.key in found and args.step != "search":
            line = race(case, found[case.key], args)
            results.append(line)
            print(case.key, *_brief(line), flush=True)


def candidates(results: ResultFile) -> None:
    """Time the proposal of composites for matrices of a million entries, including composites without a compiler."""
    results.append({"kind": "run", **machine_facts(), "threads": 1, "arguments": given_arguments()})
    for name in MILLION:
        n_entries, n_found, seconds = alone(proposing_s, name)
        line = {"kind": "candidates", "name": name, "nnz": n_entries, "composites": n_found, "seconds": seconds}
        results.append(line)
        print(f"{name}: {n_entries:,} entries, {n_found} composites, {1e3 * statistics.median(seconds):.1f} ms")


def _brief(line: Mapping[str, Any]) -> Iterator[str]:
    off = line["fastest"].get("single") or line["fastest"]["off"]
    for kind, one in line["fastest"].items():
        if one is not None and "fresh" in one:
            mark = " composite" if is_composite(one["schedule"]) else ""
            yield f"{kind} {mean_s(_ways(off)) / mean_s(_ways(one)):.3f}{mark}"


def _ways(one: Mapping[str, Any]) -> dict[str, float]:
    return {way: seconds for way, seconds in one.items() if way != "schedule"}


def product(text: str) -> tuple[str, int]:
    """Parse ``matmul:32`` as (operation, columns)."""
    operation, _, columns = text.partition(":")
    return operation, int(columns)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--cases", default="", help="cases whose key contains one of these, separated by commas")
    add("--matrices", type=Path, help="folder of real matrices, used instead of planted ones")
    add("--only", action="append", default=[], metavar="NAME", help="only this matrix (repeatable)")
    add("--transposed", action="store_true", help="use the transposes of the real matrices, in CSR")
    add("--least-nnz", type=int, default=MIN_NNZ, help="minimum number of entries of real matrices")
    add("--limit", type=int, help="number of real matrices, drawn at random from alternating groups")
    add("--products", default="matmul:32,matmul:256", help="products of the real matrices")
    add("--chosen-only", action="store_true", help="time the two chosen plans only")
    add("--again", action="store_true", help="search twice without composites, to see the variation")
    add("--budget-s", type=float, default=20.0, help="seconds of each search")
    add("--rounds", type=int, default=15)
    add("--race-s", type=float, default=6.0, help="maximum seconds of the race; limits its rounds")
    add("--threads", type=int, default=1)
    add("--at-most", type=float, default=float("inf"), metavar="S", help="begin nothing after S seconds")
    add("--step", choices=("all", "search", "race", "candidates"), default="all", help="take only this step")
    add(
        "--cache",
        type=Path,
        default=Path.home() / ".cache" / "autosparse-hybrid",
        help="persistent cache for the kernels of races",
    )
    add("--json", type=Path, help="JSON lines (default: hybrid.jsonl in build/benchmarks, or results with --record)")
    add("--record", action="store_true", help="keep the default output in benchmarks/results")
    add("--table", type=Path, help="write the tables as Markdown")
    add("--report", action="store_true", help="print the tables of --json and measure nothing")
    parsed = parser.parse_args(given)
    parsed.json = parsed.json or output("hybrid.jsonl", record=parsed.record or parsed.report)
    parsed.products = [product(one) for one in parsed.products.split(",")]
    return parsed


def main() -> int:
    """Measure the cases that the results lack, and print the report."""
    args = arguments()
    results = ResultFile(args.json)
    if not args.report:
        start_again(args.threads)
        if args.step == "candidates":
            candidates(results)
            return 0
        run(args, results)
    text = report(results.cases())
    print(text)
    if args.table:
        args.table.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
