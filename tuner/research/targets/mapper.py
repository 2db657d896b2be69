"""Mapper of every target's configurations to the same 53 numbers: loop order and four sizes (DASH 3.3, Table 5).

p = (7 x 7 permutation matrix of the loop at each position; log2 of the sizes I, J, K, K3).

The heterogeneous parameters get latent codes of 64 numbers, by a table or a projection (DASH section 3.4). The paper
trains an autoencoder per target and operation. For few combinations (SPADE's two bits: four) it would learn a table, so
a table is used. `autosparse.tuner.research.networks.autoencoder` has the autoencoder for larger ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np
from autosparse.tuner.research.targets.base import LOOPS, PARENTS, SIZES, Category, TargetSpace
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowReal
from autosparse.errors import RecordError

LATENT_WIDTH: Final = 64
Floats = NDArray[NarrowReal]


@dataclass(frozen=True)
class LatentTable:
    """Encoder of at most LATENT_WIDTH categories, each by a coordinate of its own (one-hot)."""

    known: tuple[Category, ...]
    _places: dict[Category, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= len(set(self.known)) == len(self.known) <= LATENT_WIDTH:
            expected = f"1 to {LATENT_WIDTH} different ones"
            raise RecordError.bad_field("target", "categories", len(self.known), expected=expected)
        object.__setattr__(self, "_places", {one: at for at, one in enumerate(self.known)})

    def codes(self, categories: Sequence[Category]) -> Floats:
        """Return one-hot rows."""
        found = np.zeros((len(categories), LATENT_WIDTH), NarrowReal)
        for row, one in zip(found, categories, strict=True):
            row[self.place(one)] = 1
        return found

    def place(self, category: Category) -> int:
        """Return the number of a category; raise RecordError when it is not in the table."""
        if category not in self._places:
            raise RecordError.bad_field("target", "category", category, expected=f"one of {len(self.known)} known ones")
        return self._places[category]

    def category(self, code: Floats) -> Category:
        """Return the category of one row of `codes`."""
        return self.known[int(np.argmax(code[: len(self.known)]))]


@dataclass(frozen=True)
class OneHotParts:
    """One-hot encoding of each part of a category, concatenated: the input of an autoencoder or projection."""

    values: tuple[tuple[int | str, ...], ...]  # values of each part

    @classmethod
    def of(cls, categories: Sequence[Category]) -> OneHotParts:
        """Build the encoding from the values that occur in each part."""
        return cls(tuple(tuple(sorted(set(part), key=str)) for part in zip(*categories, strict=True)))

    @property
    def width(self) -> int:
        """Return the width of the one-hot encoding: the number of columns of the array that `rows` returns."""
        return sum(len(values) for values in self.values)

    def rows(self, categories: Sequence[Category]) -> Floats:
        """Return the encoding, (n, width) of 0 and 1; raise RecordError for an unknown value."""
        found = np.zeros((len(categories), self.width), NarrowReal)
        starts = np.cumsum([0, *(len(values) for values in self.values)]).tolist()
        for row, one in zip(found, categories, strict=True):
            for start, values, value in zip(starts[:-1], self.values, one, strict=True):
                if value not in values:
                    raise RecordError.bad_field("target", "category", one, expected=f"parts of {self.values}")
                row[start + values.index(value)] = 1
        return found


@dataclass(frozen=True, eq=False)
class PrincipalAxes:
    """Encoder by the first LATENT_WIDTH principal axes of the one-hot parts, the baseline of DASH's Figure 9."""

    parts: OneHotParts
    mean: Floats
    axes: Floats  # (at most LATENT_WIDTH, width)

    @classmethod
    def of(cls, categories: Sequence[Category]) -> PrincipalAxes:
        """Fit the axes to the distinct categories among `categories`."""
        distinct = sorted(set(categories), key=str)
        parts = OneHotParts.of(distinct)
        rows = parts.rows(distinct)
        mean = rows.mean(axis=0)
        _, _, axes = np.linalg.svd(rows - mean, full_matrices=False)
        return cls(parts, mean.astype(NarrowReal), axes[:LATENT_WIDTH].astype(NarrowReal))

    def codes(self, categories: Sequence[Category]) -> Floats:
        """Return the coordinates on the axes, padded with zeros."""
        found = np.zeros((len(categories), LATENT_WIDTH), NarrowReal)
        found[:, : len(self.axes)] = (self.parts.rows(categories) - self.mean) @ self.axes.T
        return found


MAPPED_WIDTH: Final = len(LOOPS) ** 2 + len(SIZES)

Configured = TypeVar("Configured")


def whole_order(order: Sequence[str]) -> tuple[str, ...]:
    """Return `order` with each missing loop of LOOPS inserted after its parent; raise RecordError for unknown loops."""
    placed = list(order)
    strange = [name for name in placed if name not in LOOPS]
    if strange or len(set(placed)) != len(placed):
        raise RecordError.bad_field("target", "loop_order", placed, expected=f"each at most once of {LOOPS}")
    for name in ("i2", "j2", "k2", *PARENTS):
        if name in placed:
            continue
        parent = PARENTS.get(name)
        at = placed.index(parent) + 1 if parent in placed else len(placed)
        placed.insert(at, name)
    return tuple(placed)


def mapped(target: TargetSpace[Configured], configurations: Sequence[Configured]) -> NDArray[NarrowReal]:
    """Return features that all platforms share, (n, MAPPED_WIDTH): one-hot loop orders and log2 of the sizes."""
    n_loops = len(LOOPS)
    found = np.zeros((len(configurations), MAPPED_WIDTH), NarrowReal)
    for row, one in zip(found, configurations, strict=True):
        for place, name in enumerate(whole_order(target.loop_order(one))):
            row[place * n_loops + LOOPS.index(name)] = 1
        row[n_loops**2 :] = [math.log2(size) for size in target.sizes(one)]
    return found
