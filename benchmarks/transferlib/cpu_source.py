"""The CPU as source of transfer: mapped schedules measured in `benchmarks/data`, without patterns of test groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from autosparse.tuner.research.collect.files import MEASURED, Measurements, read_folder
from autosparse.tuner.research.generators.coordinates import Coordinates
from autosparse.tuner.research.targets.base import Category
from autosparse.tuner.research.targets.gpu import Cpu
from autosparse.tuner.research.targets.mapper import mapped
from numpy.typing import NDArray

from transferlib.patterns import Named

MAX_ENTRIES: Final = 400_000
"""Maximum number of entries of a pattern; larger ones take too long to make."""
FEWEST: Final = 20
OPERATIONS: Final = {"spmm": "spmm32", "sddmm": "sddmm32"}


@dataclass(frozen=True, eq=False)
class CpuPattern:
    """Measurements of one pattern on the CPU."""

    name: str
    coordinates: Coordinates = field(repr=False)
    p: NDArray[np.float32] = field(repr=False)
    categories: Sequence[Category] = field(repr=False)
    ratios: NDArray[np.float32] = field(repr=False)


def cpu_patterns(
    data: Path, operation: str, matrices: Sequence[Named], folder: Path, n: int, *, seed: int = 0
) -> list[CpuPattern]:
    """Return `n` random patterns of `data` outside of test groups, or fewer if there are not enough."""
    judged = {one.group for one in matrices if not one.is_pool}
    measured = [one for one in read_folder(data, OPERATIONS[operation]) if _fits(one, judged)]
    found: list[CpuPattern] = []
    seen: set[str] = set()
    for at in np.random.default_rng(seed).permutation(len(measured)).tolist():
        recipe = measured[at].recipe
        if len(found) == n or recipe.to_json() in seen:
            continue
        seen.add(recipe.to_json())
        found.append(_pattern(measured[at], recipe.make(folder)))
    return found


def _fits(one: Measurements, judged: set[str]) -> bool:
    facts: dict[str, Any] = dict(one.facts)
    enough = int(np.count_nonzero(one["status"] == MEASURED)) >= FEWEST
    return enough and one.recipe.group not in judged and int(facts["nnz"]) <= MAX_ENTRIES


def _pattern(one: Measurements, coordinates: Coordinates) -> CpuPattern:
    kept = np.flatnonzero(one["status"] == MEASURED)
    schedules = one.super_schedules()
    chosen = [schedules[at] for at in kept.tolist()]
    cpu = Cpu()
    return CpuPattern(
        one.recipe.digest(),
        coordinates,
        mapped(cpu, chosen),
        [cpu.heterogeneous(schedule) for schedule in chosen],
        np.asarray(one["ratio"][kept], np.float32),
    )
