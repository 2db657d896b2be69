"""What it gains to correct the learned model by times of its first favourites (`tuner.correction`,
docs/design/tuning-policy.md).

    python benchmarks/asked_again.py --op spmv --data build/data/training/xeon480 --matrices FOLDER

Replayed on collected data of one machine: of the schedules that were timed on each pattern that no training saw, 18 are
chosen, and the fastest of them is compared with the fastest of all (or the default kernel). Either 14 by the learned
model and 4 by the statistics, all at once; or 10 and 4, and then 4 more as `next_best` says after their times.
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
from autosparse.tuner.collect.files import REFUSED, Measurements, read_folder
from autosparse.tuner.collect.operations import OPS
from autosparse.tuner.learned.predict import PER_FORMAT, LearnedModel
from autosparse.tuner.search.residual_model import next_best
from autosparse.tuner.training.data import is_validation
from peerlib.environment import matrices_folder
from peerlib.summary import Distribution
from peerlib.table import markdown

from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule

N_FIRST, N_STATISTICS, N_AGAIN = 10, 4, 4
FEWEST: Final = 2 * (N_FIRST + N_STATISTICS + N_AGAIN)
"""Times that a pattern must have: with fewer most of them would be chosen."""


@dataclass(frozen=True, slots=True)
class Case:
    """Schedules of one pattern: what the models predict, and times over the default kernel's."""

    named: Sequence[Proposal]  # by the learned model
    statistics: Sequence[float]
    ratios: Sequence[float]
    is_held_out: bool

    @property
    def best(self) -> float:
        """Of the fastest, or of the default kernel."""
        return min(1.0, *self.ratios)

    def quality(self, chosen: Sequence[int]) -> float:
        """Time of the best over that of the best chosen one."""
        return self.best / min(1.0, *(self.ratios[at] for at in chosen))

    def first(self, n: int) -> list[int]:
        """`n` favourites of the learned model, some of each format, and those of the statistics, one of each."""
        chosen = _some_of_each(self.named, np.argsort([one.ratio for one in self.named]), n, PER_FORMAT)
        others = [at for at in np.argsort(self.statistics).tolist() if at not in chosen]
        return chosen + _some_of_each(self.named, others, N_STATISTICS, 1)


def at_once(case: Case) -> list[int]:
    """All by what was predicted."""
    return case.first(N_FIRST + N_AGAIN)


def asked_again(case: Case) -> list[int]:
    """The last ones after the times of the first."""
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
    """Of the patterns that no training saw; those whose matrices are not here are left out."""
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
    """A row per policy: best of all over best chosen, geometric mean and 5th percentile, by groups."""
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
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--op", default="spmv", choices=sorted(OPS))
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="collected data of one machine")
    parser.add_argument("--matrices", type=Path, default=matrices_folder(), help="the real ones among the patterns")
    parser.add_argument("--models", type=Path, help="learned models (default: those in use)")
    return parser.parse_args(given)


def main() -> int:
    """Replay, then report."""
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
