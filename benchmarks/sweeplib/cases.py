"""Cases of a sweep, in an order of which every prefix is a balanced sample of all axes."""

from __future__ import annotations

import csv
import itertools
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np

DENSE_BYTES: Final = 1 << 30
"""Maximum bytes of B and a result together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepCase:
    """One product whose plans are compared with the default kernel."""

    matrix: str
    dtype: str
    columns: int
    threads: int
    isa: str

    def key(self, *more: str) -> str:
        """Return the key of the case in the results, extended by `more`."""
        return "|".join((*map(str, asdict(self).values()), *more))


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """All axes of the sweep besides the matrices."""

    dtypes: Sequence[str]
    columns: Sequence[int]
    threads: Sequence[int]
    isas: Sequence[str]

    def __len__(self) -> int:
        """Return the number of combinations."""
        return len(self.dtypes) * len(self.columns) * len(self.threads) * len(self.isas)


Row = dict[str, str]
"""Row of index.csv."""


def one_of_each_group(folder: Path, *, n_groups: int, nnz: tuple[int, int], seed: int) -> list[Row]:
    """Return one row of index.csv for each of `n_groups` groups that have matrices with nnz[0] to nnz[1] entries."""
    groups: dict[str, list[Row]] = {}
    for row in _matrices(folder):
        if nnz[0] <= int(row["nnz"]) <= nnz[1]:
            groups.setdefault(row["group"], []).append(row)
    draw = random.Random(seed)
    picked = [draw.choice(groups[name]) for name in sorted(groups)]
    draw.shuffle(picked)
    return picked[:n_groups]


def named(folder: Path, names: Sequence[str]) -> list[Row]:
    """Return the rows of index.csv with these names."""
    return [row for row in _matrices(folder) if row["name"] in names]


def _matrices(folder: Path) -> list[Row]:
    with (folder / "index.csv").open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["is_tensor"] in ("", "0")]


def in_order(matrices: Sequence[Row], axes: Axes, *, seed: int) -> list[SweepCase]:
    """Return all cases as a Latin square: each pass has every matrix once and rotates the combinations over matrices.

    Each pass covers every group, and all combinations about equally often. After as many passes as there are
    combinations every matrix has had all of them.
    """
    draw = random.Random(seed)
    every = list(itertools.product(axes.dtypes, axes.columns, axes.threads, axes.isas))
    draw.shuffle(every)
    found = []
    for turn in range(len(every)):
        at_matrix = list(enumerate(matrices))
        draw.shuffle(at_matrix)
        for at, row in at_matrix:
            dtype, columns, threads, isa = every[(turn + at) % len(every)]
            if (int(row["rows"]) + int(row["cols"])) * columns * np.dtype(dtype).itemsize <= DENSE_BYTES:
                one = SweepCase(matrix=row["name"], dtype=dtype, columns=columns, threads=threads, isa=isa)
                found.append(one)
    return found
