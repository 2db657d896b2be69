"""Compare estimates with shipped and with self-measured rates of the machine, on the archived training measurements.

    python benchmarks/rates.py --measure FILE                 # measure this machine as tuning does, add to FILE
    python benchmarks/rates.py --matrices DIR --rates FILE    # tables

Without a record, tuning measures the rates of the machine in 30 ms (`autosparse/tuning/rates`). The first command
repeats that measurement in fresh processes.

The second command takes patterns that no training read, and that two kinds of machines measured. It prints the share of
the best measured speed that an estimate reaches: the geometric mean of (best measured time) / (time of the program that
an estimate takes). An estimate takes the program with the shortest predicted time, or the default kernel. The rates are
the shipped ones, and those of each record: of FILE for Xeons, and of `machines.json` for EPYCs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from autosparse.tuner.analytic.models import statistics_model
from autosparse.tuner.features.setting import MachineRates
from autosparse.tuner.learned.predict import LearnedModel
from autosparse.tuner.research.training.data import TrainingCase, read_data
from kinds import data_folders
from peerlib.environment import matrices_folder

from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import Target
from autosparse.tuning.learned import shipped_folder
from autosparse.tuning.rates.probed import ProbedRates, RatesInUse
from autosparse.tuning.rates.probing import measured_rates
from autosparse.tuning.rates.scaling import SHIPPED, comparable, model_rates, rounded

SPLITS: Final = ("held_out", "validation")
PER_KIND: Final = 60
"""Maximum number of patterns of each operation and kind of machine."""

Ratios = Callable[[Problem, Any, Sequence[SuperSchedule]], np.ndarray]


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--measure", type=Path, metavar="FILE", help="measure in fresh processes, and write the records")
    add("--processes", type=int, default=10)
    add("--child", action="store_true", help=argparse.SUPPRESS)
    add("--rates", type=Path, metavar="FILE", help="records of --measure")
    add("--matrices", type=Path, default=matrices_folder())
    add("--ops", default="spmv,spmm32,spmm256,sddmm32")
    add("--per-kind", type=int, default=PER_KIND)
    return parser.parse_args(given)


def measure(path: Path, n_processes: int) -> None:
    """Measure in `n_processes` fresh processes, write the records to `path`, and print them."""
    records = []
    for _ in range(n_processes):
        command = [sys.executable, __file__, "--child"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        records.append(json.loads(done.stdout))
        print(", ".join(f"{name} {value:.3g}" for name, value in records[-1].items()), flush=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")


def child() -> dict[str, Any]:
    """Return the rates of this machine, the milliseconds of the measurement, and whether it was disturbed."""
    start_s, threads = time.perf_counter(), Target.host().n_cores
    found = measured_rates(Target.host(), threads)
    took_ms = 1e3 * (time.perf_counter() - start_s)
    return {**found.rates.to_data(), "took_ms": took_ms, "is_disturbed": found.is_disturbed}


def share_of(case: TrainingCase, predicted: np.ndarray) -> float:
    """Return the logarithm of (best measured time) / (time of the predicted program)."""
    ratios, best = np.minimum(case.ratios, 1e3), int(predicted.argmin())
    taken = float(ratios[best]) if predicted[best] < 1.0 else 1.0
    return math.log(min(1.0, float(ratios.min())) / taken)


def judged(op: str, args: argparse.Namespace, records: Sequence[ProbedRates]) -> Iterator[tuple[str, str, str, float]]:
    """Yield (kind of machine, model, rates, logarithm of the share) of each case and way."""
    model = LearnedModel.read(shipped_folder(Target.host()), op)
    counts: dict[str, int] = {}
    for case in read_data(data_folders(), op, spaces="own").cases:
        where = case.setting
        kind = f"{'EPYC' if where.target.fills_last_cache_late else 'Xeon'} {where.target.isa}"
        if case.split not in SPLITS or counts.get(kind, 0) >= args.per_kind:
            continue
        counts[kind] = counts.get(kind, 0) + 1
        structure = case.recipe.make(args.matrices).to_structure()
        problem = Problem(
            operation=case.operation, pattern=structure, transposed=False, n_dense_cols=where.n_dense_cols,
            dtype=where.dtype, threads=where.threads, deterministic=False, target=where.target,
        )  # fmt: skip
        features, typical = model.features(structure), MachineRates.typical(where.target)
        own = records if kind.startswith("Xeon") else [ProbedRates.of_data(typical.to_data())]
        ways: list[tuple[str, ProbedRates | None]] = [("shipped", None)]
        ways += [("measured", one) for one in own]
        ways += [("measured, rounded", rounded(one, typical)) for one in own]
        for name, rates in ways:
            chosen = SHIPPED if rates is None else model_rates(problem, RatesInUse(rates, where.threads, name))
            default_s, *times_s = statistics_model(problem, chosen).rank(problem, (None, *case.schedules))
            yield kind, "statistics", name, share_of(case, np.array(times_s) / default_s)
            able = dataclasses.replace(model, rates=rates)
            found = {one.schedule: one.ratio for one in able.predict(problem, features, case.schedules)}
            yield kind, "learned", name, share_of(case, np.array([found.get(one, 1e3) for one in case.schedules]))


def table(op: str, found: Mapping[tuple[str, str, str], Sequence[float]]) -> list[str]:
    """Return rows: operation, machine, model, rates, number of estimates, share."""
    return [
        f"| {op} | {kind} | {model} | {rates} | {len(logs)} | {math.exp(float(np.mean(logs))):.3f} |"
        for (kind, model, rates), logs in sorted(found.items())
    ]


def main(given: Sequence[str] | None = None) -> int:
    """Measure, or print the tables."""
    args = arguments(given)
    if args.child:
        print(json.dumps(child()))
        return 0
    if args.measure:
        measure(args.measure, args.processes)
        return 0
    lines = args.rates.read_text(encoding="utf-8").splitlines() if args.rates else []
    found_records = [json.loads(line) for line in lines]
    records = [comparable(ProbedRates.of_data(one)) for one in found_records if not one.get("is_disturbed")]
    print("| operation | machine | model | rates | estimates | share of the best |\n|---|---|---|---|---|---|")
    for op in args.ops.split(","):
        found: dict[tuple[str, str, str], list[float]] = {}
        for kind, model, rates, share in judged(op, args, records):
            found.setdefault((kind, model, rates), []).append(share)
        print("\n".join(table(op, found)), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
