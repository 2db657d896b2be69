"""Collect samples of GPU kernels (`benchmarks/gpu.py --collect`): the model's favourites and random candidates.

Every result is compared with float64 before it is timed; wrong and refused candidates are left out and told.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from autosparse.cuda import solvers
from autosparse.gpu.schedule import DeviceSchedule
from autosparse.gpu.target import target_of
from gpulib import hybrid
from gpulib.measure import TOLERANCE, Clock, first_line, median_s
from gpulib.samples import GpuPattern, SampleFile

FAVOURITES: Final = 8
"""Number of candidates that the model ranks first."""
RANDOM: Final = 12
"""Number of candidates drawn from the others, so that a model sees programs that no model favours."""
DRY: Final = (1, 1)
"""Favourites and random candidates in Triton's interpreter."""
Record = dict[str, Any]


def cases(folder: Path | None, file: SampleFile, *, dry: bool) -> Iterator[tuple[str, Callable[[Clock], Record]]]:
    """Yield (name, function that samples the case) for each matrix, width, dtype and operation."""
    groups = _groups(folder)
    for case, make in hybrid.cases(folder, dry=dry):
        group = groups.get(case.matrix, case.matrix)
        yield case.name, lambda clock, case=case, make=make, group=group: sample(case, make(), group, file, clock)


def _groups(folder: Path | None) -> dict[str, str]:
    """Return the group of each real matrix."""
    if folder is None or not (folder / "index.csv").exists():
        return {}
    with (folder / "index.csv").open(encoding="utf-8", newline="") as stream:
        return {row["name"]: row["group"] for row in csv.DictReader(stream)}


def sample(case: hybrid.HybridCase, given: Any, group: str, file: SampleFile, clock: Clock) -> Record:
    """Append the seconds of the case's candidates to `file`, and return a record of what failed."""
    facts = {
        "device": clock.name, "operation": case.operation, "matrix": case.matrix, "columns": case.columns,
        "dtype": case.dtype,
    }  # fmt: skip
    record: Record = {
        "case": case.name, "part": f"samples {case.operation}", "failed": {}, "wrong": [], "rejected": [],
        "served": [0, 0], "seconds": {}, "is_dry": not clock.is_gpu,
    }  # fmt: skip
    if file.has(facts):
        return record
    if not file.has_pattern(case.matrix):
        file.add_pattern(GpuPattern.of(case.matrix, group, given))
    products, seconds = hybrid.Products(case, given, clock.place), {}
    for schedule in chosen(products, clock):
        try:
            run = products.ours(schedule)
            if products.error(run) <= TOLERANCE[case.dtype]:
                seconds[schedule] = median_s(run, clock)
            else:
                record["wrong"].append(str(schedule))
        except Exception as err:  # noqa: BLE001  failures are recorded; the collection continues
            record["failed"][str(schedule)] = first_line(err)
    file.add(facts, seconds)
    return record | {"served": [len(seconds), len(seconds) + len(record["wrong"])]}


def chosen(products: hybrid.Products, clock: Clock) -> list[DeviceSchedule]:
    """Return the model's favourites among single layouts, and random ones of the others."""
    n_first, n_random = (FAVOURITES, RANDOM) if clock.is_gpu else DRY
    ranked = solvers.ranked(products.A.structure, products.kind, target_of(clock.name))
    singles = [one for _, one in ranked if not one.is_composite]
    others = singles[n_first:]
    picked = np.random.default_rng(0).permutation(len(others))[:n_random].tolist()
    return [*singles[:n_first], *(others[at] for at in sorted(picked))]
