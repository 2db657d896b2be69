"""The parameters that only one target has, as 64 numbers: a table, or a projection of their ranges (DASH §3.4).

The paper trains an autoencoder per target and operation. Of few combinations (SPADE's two bits: four) it would learn a
table, so that is what they get; `autosparse.tuner.networks.autoencoder` has the autoencoder for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
from autosparse.tuner.targets.base import Category
from numpy.typing import NDArray

from autosparse.errors import RecordError

LATENT_WIDTH: Final = 64
Floats = NDArray[np.float32]


class LatentEncoder(Protocol):
    """Categories -> codes of LATENT_WIDTH numbers."""

    def codes(self, categories: Sequence[Category]) -> Floats:
        """(n, LATENT_WIDTH); RecordError for a category that was never told of."""


@dataclass(frozen=True)
class LatentTable:
    """One category, one coordinate: at most LATENT_WIDTH of them."""

    known: tuple[Category, ...]
    _places: dict[Category, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= len(set(self.known)) == len(self.known) <= LATENT_WIDTH:
            expected = f"1 to {LATENT_WIDTH} different ones"
            raise RecordError.bad_field("target", "categories", len(self.known), expected=expected)
        object.__setattr__(self, "_places", {one: at for at, one in enumerate(self.known)})

    def codes(self, categories: Sequence[Category]) -> Floats:
        """One-hot rows."""
        found = np.zeros((len(categories), LATENT_WIDTH), np.float32)
        for row, one in zip(found, categories, strict=True):
            row[self.place(one)] = 1
        return found

    def place(self, category: Category) -> int:
        """The number of a category; RecordError when it is not in the table."""
        if category not in self._places:
            raise RecordError.bad_field("target", "category", category, expected=f"one of {len(self.known)} known ones")
        return self._places[category]

    def category(self, code: Floats) -> Category:
        """Inverse of `codes` for one row."""
        return self.known[int(np.argmax(code[: len(self.known)]))]


@dataclass(frozen=True)
class OneHotParts:
    """Each part of a category one-hot, side by side: what an autoencoder or a projection compresses."""

    values: tuple[tuple[int | str, ...], ...]  # of each part

    @classmethod
    def of(cls, categories: Sequence[Category]) -> OneHotParts:
        """The values that occur, of each part."""
        return cls(tuple(tuple(sorted(set(part), key=str)) for part in zip(*categories, strict=True)))

    @property
    def width(self) -> int:
        """Columns of `rows`."""
        return sum(len(values) for values in self.values)

    def rows(self, categories: Sequence[Category]) -> Floats:
        """(n, width) of 0 and 1; RecordError for a value that no part has."""
        found = np.zeros((len(categories), self.width), np.float32)
        starts = np.cumsum([0, *(len(values) for values in self.values)]).tolist()
        for row, one in zip(found, categories, strict=True):
            for start, values, value in zip(starts[:-1], self.values, one, strict=True):
                if value not in values:
                    raise RecordError.bad_field("target", "category", one, expected=f"parts of {self.values}")
                row[start + values.index(value)] = 1
        return found


@dataclass(frozen=True, eq=False)
class PrincipalAxes:
    """The first LATENT_WIDTH principal axes of the one-hot parts: what DASH's Figure 9 compares with."""

    parts: OneHotParts
    mean: Floats
    axes: Floats  # (at most LATENT_WIDTH, width)

    @classmethod
    def of(cls, categories: Sequence[Category]) -> PrincipalAxes:
        """Fitted to the distinct ones among `categories`."""
        distinct = sorted(set(categories), key=str)
        parts = OneHotParts.of(distinct)
        rows = parts.rows(distinct)
        mean = rows.mean(axis=0)
        _, _, axes = np.linalg.svd(rows - mean, full_matrices=False)
        return cls(parts, mean.astype(np.float32), axes[:LATENT_WIDTH].astype(np.float32))

    def codes(self, categories: Sequence[Category]) -> Floats:
        """Coordinates on the axes, zeros behind them."""
        found = np.zeros((len(categories), LATENT_WIDTH), np.float32)
        found[:, : len(self.axes)] = (self.parts.rows(categories) - self.mean) @ self.axes.T
        return found
