"""Whether any plan is slower than the default kernel: matrices x dtypes x columns x threads x instruction sets x tiers.

    python benchmarks/sweep.py --json sweep.jsonl --seconds 600
    python benchmarks/sweep.py --json sweep.jsonl --report

Of each of at least 40 groups of the folder's index.csv one matrix; cases come in an order drawn from --seed, so that
any part of a sweep is a fair sample of the whole, and a sweep that was stopped goes on where it was. A case is a
process: its matrix is tuned by `effort="estimate"`, `"measure"` and `"full"` one after the other, each with a cache of
plans of its own, and each plan that is not the default kernel is timed against it as users run products, into new
results and with `out=`, in turns; the ratio is the median over rounds of (default kernel's time) / (plan's). A ratio
below 0.95 is taken again with three times the rounds, and the second counts; both are kept.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from peerlib.environment import child_environment, matrices_folder
from peerlib.matrices import load
from peerlib.records import ResultFile
from peerlib.table import markdown

TIERS: Final = ("estimate", "measure", "full")
WAYS: Final = ("new", "out")
LIMITS: Final = (0.95, 0.9)
"""Ratios below which cases are counted."""
DENSE_BYTES: Final = 1 << 30
"""Most of B and a result together."""
CASE_S: Final = 300
"""After which a case is given up."""
ROUND_S: Final = 2e-3
"""A sample of a short product is made of so many that it takes this long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepCase:
    """One child process."""

    matrix: str
    dtype: str
    columns: int
    threads: int
    isa: str

    @property
    def key(self) -> str:
        """Names it in the results."""
        return "|".join(map(str, asdict(self).values()))


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--matrices", type=Path, default=matrices_folder(), help="folder with an index.csv")
    add("--groups", type=int, default=48, help="so many groups, one matrix of each")
    add("--min-nnz", type=int, default=20_000)
    add("--max-nnz", type=int, default=3_000_000)
    add("--only", action="append", default=[], metavar="NAME", help="only this matrix (repeatable)")
    add("--dtypes", default="float32,float64")
    add("--columns", default="1,8,32,128,256")
    add("--threads", default="1,2")
    add("--isas", default="avx2,avx512")
    add("--tiers", default=",".join(TIERS))
    add("--budget", type=float, default=10.0, help="most seconds of one tuning")
    add("--rounds", type=int, default=11)
    add("--seconds", type=float, default=float("inf"), help="begin no case after so many")
    add("--seed", type=int, default=0, help="of the order and of which matrix stands for its group")
    add("--json", type=Path, help="JSON lines: results are appended, and what is there is not measured again")
    add("--report", action="store_true", help="only the report of what --json holds")
    add("--case", help=argparse.SUPPRESS)
    parsed = parser.parse_args(given)
    if parsed.matrices is None and not parsed.report:
        parser.error("no folder of matrices: give --matrices DIR or set AUTOSPARSE_MATRICES")
    return parsed


# -- which cases -----------------------------------------------------------------------------------------------------


def chosen(args: argparse.Namespace) -> list[dict[str, str]]:
    """A row of index.csv for each of `args.groups` groups; those named, if any are."""
    with (args.matrices / "index.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["is_tensor"] in ("", "0")]
    if args.only:
        return [row for row in rows if row["name"] in args.only]
    groups: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        if args.min_nnz <= int(row["nnz"]) <= args.max_nnz:
            groups.setdefault(row["group"], []).append(row)
    draw = random.Random(args.seed)
    picked = [draw.choice(groups[name]) for name in sorted(groups)]
    draw.shuffle(picked)
    return picked[: args.groups]


def cases(args: argparse.Namespace) -> list[SweepCase]:
    """All of the sweep, in an order in which any beginning is a sample."""
    found = []
    axes = (args.dtypes.split(","), args.columns.split(","), args.threads.split(","), args.isas.split(","))
    for row, dtype, columns, threads, isa in itertools.product(chosen(args), *axes):
        dense = (int(row["rows"]) + int(row["cols"])) * int(columns) * np.dtype(dtype).itemsize
        if dense <= DENSE_BYTES:
            one = SweepCase(matrix=row["name"], dtype=dtype, columns=int(columns), threads=int(threads), isa=isa)
            found.append(one)
    random.Random(args.seed + 1).shuffle(found)
    return found


# -- one case, in a process of its own -------------------------------------------------------------------------------


def measure(case: SweepCase, args: argparse.Namespace) -> dict[str, Any]:
    """The plans of all tiers, and what became of the time of a product."""
    import autosparse as asp
    from autosparse import cache
    from autosparse.config import get_options, set_options

    set_options(overhead=0.0)  # nothing is tuned unasked, no plan is given up: the default kernel stays what it is
    M = load(args.matrices / f"{case.matrix}.npz", dtype=case.dtype)
    shape = (M.shape[1],) if case.columns == 1 else (M.shape[1], case.columns)
    B = np.random.default_rng(0).standard_normal(shape).astype(case.dtype)
    default = asp.csr(M, copy=True)
    found = {}
    for tier in args.tiers.split(","):
        cache.open_store(get_options()).forget(("plan", "features"))  # each tier for itself; kernels stay
        A = asp.csr(M, copy=True)
        plan = A.tune("matmul", columns=case.columns, effort=tier, budget_s=args.budget)
        claimed = plan.default_s / plan.measured_s if plan.default_s and plan.measured_s else None
        facts: dict[str, Any] = {"why": plan.why, "claimed": claimed, "predicted": plan.predicted_ratio}
        facts["schedule"] = str(plan.schedule) if plan.schedule is not None else None
        if plan.schedule is not None:
            facts["ratios"] = ratios(default, A, B, args.rounds)
            if min(facts["ratios"].values()) < LIMITS[0]:
                facts["first_ratios"] = facts["ratios"]
                facts["ratios"] = ratios(default, A, B, 3 * args.rounds)
        found[tier] = facts
    return {"kind": "case", "key": case.key, **asdict(case), "nnz": M.nnz, "tiers": found}


def ratios(default: Any, tuned: Any, B: Any, rounds: int) -> dict[str, float]:
    """Median over rounds of (default kernel's time) / (tuned one's), of each way."""
    import autosparse as asp

    out = np.empty((tuned.shape[0], *B.shape[1:]), B.dtype)
    runs: dict[str, Callable[[Any], Any]] = {"new": lambda A: A @ B, "out": lambda A: asp.matmul(A, B, out=out)}
    return {way: _ratio(run, default, tuned, rounds) for way, run in runs.items()}


def _ratio(run: Callable[[Any], Any], default: Any, tuned: Any, rounds: int) -> float:
    run(default)
    n = max(1, min(1000, round(ROUND_S / max(_sample_s(run, default, 1), 1e-7))))
    found = []
    for turn in range(rounds):
        order = (default, tuned) if turn % 2 else (tuned, default)
        taken = {id(one): _sample_s(run, one, n) for one in order}
        found.append(taken[id(default)] / taken[id(tuned)])
    return statistics.median(found)


def _sample_s(run: Callable[[Any], Any], A: Any, n: int) -> float:
    """Seconds of a product of A, after one that brings back what the other's threw out of the caches."""
    run(A)
    start_s = time.perf_counter()
    for _ in range(n):
        kept = run(A)  # the one before lives until this one is there, as in C = A @ B
    seconds = time.perf_counter() - start_s
    del kept
    return seconds / n


# -- the sweep -------------------------------------------------------------------------------------------------------


def run(args: argparse.Namespace, results: ResultFile, kernels: str) -> None:
    """Measure what `results` does not hold yet, each case in a process of its own."""
    done = {record["key"] for record in results.cases()}
    start_s = time.monotonic()
    for case in cases(args):
        if time.monotonic() - start_s > args.seconds:
            break
        if case.key in done:
            continue
        record = measured_aside(case, kernels)
        results.append(record)
        print(line(record), flush=True)


def measured_aside(case: SweepCase, kernels: str) -> dict[str, Any]:
    """`measure` in a process of its own, with the cache in the folder `kernels`."""
    environment = child_environment(
        AUTOSPARSE_ISA=case.isa, AUTOSPARSE_THREADS=str(case.threads), OMP_NUM_THREADS=str(case.threads),
        AUTOSPARSE_CACHE_DIR=kernels,
    )  # fmt: skip
    command = [sys.executable, os.fspath(Path(__file__).resolve()), *sys.argv[1:], "--case", json.dumps(asdict(case))]
    try:
        child = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=CASE_S, check=True)
        record: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    except (subprocess.SubprocessError, json.JSONDecodeError, IndexError) as err:
        record = {"kind": "failure", "key": case.key, "reason": str(getattr(err, "stderr", None) or err)[-500:]}
    return record


def line(record: dict[str, Any]) -> str:
    """One case in words."""
    if record["kind"] != "case":
        return f"{record['key']}: failed: {record['reason']}"
    shown = []
    for tier, facts in record["tiers"].items():
        found = facts.get("ratios")
        shown.append(f"{tier} " + (" ".join(f"{way} {found[way]:.2f}" for way in WAYS) if found else "default"))
    return f"{record['key']}: {', '.join(shown)}"


def every_ratio(records: Sequence[dict[str, Any]]) -> Iterator[tuple[float, str, str, str]]:
    """(ratio, tier, way, key) of every plan that is not the default kernel."""
    for record in records:
        for tier, facts in record["tiers"].items():
            for way, ratio in facts.get("ratios", {}).items():
                yield ratio, tier, way, record["key"]


def report(records: Sequence[dict[str, Any]], *, n_worst: int = 20) -> str:
    """Counts by tier, dtype, columns, threads and instruction set; the worst."""
    rows = [["of", "plans", "tuned", "geomean", "least", *(f"below {limit}" for limit in LIMITS)]]
    for axis in ("tier", "dtype", "columns", "threads", "isa"):
        for value in sorted({value for record in records for value in _values(record, axis)}, key=str):
            part = [record for record in records if axis == "tier" or record[axis] == value]
            found = [ratio for ratio, tier, _, _ in every_ratio(part) if axis != "tier" or tier == value]
            n_plans = sum(len(record["tiers"]) if axis != "tier" else value in record["tiers"] for record in part)
            mean, least = (statistics.geometric_mean(found), min(found)) if found else (1.0, 1.0)
            below = (str(sum(ratio < limit for ratio in found)) for limit in LIMITS)
            rows.append([f"{axis} {value}", str(n_plans), str(len(found) // 2), f"{mean:.2f}", f"{least:.2f}", *below])
    worst = sorted(every_ratio(records))[:n_worst]
    lines = [f"{ratio:.3f}  {tier:<8} {way:<3} {key}" for ratio, tier, way, key in worst]
    n_matrices = len({record["matrix"] for record in records})
    return f"{len(records)} cases of {n_matrices} matrices\n\n{markdown(rows)}\n\nthe worst:\n" + "\n".join(lines)


def _values(record: dict[str, Any], axis: str) -> Sequence[Any]:
    return list(record["tiers"]) if axis == "tier" else [record[axis]]


def main() -> int:
    """Measure, then report."""
    args = arguments()
    if args.case is not None:
        print(json.dumps(measure(SweepCase(**json.loads(args.case)), args)))
        return 0
    results = ResultFile(args.json)
    if not args.report:
        with tempfile.TemporaryDirectory(prefix="autosparse-sweep-") as kernels:
            run(args, results, kernels)
    print(report(results.cases()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
