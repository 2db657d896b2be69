"""Measure the gain of tuning the format, the schedule, or both, over CSR as TACO computes it (WACO §2, Tables 1 and
2).

    python benchmarks/ablation.py --matrices DIR --ops spmv,spmm32 --seconds 8 --cross 8 --json FILE
    python benchmarks/ablation.py --report --json FILE     # the tables, in Markdown

For each matrix the tuner searches three parts of the space (peerlib/parts.py). The fastest schedules of every part, the
base and the default kernel are then timed in alternation in one process. The result of a part is its fastest schedule,
as in the paper (§5.2). With --cross N, the first N matrices of each operation are also computed with the schedules
tuned for each other.

An interrupted run continues where it stopped when given the same --json. Its steps can be run one by one: --step
compile builds the kernels that searches can ask for, --step search finds the fastest schedules, and --step race times
them. The race is short and needs a quiet machine. With --at-most S no step begins after S seconds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from autosparse.tuner.research.collect.operations import OPS, Op
from autosparse.tuner.research.generators.coordinates import Coordinates
from autosparse.tuner.search.trial import Trial
from peerlib.environment import matrices_folder
from peerlib.machine import machine_facts
from peerlib.matrices import MatrixFile, find_matrices, load
from peerlib.parts import PartSearch, base_schedule, format_part, kernels_of, schedule_part, whole
from peerlib.records import ResultFile
from peerlib.table import markdown
from peerlib.timing import Protocol, Timing, take_turns

from autosparse import _native, cache, config
from autosparse.calibration.collection import context_for
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import choice_of
from autosparse.tuning.trials.context import TuningContext

PARTS: Final = ("format", "schedule", "both")
SHARES: Final = {"format": 0.25, "schedule": 0.25, "both": 0.5}
"""Fraction of the seconds per matrix that the search of each part gets."""
N_FINALISTS: Final = 3
"""Number of schedules of each part that take part in the race."""
PROTOCOL: Final = Protocol(rounds=11, most_s=2.0)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--matrices", type=Path, default=matrices_folder(), help="folder of matrices, or one file")
    add("--min-nnz", type=int, default=100_000)
    add("--only", action="append", default=[], metavar="NAME", help="only this matrix (repeatable)")
    add("--limit", type=int, help="the first LIMIT matrices only")
    known = ", ".join(name for name, op in OPS.items() if op.n_dims == 2)
    add("--ops", default="spmv,spmm32", help=f"operations, comma-separated, among {known}")
    add("--threads", type=int, default=2)
    add("--dtype", choices=("float32", "float64"), default="float32")
    add("--seconds", type=float, default=8.0, help="search time per matrix and operation, all parts together")
    add("--cross", type=int, default=0, metavar="N", help="compute the first N matrices with each other's schedules")
    add("--at-most", type=float, default=float("inf"), metavar="S", help="begin nothing after S seconds")
    add("--step", choices=("all", "compile", "search", "race"), default="all", help="take only this step")
    add("--json", type=Path, help="JSON lines: results are appended; cases that it holds are not measured again")
    add("--report", action="store_true", help="only print the tables of the results in --json")
    parsed = parser.parse_args(given)
    if parsed.matrices is None and not parsed.report:
        parser.error("no folder of matrices: give --matrices DIR or set AUTOSPARSE_MATRICES")
    return parsed


# -- measuring --------------------------------------------------------------------------------------------------------


@contextmanager
def opened(file: MatrixFile, op: Op, args: argparse.Namespace) -> Iterator[TuningContext]:
    """Open the collecting context of `op` on the pattern of a file, with random values."""
    found = load(file.path, dtype=args.dtype).tocoo()
    pattern = Coordinates.of(found.shape, (found.row, found.col))
    with config.options(threads=args.threads), context_for(pattern, op, args.dtype) as context:
        yield context


def race(context: TuningContext, named: Mapping[str, SuperSchedule | None]) -> tuple[dict[str, Any], dict[str, str]]:
    """Time the named schedules in alternation; return timings by name, and the reasons of those left out by name.

    None is the default kernel. Equal schedules are timed once. Schedules whose packed copies do not fit beside the
    others are timed in a later round. The first schedule runs in every round and its time normalises the rounds.
    """
    trials = {one: context(choice_of(one)) for one in dict.fromkeys(named.values())}
    context.build([trial for one, trial in trials.items() if one is not None])
    first, *waiting = trials
    times: dict[SuperSchedule | None, dict[str, float]] = {}
    while True:
        found, lacks_memory = _batch(context, {one: trials[one] for one in (first, *waiting)})
        drift = times[first]["median_s"] / found[first].median_s if times else 1.0
        for one, timing in found.items():
            seconds = {name: value * drift for name, value in asdict(timing).items() if name.endswith("_s")}
            times.setdefault(one, {**asdict(timing), **seconds})
        if not lacks_memory or len(lacks_memory) == len(waiting):
            break
        waiting = lacks_memory
    absent = {name: trials[one].failed for name, one in named.items() if one not in times}
    kept = {name: times[one] for name, one in named.items() if one in times}
    return kept, {name: why or "no room, or too slow" for name, why in absent.items()}


def _batch(
    context: TuningContext, trials: Mapping[SuperSchedule | None, Trial]
) -> tuple[dict[SuperSchedule | None, Timing], list[SuperSchedule | None]]:
    """Time the trials that fit into memory together; return their timings and the schedules that did not fit."""
    runs: dict[SuperSchedule | None, Callable[[], object]] = {}
    lacks_memory = []
    try:
        for one, trial in trials.items():
            trial.pack()
            if trial.lacks_memory:
                lacks_memory.append(one)
            elif (run := context.served(trial, is_fresh=True)) is not None:  # all use the same output
                runs[one] = run
        timings = take_turns({str(at): run for at, run in enumerate(runs.values())}, PROTOCOL)
        return dict(zip(runs, timings.values(), strict=True)), lacks_memory
    finally:
        for trial in trials.values():
            trial.drop()


def search(context: TuningContext, op: Op, seconds: float) -> dict[str, Any]:
    """Search each part of the space for its fastest schedules; `seconds` bounds the total time."""
    base = base_schedule(op)
    found: dict[str, list[SuperSchedule]] = {}
    parts = {"format": lambda: format_part(context, base), "schedule": lambda: schedule_part(base)}
    parts["both"] = lambda: whole([*found["format"][:1], *found["schedule"][:1], base])
    n_measured = {}
    for name in PARTS:
        found[name], n_measured[name] = PartSearch(context, parts[name]()).best(SHARES[name] * seconds, N_FINALISTS)
    return {
        "finalists": {name: [one.to_json() for one in fastest] for name, fastest in found.items()},
        "n_measured": n_measured,
        "seconds": seconds,
    }


def ablate(context: TuningContext, op: Op, finalists: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Time the finalists of each part beside the base and the default kernel; name the fastest of each part.

    The part "both" includes the finalists of the two other parts.
    """
    base = base_schedule(op)
    read = {name: [SuperSchedule.from_json(text) for text in texts] for name, texts in finalists.items()}
    entrants = {one.to_json(): one for one in (base, *(one for fastest in read.values() for one in fastest))}
    times, left_out = race(context, {**entrants, "default": None})
    winners = {"base": base.to_json()}
    for name in PARTS:
        of_part = entrants if name == "both" else {one.to_json(): one for one in (base, *read[name])}
        winners[name] = min((text for text in of_part if text in times), key=lambda text: times[text]["median_s"])
    kept = {name: times[text] for name, text in winners.items()}
    return {"times": {**kept, "default": times["default"]}, "left_out": left_out, "schedules": winners}


def borrowed(context: TuningContext, op: Op, tuned: Mapping[str, SuperSchedule]) -> dict[str, Any]:
    """Time the schedules tuned for each matrix of `tuned` on this matrix, beside the base."""
    times, left_out = race(context, {"base": base_schedule(op), **tuned})
    return {"times": times, "left_out": left_out}


def key_of(experiment: str, matrix: str, op: Op, args: argparse.Namespace) -> str:
    """Return the identifier of one cell of the experiment."""
    return "|".join((experiment, matrix, op.name, args.dtype, str(args.threads)))


def tuned_for(records: Sequence[Mapping[str, Any]], op: Op, names: Sequence[str]) -> dict[str, SuperSchedule]:
    """Return the best schedule found by tuning both, by matrix, for the `names` that were measured."""
    found = {one["matrix"]: one["schedules"]["both"] for one in records if one["operation"] == op.name}
    return {name: SuperSchedule.from_json(found[name]) for name in names if name in found}


def run(args: argparse.Namespace, results: ResultFile) -> None:
    """Measure every cell that `results` does not hold yet."""
    start_s, run_id = time.perf_counter(), time.strftime("%Y-%m-%dT%H:%M:%S")
    files = find_matrices(args.matrices, min_nnz=args.min_nnz, only=tuple(args.only), limit=args.limit)
    has_begun = False

    def cell(experiment: str, file: MatrixFile, op: Op, measure: Callable[[TuningContext], dict[str, Any]]) -> None:
        nonlocal has_begun
        key = key_of(experiment, file.name, op, args)
        if key in _done(results) or time.perf_counter() - start_s > args.at_most:
            return
        if not has_begun:
            results.append({"kind": "run", "run": run_id, "machine": machine_facts()})
            has_begun = True
        with opened(file, op, args) as context:
            matrix = context.problem.pattern
            facts = {"matrix": file.name, "operation": op.name, "dtype": args.dtype, "threads": args.threads}
            record = {"kind": "case", "run": run_id, "key": key, "experiment": experiment, **facts}
            record |= {"shape": list(matrix.shape), "nnz": matrix.nnz, **measure(context)}
        results.append(record)
        print(f"{experiment:8s} {op.name:8s} {file.name:32s} {_brief(record)}", flush=True)

    for op in (OPS[name] for name in args.ops.split(",")):
        for file in files:
            if args.step != "race":
                cell("search", file, op, lambda context, op=op: search(context, op, args.seconds))
            found = _done(results).get(key_of("search", file.name, op, args))
            if args.step != "search" and found is not None:
                cell("ablation", file, op, lambda context, op=op, found=found: ablate(context, op, found["finalists"]))
        crossed = files[: args.cross]
        tuned = tuned_for(results.cases(experiment="ablation"), op, [file.name for file in crossed])
        if len(tuned) == len(crossed) and args.step != "search":
            for file in crossed:
                cell("cross", file, op, lambda context, op=op, tuned=tuned: borrowed(context, op, tuned))


def _done(results: ResultFile) -> dict[str, dict[str, Any]]:
    return {record["key"]: record for record in results.cases()}


def compile_all(args: argparse.Namespace) -> None:
    """Build every kernel that the searches can ask for."""
    for file in find_matrices(args.matrices, min_nnz=args.min_nnz, only=tuple(args.only), limit=args.limit):
        for op in (OPS[name] for name in args.ops.split(",")):
            with opened(file, op, args) as context:
                specs = kernels_of(context, base_schedule(op))
                _native.build_many(specs, store=cache.open_store(), compiler=config.get_options().compiler)
                print(f"{op.name:8s} {file.name:32s} {len(specs)} kernels", flush=True)


def _brief(record: Mapping[str, Any]) -> str:
    if "times" not in record:
        return "  ".join(f"{name} {n} measured" for name, n in record["n_measured"].items())
    return "  ".join(f"{name} {gain:.2f}" for name, gain in gains(record).items() if name != "base")


# -- tables -----------------------------------------------------------------------------------------------------------


def gains(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the speedup over the base by name, for every contender that ran."""
    times_s = {name: timing["median_s"] for name, timing in record["times"].items()}
    return {name: times_s["base"] / time_s for name, time_s in times_s.items()}


HEAD: Final = (
    "Speedups over the base, CSR as TACO computes it, after tuning the format (F.), the schedule (S.), or both, and "
    'with the schedule tuned for another matrix (opt-...). "-": the format cannot hold the matrix.'
)


def ablation_table(records: Sequence[Mapping[str, Any]]) -> str:
    """Format WACO's Table 1: speedups over the base per matrix, and their geometric means."""
    columns = (*PARTS, "default")
    rows = [["matrix", "nonzeros", "base", "F.", "S.", "F.+S.", "default kernel", "format of F.+S."]]
    for record in records:
        gain, best = gains(record), SuperSchedule.from_json(record["schedules"]["both"])
        base_us = f"{record['times']['base']['median_s'] * 1e6:.0f} us"
        shown = [f"{gain[name]:.2f}" if name in gain else "-" for name in columns]
        rows.append([record["matrix"], f"{record['nnz']:,}", base_us, *shown, f"`{best.format}`".replace("|", "\\|")])
    means = [mean_gain(records, name) for name in columns]
    rows.append(["**geomean**", "", "", *(f"**{mean:.2f}**" for mean in means), ""])
    return markdown(rows)


def mean_gain(records: Sequence[Mapping[str, Any]], name: str) -> float:
    """Return the geometric mean speedup of `name` over the matrices on which it ran."""
    return statistics.geometric_mean(gain[name] for gain in map(gains, records) if name in gain)


def cross_table(records: Sequence[Mapping[str, Any]]) -> str:
    """Format WACO's Table 2: speedups over the base by matrix (rows) and by the matrix tuned for (columns)."""
    names = [record["matrix"] for record in records]
    rows = [["matrix", *(f"opt-{name}" for name in names)]]
    for record in records:
        gain = gains(record)
        cells = {name: f"{gain[name]:.2f}" if name in gain else "-" for name in names}
        cells[record["matrix"]] = f"**{cells[record['matrix']]}**"
        rows.append([record["matrix"], *cells.values()])
    return markdown(rows)


def losses(records: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the ratios of the time with another matrix's schedule to the time with the matrix's own schedule."""
    found = []
    for record in records:
        times_s = {name: timing["median_s"] for name, timing in record["times"].items() if name != "base"}
        own_s = times_s.get(record["matrix"])
        found += [time_s / own_s for name, time_s in times_s.items() if own_s and name != record["matrix"]]
    return found


def report(results: ResultFile) -> str:
    """Format all tables of a results file, with matrices in alphabetical order."""
    ablations, crosses = (
        sorted(results.cases(experiment=one), key=lambda record: str(record["matrix"])) for one in ("ablation", "cross")
    )
    texts = [HEAD]
    for op in dict.fromkeys(record["operation"] for record in ablations):
        mine = [record for record in ablations if record["operation"] == op]
        texts.append(f"## {op}: {mine[0]['dtype']}, {mine[0]['threads']} threads\n\n{ablation_table(mine)}")
        crossed = [record for record in crosses if record["operation"] == op]
        if crossed:
            texts.append(cross_table(crossed))
        if loss := losses(crossed):
            mean = f"a product takes {statistics.geometric_mean(loss):.2f} times as long in the geometric mean"
            texts.append(f"With another matrix's schedule {mean}, {max(loss):.2f} at most.")
    return "\n\n".join(texts)


def main() -> int:
    """Measure and print the tables."""
    args = arguments()
    results = ResultFile(args.json)
    if args.step == "compile":
        compile_all(args)
        return 0
    if not args.report:
        run(args, results)
    print(report(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
