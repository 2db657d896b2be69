"""Compare each tuning tier with a much longer search, and with the default kernel.

    python benchmarks/oracle.py --matrices DIR --ops spmv,spmm32 --json FILE           # long, resumable
    python benchmarks/oracle.py --matrices DIR --step race --json FILE                 # races alone, on a quiet machine
    python benchmarks/oracle.py --report --json FILE

Each matrix and operation takes two steps. Each step writes one JSON line, so that an interrupted run can continue:

* *search*: `estimate` and `measure` decide as they do for users. Then a full search runs for at least --seconds, and
  again twice as long until it has timed MORE_CANDIDATES times as many schedules as `measure`. All have the memory for
  packed copies that users have (option `extra_memory`);
* *race*: the default kernel, the choice of each tier and the N_FINALISTS fastest of the long search, interleaved in one
  process, N_RACES times with fresh packed copies. A time is the median over the races. A race, or a tier's decision
  before it, that other processes disturb is repeated, at most MAX_TRIES times in all.

The *oracle* is the fastest contender of the race. Among near-equal contenders the luckiest wins, so shares of it are
biased low. Compilers take most of a search: `--step compile`, with a persistent --cache, builds every kernel that a
search can ask for. Searches on a busy machine propose worse schedules and learn wrong prices; after them `--step race
--decide-again` lets the tiers decide again before each race.

Only groups are measured that are held out from training and not sealed (benchmarks/sealed.py), or with `--groups
validation` the validation groups of training, by which design choices are made.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from autosparse.tuner.research.collect.batches import Load, others_load
from autosparse.tuner.research.collect.operations import OPS, Op
from autosparse.tuner.research.collect.recipes import RealFile, is_held_out, is_sealed, read_coordinates, real_files
from autosparse.tuner.research.training.data import is_validation
from autosparse.tuner.space import spaces
from peerlib.environment import matrices_folder, start_again
from peerlib.oracle_report import MAX_LOAD, report
from peerlib.records import ResultFile, given_arguments

from autosparse import cache
from autosparse.calibration.collection import build_ahead, context_for, proposals
from autosparse.config import Effort, Options, get_options, options, set_options
from autosparse.core.composite import Schedule, schedule_from_json
from autosparse.core.plan import Plan
from autosparse.errors import TUNING_FAILURES
from autosparse.tuning import planner
from autosparse.tuning.trials.context import TuningContext

T = TypeVar("T")

MORE_CANDIDATES: Final = 3
N_FINALISTS: Final = 5
N_RACES: Final = 3
N_PROPOSED: Final = 64
"""Number of the learned model's favourites whose kernels are built ahead."""
MAX_TRIES: Final = 3
"""Maximum number of tries of a disturbed step; the least disturbed try counts."""
WHOLE: Final = 0.6
"""Fraction of its budget below which a search is regarded as exhaustive.

A search that stops because its next step does not fit leaves less of the budget.
"""
TIERS: Final[Mapping[str, float]] = {"estimate": 10.0, "measure": 10.0}
"""Maximum seconds of each tier, as in the default options."""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--matrices", type=Path, default=matrices_folder(), help="folder of matrices and tensors with its index.csv")
    add("--min-nnz", type=int, default=10_000)
    add("--only", action="append", default=[], metavar="NAME", help="only this matrix (repeatable)")
    add("--per-group", type=int, default=2, metavar="N", help="maximum number of matrices per group (2)")
    add("--ops", default="spmv,spmm8,spmm32,spmm256,sddmm32,sddmm256,mttkrp16")
    add("--threads", type=int, default=2)
    add("--dtype", choices=("float32", "float64"), default="float32")
    add("--seconds", type=float, default=60.0, help="minimum seconds of a long search (60)")
    add("--most", type=float, default=480.0, help="maximum seconds of one long search (480)")
    add("--at-most", type=float, default=float("inf"), metavar="S", help="begin nothing after S seconds")
    add("--cache", type=Path, help="persistent folder of kernels: a race finds the kernels of its search there")
    add("--decide-again", action="store_true", help="with race: let the tiers decide again")
    add("--step", choices=("compile", "search", "race", "all"), default="all", help="all: searches and races")
    add("--groups", choices=("open", "validation"), default="open", help="held-out or validation groups")
    add("--sealed", action="store_true", help=argparse.SUPPRESS)  # set by sealed.py, which records every use
    add("--json", type=Path, help="JSON lines: results are appended; cases that it holds are not measured again")
    add("--report", action="store_true", help="only print the tables of --json")
    parsed = parser.parse_args(given)
    if parsed.step == "compile" and parsed.cache is None:
        parser.error("--step compile needs the --cache that races will use")
    if parsed.matrices is None and not parsed.report:
        parser.error("no folder of matrices: give --matrices DIR or set AUTOSPARSE_MATRICES")
    return parsed


def files_of(args: argparse.Namespace) -> list[RealFile]:
    """Return files of the wanted groups: the first of every group, then the second, and so on.

    A run that stops early has then covered as many groups as possible.
    """
    found: dict[str, list[RealFile]] = {}
    for one in real_files(args.matrices):
        is_wanted = one.nnz >= args.min_nnz and (not args.only or one.name.removesuffix(".npz") in args.only)
        if is_wanted and kind_of(one.group) == ("sealed" if args.sealed else args.groups):
            found.setdefault(one.group, []).append(one)
    chosen = [sorted(group, key=lambda one: one.nnz)[: args.per_group] for group in found.values()]
    turns = itertools.zip_longest(*sorted(chosen, key=lambda group: group[-1].nnz))
    return [one for turn in turns for one in turn if one is not None]


def kind_of(group: str) -> str:
    """Return the split of a group: "sealed", "open" (also held out), "validation" or "train"."""
    if is_held_out(group):
        return "sealed" if is_sealed(group) else "open"
    return "validation" if is_validation(group) else "train"


# -- the two steps ----------------------------------------------------------------------------------------------------


def decided(context: TuningContext, effort: Effort, budget_s: float, start: Plan | None = None) -> dict[str, Any]:
    """Return the decision of tuning with `effort`, with compiled kernels but no stored plan."""
    if start is None:
        cache.open_store(get_options()).forget(("plan", "features"))
    start_s = time.perf_counter()
    decision = planner.plan(context, runs=None, effort=effort, budget_s=budget_s)
    if decision.trial is not None:
        decision.trial.drop()
    plan = decision.plan
    timed = sorted((one for one in plan.candidates if one.measured_s), key=lambda one: one.measured_s or 0.0)
    ratio = plan.measured_s / plan.default_s if plan.measured_s and plan.default_s else plan.predicted_ratio
    return {
        "schedule": plan.schedule.to_json() if plan.schedule is not None else None,
        "claimed": 1.0 if plan.schedule is None else ratio,
        "n_timed": len(timed),
        "fastest": [one.schedule.to_json() for one in timed[:N_FINALISTS] if one.schedule is not None],
        "seconds": time.perf_counter() - start_s,
    }


def undisturbed(do: Callable[[], T]) -> tuple[T, float]:
    """Return the result of `do` and the number of processors that others kept busy; retry above MAX_LOAD."""
    tries: list[tuple[T, float]] = []
    while len(tries) < MAX_TRIES:
        before = Load.now()
        tries.append((do(), others_load(before)))
        if not tries[-1][1] > MAX_LOAD:  # nan: unknown
            break
    return min(tries, key=lambda one: one[1])


def as_users_have_it(context: TuningContext) -> TuningContext:
    """Return `context` with users' memory limit for packed copies; races hold many copies, searches two."""
    settings = context.options._replace(extra_memory=Options().extra_memory)
    return dataclasses.replace(context, options=settings)


def tiers_of(context: TuningContext) -> dict[str, dict[str, Any]]:
    """Return the decision of each tier."""
    return {name: decided(context, Effort(name), budget_s) for name, budget_s in TIERS.items()}


def searched(context: TuningContext, least_s: float, most_s: float) -> dict[str, Any]:
    """Return the decisions of the tiers, and the fastest schedules of a search that is long enough or took `most_s`."""
    tiers = tiers_of(context)
    budget_s, spent_s = least_s, 0.0
    while True:
        found = decided(context, Effort.FULL, budget_s)
        spent_s += found["seconds"]
        is_enough = found["n_timed"] >= MORE_CANDIDATES * tiers["measure"]["n_timed"]
        is_whole = found["seconds"] < WHOLE * budget_s
        if is_enough or is_whole or 2 * budget_s > most_s:
            return {"tiers": tiers, "long": found, "long_s": spent_s, "is_long": is_enough or is_whole}
        budget_s *= 2


def raced(context: TuningContext, search: Mapping[str, Any], *, decide_again: bool) -> dict[str, Any]:
    """Return times of every contender relative to the default kernel, as medians over N_RACES races."""
    from ablation import race

    tiers, load = undisturbed(lambda: tiers_of(as_users_have_it(context))) if decide_again else (search["tiers"], None)
    chosen = [one["schedule"] for one in (*search["tiers"].values(), *tiers.values())]
    texts = [search["long"]["schedule"], *search["long"]["fastest"], *chosen]
    entrants: dict[str, Schedule | None] = {"default": None}
    entrants |= {text: schedule_from_json(text) for text in texts if text is not None}
    found = [undisturbed(lambda: race(context, entrants)) for _ in range(N_RACES)]
    races = [{name: one["median_s"] for name, one in times.items()} for (times, _), _ in found]
    left_out = found[-1][0][1]
    names = [name for name in entrants if all(name in one for one in races)]
    ratios = {name: statistics.median(one[name] / one["default"] for one in races) for name in names}
    default_s = statistics.median(one["default"] for one in races)
    loads = {"others_load": max(load for _, load in found), "others_load_deciding": load}
    return {"ratios": ratios, "default_s": default_s, "left_out": left_out, "tiers": tiers, **loads}


# -- the run ----------------------------------------------------------------------------------------------------------


def cells(args: argparse.Namespace) -> Iterator[tuple[RealFile, Op, str]]:
    """Yield (file, operation, key) of every wanted case; all operations of a file before the next file."""
    operations = [OPS[name] for name in args.ops.split(",")]
    for file in files_of(args):
        for op in operations:
            if file.n_dims == op.n_dims:
                yield file, op, "|".join((file.name.removesuffix(".npz"), op.name, args.dtype, str(args.threads)))


def run(args: argparse.Namespace, results: ResultFile) -> None:
    """Run the steps that `results` does not hold yet."""
    from peerlib.machine import machine_facts

    begun_s = time.perf_counter()
    steps = [step for step in ("search", "race") if args.step in (step, "all")]
    results.append({"kind": "run", "arguments": given_arguments(), **machine_facts()})
    # Kernels may still be compiled ahead when the folder is removed.
    with tempfile.TemporaryDirectory(prefix="autosparse-oracle-cache-", ignore_cleanup_errors=True) as folder:
        set_options(threads=args.threads, effort="measure", overhead=0.0, cache_dir=args.cache or folder)
        for (file, op, key), step in itertools.product(cells(args), steps):
            done = {one["key"]: one for one in results.cases()}
            is_possible = step == "search" or f"{key}|search" in done
            if f"{key}|{step}" in done or not is_possible:
                continue
            if time.perf_counter() - begun_s > args.at_most:
                return
            try:
                results.append(_step(args, file, op, key=key, step=step, done=done))
            except TUNING_FAILURES as error:  # the next run tries again
                results.append({"kind": "failure", "key": f"{key}|{step}", "why": f"{type(error).__name__}: {error}"})
                print(f"{step:6} {key} failed: {type(error).__name__}: {error}", flush=True)
                continue
            print(f"{step:6} {key}", flush=True)


def compile_ahead(args: argparse.Namespace) -> None:
    """Build the kernels that searches of the files can time, file by file, in --cache."""
    set_options(threads=args.threads, cache_dir=args.cache)
    made: set[tuple[str, Schedule]] = set()
    for file, op, key in cells(args):
        with (
            options(threads=args.threads),
            context_for(read_coordinates(args.matrices / file.name), op, args.dtype) as context,
        ):
            found = [*proposals(context, N_PROPOSED), *spaces.everything(context.problem, context.supports)]
        fresh = [one for one in dict.fromkeys(found) if (op.name, one) not in made]
        made |= {(op.name, one) for one in fresh}
        print(f"compile {key}: {build_ahead(op, fresh, args.dtype) if fresh else 0} kernels", flush=True)


def _step(
    args: argparse.Namespace, file: RealFile, op: Op, *, key: str, step: str, done: Mapping[str, Any]
) -> dict[str, Any]:
    pattern = read_coordinates(args.matrices / file.name)
    with options(threads=args.threads), context_for(pattern, op, args.dtype) as context:
        if step == "search":
            found = searched(as_users_have_it(context), args.seconds, args.most)
        else:
            found = raced(context, done[f"{key}|search"], decide_again=args.decide_again)
    facts = {"matrix": file.name.removesuffix(".npz"), "group": file.group, "operation": op.name, "nnz": pattern.nnz}
    return {"kind": "case", "key": f"{key}|{step}", "case": key, "step": step, **facts, **found}


def main(given: Sequence[str] | None = None) -> int:
    """Measure and report."""
    args = arguments(given)
    results = ResultFile(args.json)
    if not args.report:
        start_again(args.threads)
        if args.step == "compile":
            compile_ahead(args)
            return 0
        run(args, results)
    print(report(results.cases()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
