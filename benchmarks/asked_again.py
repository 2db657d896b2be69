"""Measure the gain of correcting the learned model by the times of its first candidates
(`tuner.search.residual_model`).

    python benchmarks/asked_again.py --op spmv --data build/data/training/xeon480 --matrices FOLDER

The tuner is replayed on collected data of one machine. For each pattern that no training saw, 18 of the timed schedules
are chosen, and the fastest of them is compared with the fastest schedule of all (or the default kernel). Policy "at
once" chooses 14 by the learned model and 4 by the statistics model. Policy "asked again" chooses 10 and 4, then 4 more
by `next_best`, which uses the times of the first 14.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from autosparse.tuner.analytic.matmul import Proposal
from autosparse.tuner.learned.predict import PER_FORMAT, LearnedModel
from autosparse.tuner.research.collect.files import REFUSED, Measurements, read_folder
from autosparse.tuner.research.collect.operations import OPS
from autosparse.tuner.research.training.data import is_validation
from autosparse.tuner.search.residual_model import next_best
from peerlib.environment import matrices_folder
from peerlib.summary import Distribution
from peerlib.table import markdown

from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule

N_FIRST, N_STATISTICS, N_AGAIN = 10, 4, 4
FEWEST: Final = 2 * (N_FIRST + N_STATISTICS + N_AGAIN)
"""Minimum number of timed schedules per pattern; with fewer, the policies would choose most of them."""


@dataclass(frozen=True, slots=True)
class Case:
    """Schedules of one pattern, with predictions of both models and times relative to the default kernel."""

    named: Sequence[Proposal]  # predictions of the learned model
    statistics: Sequence[float]
    ratios: Sequence[float]
    is_held_out: bool

    @property
    def best(self) -> float:
        """Time ratio of the fastest schedule, or 1 if the default kernel is fastest."""
        return min(1.0, *self.ratios)

    def quality(self, chosen: Sequence[int]) -> float:
        """Return the best time over the time of the best chosen schedule, at most 1."""
        return self.best / min(1.0, *(self.ratios[at] for at in chosen))

    def first(self, n: int) -> list[int]:
        """Return indices of `n` favourites of the learned model and of N_STATISTICS favourites of the statistics model.

        At most PER_FORMAT favourites of the learned model, and one of the statistics model, share a format.
        """
        chosen = _some_of_each(self.named, np.argsort([one.ratio for one in self.named]), n, PER_FORMAT)
        others = [at for at in np.argsort(self.statistics).tolist() if at not in chosen]
        return chosen + _some_of_each(self.named, others, N_STATISTICS, 1)


def at_once(case: Case) -> list[int]:
    """Choose all schedules by predictions."""
    return case.first(N_FIRST + N_AGAIN)


def asked_again(case: Case) -> list[int]:
    """Choose the first schedules by predictions and the last ones by `next_best`, given the times of the first."""
    first = case.first(N_FIRST)
    times = {case.named[at].schedule: case.ratios[at] for at in first}
    places = {one.schedule: at for at, one in enumerate(case.named)}
    return first + [places[one] for one in next_best(case.named, times, N_AGAIN)]


POLICIES: Final[dict[str, Callable[[Case], list[int]]]] = {"at once": at_once, "asked again": asked_again}


def _some_of_each(named: Sequence[Proposal], order: Sequence[Any], n: int, per_format: int) -> list[int]:
    seen: Counter[object] = Counter()
    chosen = []
    for at in order:
        fmt = named[at].schedule.format
        seen[fmt] += 1
        if seen[fmt] <= per_format and len(chosen) < n:
            chosen.append(int(at))
    return chosen


# -- from collected data ---------------------------------------------------------------------------------------------


def cases(data: Sequence[Path], op: str, model: LearnedModel, matrices: Path | None) -> Iterator[Case]:
    """Yield cases of the patterns that no training saw; patterns whose matrix is missing here are skipped."""
    for found in itertools.chain.from_iterable(read_folder(folder, op) for folder in data):
        if found.is_held_out or is_validation(found.recipe.group):
            try:
                pattern = found.recipe.make(matrices)
            except (OSError, ValueError, KeyError):
                continue
            case = _case(found, model, pattern.to_structure())
            if case is not None:
                yield case


def _case(found: Measurements, model: LearnedModel, pattern: Any) -> Case | None:
    from autosparse.tuner.analytic.models import statistics_model

    problem = Problem(
        operation=OPS[found.facts["op"]].operation, pattern=pattern, transposed=False,
        n_dense_cols=OPS[found.facts["op"]].n_dense_cols, dtype="float32", threads=found.facts["threads"],
        deterministic=False, target=found.target,
    )  # fmt: skip
    timed = {
        one: float(ratio)
        for one, ratio, status in zip(found.super_schedules(), found["ratio"], found["status"], strict=True)
        if status != REFUSED and np.isfinite(ratio) and ratio > 0
    }
    named = model.predict(problem, model.scorer.features(pattern), timed)
    if len(named) < FEWEST:
        return None
    schedules: list[SuperSchedule] = [one.schedule for one in named]
    default_s, *times = statistics_model(problem).rank(problem, [None, *schedules])
    expected = [time_s / default_s if np.isfinite(time_s) else np.inf for time_s in times]
    return Case(named, expected, [timed[one] for one in schedules], found.is_held_out)


# -- report ----------------------------------------------------------------------------------------------------------


def report(op: str, found: Sequence[Case]) -> str:
    """Format a table with one row per policy: geometric mean and 5th percentile of the quality, by split."""
    rows = [["operation", "18 chosen", "validation", "geomean", "5 %", "held out", "geomean", "5 %"]]
    for name, choose in POLICIES.items():
        row = [op, name]
        for is_held_out in (False, True):
            qualities = [case.quality(choose(case)) for case in found if case.is_held_out == is_held_out]
            summary = Distribution.of(qualities) if qualities else None
            row += [str(summary.n), f"{summary.geomean:.4f}", f"{summary.p5:.3f}"] if summary else ["0", "", ""]
        rows.append(row)
    return markdown(rows)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--op", default="spmv", choices=sorted(OPS))
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="collected data of one machine")
    parser.add_argument(
        "--matrices", type=Path, default=matrices_folder(), help="folder of the real matrices among the patterns"
    )
    parser.add_argument("--models", type=Path, help="learned models (default: those in use)")
    return parser.parse_args(given)


def main() -> int:
    """Replay both policies and print the report."""
    from autosparse.config import get_options, set_options
    from autosparse.core.target import Target
    from autosparse.tuning.learned import find_model

    args = arguments()
    set_options(models=args.models)
    model = find_model(get_options(), Target.host(), args.op)
    if model is None:
        print(f"no learned model of {args.op} to ask: give --models FOLDER", file=sys.stderr)
        return 2
    print(report(args.op, list(cases(args.data, args.op, model, args.matrices))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
