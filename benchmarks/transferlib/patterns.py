"""Real patterns for the simulated accelerators: a training pool and test matrices, with disjoint groups."""

from __future__ import annotations

import csv
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autosparse.tuner.research.collect.recipes import INDEX_NAME, read_coordinates

from autosparse.core.pattern import Pattern

NNZ: Final = (5_000, 260_000)
MAX_ROWS: Final = 120_000
MAX_OF_A_GROUP: Final = 6
POOL_PERCENT: Final = 34
"""Percentage of the groups in the training pool."""


@dataclass(frozen=True)
class Named:
    """One file of the folder of matrices."""

    name: str
    group: str

    @property
    def is_pool(self) -> bool:
        """Return whether its group is in the training pool, by the group's hash."""
        return hashlib.blake2b(self.group.encode(), digest_size=4, person=b"transfer").digest()[0] * 100 < (
            POOL_PERCENT * 256
        )

    def pattern(self, folder: Path) -> Pattern:
        """Return the pattern in compressed rows."""
        return read_coordinates(folder / f"{self.name}.npz").to_pattern()


def chosen(folder: Path) -> list[Named]:
    """Return the matrices of these experiments by name: the first few of suitable size in each group."""
    found: list[Named] = []
    with (folder / INDEX_NAME).open(encoding="utf-8", newline="") as lines:
        rows = sorted(csv.DictReader(lines), key=lambda row: row["name"])
    taken: dict[str, int] = {}
    for row in rows:
        if row["is_tensor"] == "1" or row["derived"] not in ("0", "") or not NNZ[0] <= int(row["nnz"]) <= NNZ[1]:
            continue
        if max(int(row["rows"]), int(row["cols"])) > MAX_ROWS or taken.get(row["group"], 0) >= MAX_OF_A_GROUP:
            continue
        taken[row["group"]] = taken.get(row["group"], 0) + 1
        found.append(Named(row["name"], row["group"]))
    return found
