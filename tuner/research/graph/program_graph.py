"""Graph of programs as arrays of a model file, readable without hnswlib or torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowIndex, ProgramCode

NEIGHBOURS: Final = "graph.neighbours"
ENTRIES: Final = "graph.entries"
"""Names of the arrays in a model file; a node is a row of the file's portfolio."""


@dataclass(frozen=True, eq=False)
class ProgramGraph:
    """Graph of the programs of a model's portfolio: the neighbours of each, and the nodes at which searches start.

    Raises ValueError for numbers of nodes that do not exist.
    """

    neighbours: NDArray[NarrowIndex] = field(repr=False)  # (n, degree), -1: none
    entries: NDArray[NarrowIndex] = field(repr=False)

    def __post_init__(self) -> None:
        n = len(self)
        for name, ids, low in (("neighbours", self.neighbours, -1), ("entries", self.entries, 0)):
            if ids.size and (int(ids.min()) < low or int(ids.max()) >= n):
                raise ValueError(f"graph of programs: {name} outside {low} .. {n - 1}")
        if n and not self.entries.size:
            raise ValueError(f"graph of programs: no entries to {n} nodes")

    def __len__(self) -> int:
        return len(self.neighbours)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a model file, in the smallest integers that hold the numbers of nodes."""
        kind = ProgramCode if len(self) <= np.iinfo(ProgramCode).max else NarrowIndex
        return {NEIGHBOURS: self.neighbours.astype(kind), ENTRIES: self.entries.astype(kind)}

    @classmethod
    def of(cls, tensors: Mapping[str, NDArray[Any]]) -> ProgramGraph | None:
        """Read the result of `tensors()`; None for a model without a graph."""
        if NEIGHBOURS not in tensors:
            return None
        return cls(np.asarray(tensors[NEIGHBOURS], NarrowIndex), np.asarray(tensors[ENTRIES], NarrowIndex))
