"""Queries on the levels of a packed operand: extents, positions, order, and a traversal of all positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from autosparse.core.dtypes import WideIndex
from autosparse.core.formats import Format, LevelKind
from autosparse.core.pattern import Pattern

Array = NDArray[Any]  # indices of any supported dtype
Packed = tuple[dict[str, Array], dict[str, Array], Array]  # pos and crd by coordinate, values


class Filled(Protocol):
    """The attributes of a `PackedOperand` that packing functions use."""

    fmt: Format
    transposed: bool
    pattern: Pattern
    pos: Mapping[str, Array]
    crd: Mapping[str, Array]
    values: Array

    @property
    def sizes(self) -> dict[str, int]:
        """Extents of its indices."""


class StoredLevels:
    """Arrays of the compressed levels of a format by coordinate: `pos` delimits, `crd` lists."""

    kind: ClassVar[str]  # `Operation.packed` of the operations whose kernels read this

    fmt: Format
    pos: Mapping[str, Array]
    crd: Mapping[str, Array]
    _sorted: dict[str, bool]

    @property
    def sizes(self) -> dict[str, int]:
        """Extents of the sparse operand's indices, the output's rows first."""
        raise NotImplementedError

    @property
    def splits(self) -> dict[str, int]:
        """Split size of each index."""
        return {index: self.fmt.split(index) for index in self.sizes}

    @property
    def n_positions(self) -> tuple[int, ...]:
        """Number of positions of each level."""
        extents, counts = self.fmt.extents(self.sizes), [1]
        for level in self.fmt.levels:
            name = level.coordinate
            is_singleton = level.kind is LevelKind.SINGLETON
            below = counts[-1] if is_singleton else counts[-1] * extents[name]
            counts.append(int(self.pos[name][-1]) if name in self.pos else below)
        return tuple(counts[1:])

    def is_sorted(self, coordinate: str) -> bool:
        """Return whether each fiber of a compressed level has nondecreasing coordinates. The result is cached."""
        if coordinate not in self._sorted:
            pos, crd = self.pos[coordinate], self.crd[coordinate][: int(self.pos[coordinate][-1])]
            falls = np.flatnonzero(crd[1:] < crd[:-1]) + 1
            self._sorted[coordinate] = bool(np.isin(falls, pos).all())
        return self._sorted[coordinate]

    def walk(self) -> tuple[dict[str, Array], Array]:
        """Return the coordinates of every position of the last level, padding included, and those positions."""
        extents = self.fmt.extents(self.sizes)
        coordinates: dict[str, Array] = {}
        positions = np.zeros(1, dtype=WideIndex)
        for level in self.fmt.levels:
            name = level.coordinate
            if level.kind is LevelKind.UNCOMPRESSED:
                n = extents[name]
                coordinates = {known: np.repeat(array, n) for known, array in coordinates.items()}
                coordinates[name] = np.tile(np.arange(n), positions.size)
                positions = np.repeat(positions, n) * n + coordinates[name]
            elif level.kind is LevelKind.SINGLETON:
                coordinates[name] = self.crd[name][positions].astype(WideIndex)
            else:
                lengths = np.diff(self.pos[name]).astype(WideIndex)
                # Parents have ascending positions.
                coordinates = {known: np.repeat(array, lengths) for known, array in coordinates.items()}
                positions = np.arange(int(self.pos[name][-1]))
                coordinates[name] = self.crd[name][: positions.size].astype(WideIndex)
        return coordinates, positions


def whole_of(coordinates: Mapping[str, Array], index: str, fmt: Format) -> Array:
    """Return the values of the index `index`, computed from its outer and inner coordinates."""
    split = fmt.split(index)
    return coordinates[f"{index}1"] * split + coordinates[f"{index}0"] if split > 1 else coordinates[f"{index}1"]


def is_inside(coordinates: Mapping[str, Array], fmt: Format, sizes: Mapping[str, int]) -> Array:
    """Return, as booleans, which positions lie inside the operand; positions of blocks at its edges may not."""
    inside: Array = np.logical_and.reduce([whole_of(coordinates, index, fmt) < size for index, size in sizes.items()])
    return inside
