"""Compare the cheaper tuning tiers with a full search, on matrices whose groups no training has seen.

    python benchmarks/tiers.py --matrices DIR --ops spmv,spmm32,spmm256 --json out.jsonl
    python benchmarks/tiers.py --report --json out.jsonl

For each matrix and operation the default kernel, `tune(effort="estimate")` (the best predicted), `"measure"` (the ten
best predicted, measured) and `"full"` are tuned one after the other, without each other's plans. They are then timed
together with the peers that fill an array, interleaved in one process. Tiers that chose the same schedule are timed
once, so that noise does not distinguish them. `totals.py` measures the cost of tiers. Only real groups that no training
sees are measured, unless --groups all.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from peerlib.case import Case, Operation, Prepared
from peerlib.environment import matrices_folder, start_again
from peerlib.matrices import MatrixFile, find_matrices, find_tensors, held_out, load, load_tensor
from peerlib.records import ResultFile, given_arguments
from peerlib.registry import contenders
from peerlib.summary import Distribution
from peerlib.table import markdown
from peerlib.timing import SETTLE_S, Protocol, take_turns

TIERS: Final = ("estimate", "measure", "full")
PEERS: Final = "torch,torch-out,mkl,mkl-hint,numba,openmp,openmp-tiled,openmp-four"
BUDGETS_S: Final = {"estimate": 10.0, "measure": 10.0}
"""Maximum seconds of the cheaper tiers; --budget is that of the full search."""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--matrices", type=Path, default=matrices_folder(), help="folder of matrices and tensors")
    add("--min-nnz", type=int, default=100_000)
    add("--only", action="append", default=[], metavar="NAME", help="only this matrix (repeatable)")
    add("--groups", choices=("held-out", "all"), default="held-out", help="groups of the folder's index.csv")
    add("--limit", type=int, help="the first LIMIT matrices, and tensors, only")
    add("--ops", default="spmv,spmm32,spmm256,sddmm32,sddmm256,mttkrp16")
    add("--threads", type=int, default=2)
    add("--dtype", choices=("float32", "float64"), default="float32")
    add("--budget", type=float, default=5.0, help="maximum seconds of a full search")
    add("--models", type=Path, metavar="DIR", help="learned models (default: the shipped ones; an empty folder: none)")
    add("--peers", default=PEERS, help="peers of the registry; only those that fill an array take part")
    add("--rounds", type=int, default=15)
    add("--seconds", type=float, default=6.0, help="maximum timing per matrix and operation, in seconds")
    add("--seed", type=int, default=0)
    add("--json", type=Path, help="JSON lines: results are appended; cases that it holds are not measured again")
    add("--report", action="store_true", help="only print the tables of --json")
    parsed = parser.parse_args(given)
    if parsed.matrices is None and not parsed.report:
        parser.error("no folder of matrices: give --matrices DIR or set AUTOSPARSE_MATRICES")
    return parsed


def measure_case(case: Case, names: Sequence[str], protocol: Protocol) -> dict[str, Any]:
    """Return the record of a case: times of the default kernel, the tiers and the peers `names`."""
    from peers import prepare_all

    able = [one for one in contenders(names) if one.fills and one.can_run(case.operation, case.A.dtype.name)]
    ready, left_out = prepare_all([one for one in able if not one.ours], case)
    ours = next(one for one in able if one.ours)
    facts: dict[str, dict[str, Any]] = {}
    stands_for: dict[str, str] = {}
    chosen: dict[str, str] = {}  # schedule -> the tier that is timed
    for tier in ("off", *TIERS):
        prepared = _tuned(case, tier, ours.prepared)
        facts[tier] = dict(prepared.facts)
        schedule = str(facts[tier].get("schedule"))
        stands_for[tier] = chosen.setdefault(schedule, tier)
        if stands_for[tier] == tier:
            ready[tier] = prepared
    complaint = case.checker()
    for name in chosen.values():
        case.out.fill(float("nan"))
        if wrong := complaint(ready[name].run()):
            raise RuntimeError(f"{case.matrix_name}, {case.operation.name}: {name} is {wrong}")
    timings = {name: asdict(one) for name, one in take_turns({n: p.run for n, p in ready.items()}, protocol).items()}
    for prepared in ready.values():
        prepared.close()
    return {
        **case.facts(),
        "times": {**timings, **{tier: timings[other] for tier, other in stands_for.items()}},
        "peers": [name for name in timings if name not in stands_for],
        "facts": facts,
        "left_out": left_out,
    }


def _tuned(case: Case, tier: str, prepare: Callable[[Case], Prepared]) -> Prepared:
    """Return our contender of `case` tuned by `tier`, without stored plans but with compiled kernels."""
    from autosparse import cache
    from autosparse.config import get_options

    cache.open_store(get_options()).forget(("plan", "features"))
    budget_s = BUDGETS_S.get(tier, case.budget_s)
    return prepare(dataclasses.replace(case, effort=tier, budget_s=budget_s, expected_runs=None, shared={}))


# -- which matrices --------------------------------------------------------------------------------------------------


def waiting(
    args: argparse.Namespace, operations: Sequence[Operation], done: Mapping[str, Any]
) -> Iterator[tuple[str, Case]]:
    """Yield (key, case) for the cases that are not measured yet."""
    finders = ((find_matrices, load, False), (find_tensors, load_tensor, True))
    for find, read, is_of_tensors in finders:
        fitting = [op for op in operations if op.is_of_tensors == is_of_tensors]
        files: list[MatrixFile] = find(args.matrices, min_nnz=args.min_nnz, only=tuple(args.only)) if fitting else []
        if args.groups == "held-out":
            files = held_out(files, args.matrices)
        for file in files[: args.limit]:
            keys = {op: "|".join((file.name, op.name, args.dtype, str(args.threads))) for op in fitting}
            left = [op for op in fitting if keys[op] not in done]
            A = read(file.path, dtype=args.dtype) if left else None
            for op in left:
                case = Case.of(
                    file.name, A, op, threads=args.threads, effort="off", budget_s=args.budget, seed=args.seed
                )
                if case.reason_left_out() is None:
                    yield keys[op], case


def run(args: argparse.Namespace, results: ResultFile) -> None:
    """Measure the cases that `results` lacks."""
    from peerlib.machine import machine_facts

    from autosparse.config import set_options

    operations = [Operation.parse(text) for text in args.ops.split(",")]
    protocol = Protocol(rounds=args.rounds, most_s=args.seconds, seed=args.seed, settle_s=SETTLE_S)
    done = {record["key"]: record for record in results.cases()}
    with tempfile.TemporaryDirectory(prefix="autosparse-tiers-cache-") as kernels:
        # Lazy tuning would replace the default kernel while it is timed.
        set_options(threads=args.threads, effort="measure", overhead=0.0, cache_dir=kernels, models=args.models)
        results.append({"kind": "run", "protocol": asdict(protocol), "arguments": given_arguments(), **machine_facts()})
        for key, case in waiting(args, operations, done):
            record = measure_case(case, list(filter(None, args.peers.split(","))), protocol)
            results.append({"kind": "case", "key": key, **record})
            print(line(record), flush=True)


# -- report ----------------------------------------------------------------------------------------------------------


def time_of(record: Mapping[str, Any], name: str) -> float:
    """Return the median seconds of a contender."""
    return float(record["times"][name]["median_s"])


def best_peer_s(record: Mapping[str, Any]) -> float:
    """Return the median seconds of the fastest peer."""
    return min((time_of(record, name) for name in record["peers"]), default=float("nan"))


def line(record: Mapping[str, Any]) -> str:
    """Format one case: the full search's time over each tier's, and the best peer's over the full search's."""
    full_s = time_of(record, "full")
    shares = ", ".join(f"{tier} {full_s / time_of(record, tier):.2f}" for tier in ("off", *TIERS[:-1]))
    beside = f"best peer {best_peer_s(record) / full_s:.2f} times as long"
    return f"{record['operation']:<9} {record['matrix'][:32]:<32} of full: {shares}; {beside}"


RATIOS: Final[Mapping[str, Callable[[Mapping[str, Any]], float]]] = {
    "estimate (top-1) of full": lambda one: time_of(one, "full") / time_of(one, "estimate"),
    "measure (top-10) of full": lambda one: time_of(one, "full") / time_of(one, "measure"),
    "default kernel of full": lambda one: time_of(one, "full") / time_of(one, "off"),
    "best peer over full": lambda one: best_peer_s(one) / time_of(one, "full"),
    "best peer over measure": lambda one: best_peer_s(one) / time_of(one, "measure"),
    "best peer over estimate": lambda one: best_peer_s(one) / time_of(one, "estimate"),
}
"""Columns of the report. A ratio of "... of full" above 1 means that the tier found a faster schedule."""


def report(records: Sequence[Mapping[str, Any]]) -> str:
    """Format a row per operation and ratio, in Markdown."""
    rows = [["operation", "cases", "ratio", "geomean", "5 %", "median", "least"]]
    for operation, group in itertools.groupby(sorted(records, key=_operation), key=_operation):
        cases = list(group)
        for name, ratio in RATIOS.items():
            found = Distribution.of([ratio(one) for one in cases])
            numbers = (f"{value:.3g}" for value in (found.geomean, found.p5, found.p50, found.least))
            rows.append([operation, str(found.n), name, *numbers])
    return markdown(rows)


def _operation(record: Mapping[str, Any]) -> str:
    return str(record["operation"])


def main() -> int:
    """Measure and report."""
    args = arguments()
    results = ResultFile(args.json)
    if not args.report:
        start_again(args.threads)
        run(args, results)
    print(report(results.cases(dtype=args.dtype, threads=args.threads)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
