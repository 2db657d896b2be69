"""Count what searches never chose, in the archives of raw measurements: evidence for a smaller schedule space.

    python benchmarks/never_chosen.py                # archives `training`, `programs` and `tiers`; no measurement

The first table is of training data: on how many patterns a program with the property was measured, and on how many it
was the fastest of all, by 3 % and more in the last column. The second is of plans that searches chose.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from autosparse.tuner.research.collect.files import MEASURED, Measurements, read_folder
from autosparse.tuner.research.collect.operations import OPS
from autosparse.tuner.space.own import OwnSpace, own_space
from peerlib.archives import extracted

from autosparse.core.schedule import SuperSchedule

THREADS: Final = (0, 1, 2, 4, 8)
WORTH: Final = 0.97
"""Ratio to the fastest other program below which a program counts as faster by 3 %."""


@functools.cache
def own(algorithm: str) -> OwnSpace:
    """Return this library's space of an algorithm, with all thread counts of the archive."""
    return own_space(algorithm, threads=THREADS)


PROPERTIES: Final[Mapping[str, Callable[[SuperSchedule, str], bool]]] = {
    "outside the library's space": lambda one, algorithm: not own(algorithm).contains(one),
    "parallel loop other than i1": lambda one, _: one.parallel != "i1",
}
"""Property of a program -> function (schedule, algorithm) that tells whether a program has it."""


def fastest(one: Measurements, has: Callable[[str], bool]) -> tuple[float, float] | None:
    """Return the best ratios (with, without) the property on a pattern; None where no program with it was measured."""
    with_it, without = [], [1.0]  # the default kernel
    for at in np.flatnonzero((one["status"] == MEASURED) & np.isfinite(one["ratio"]) & (one["ratio"] > 0)).tolist():
        (with_it if has(one.schedules[at]) else without).append(float(one["ratio"][at]))
    return (min(with_it), min(without)) if with_it else None


@functools.cache
def has_property(name: str, algorithm: str, text: str) -> bool:
    """Return whether the program `text` of an algorithm has the property."""
    return PROPERTIES[name](SuperSchedule.from_json(text), algorithm)


def of_training(folder: Path) -> Iterator[str]:
    """Yield the rows of the first table."""
    yield "| property | operation | patterns | fastest | by 3 % |"
    yield "|---|---|---|---|---|"
    places = sorted({path.parent for path in folder.rglob("*.npz")})
    for op in OPS.values():
        found = [one for place in places for one in read_folder(place, op.name)]
        for name in PROPERTIES if found else ():
            pairs = [fastest(one, functools.partial(has_property, name, op.algorithm)) for one in found]
            known = [pair for pair in pairs if pair is not None]
            n_best = sum(mine < others for mine, others in known)
            n_better = sum(mine < WORTH * others for mine, others in known)
            yield f"| {name} | {op.name} | {len(known):,} | {n_best} | {n_better} |"


def plans_in(row: Any) -> Iterator[str]:
    """Yield the texts of schedules that a record of a benchmark states as chosen."""
    if isinstance(row, dict):
        for key, value in row.items():
            if key in ("schedule", "plan", "chosen") and isinstance(value, str):
                yield value
            elif key not in ("fastest", "candidates", "measured"):
                yield from plans_in(value)
    elif isinstance(row, list):
        for value in row:
            yield from plans_in(value)


def of_plans(folders: list[Path]) -> Iterator[str]:
    """Yield the rows of the second table."""
    counts: Counter[str] = Counter()
    for path in (path for folder in folders for path in sorted(folder.rglob("*.jsonl"))):
        for line in path.read_text(encoding="utf-8").splitlines():
            for text in plans_in(json.loads(line)):
                if "loop_order" in text:
                    counts["plans"] += 1
                    counts["symmetric storage"] += "symmetric=True" in text or "symmetric=1" in text
                    found = re.findall(r"parallel['\"]?[=:] ?['\"](\w+)", text)
                    counts["parallel loop other than i1"] += any(name != "i1" for name in found)
    yield "| of the plans that searches chose | number |"
    yield "|---|---|"
    yield from (f"| {name} | {n:,} |" for name, n in counts.items())


def main() -> None:
    """Print both tables."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    print(*of_training(extracted("training")), "", *of_plans([extracted("programs"), extracted("tiers")]), sep="\n")


if __name__ == "__main__":
    main()
