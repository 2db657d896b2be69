"""Level storage: how one level of a format keeps its coordinates. A level format is a class and a row of `LEVELS`.

A level maps positions of its parent to its own positions: an Uncompressed level of extent n has n of them per parent
(``p = parent * n + coordinate``, padding included); a Compressed level lists those that exist in ``crd``, delimited by
``pos[parent] .. pos[parent + 1]``; a Nonunique level lists every entry, and a Singleton below it has one coordinate for
each position of its parent. What a level can do when a loop wants its coordinate (iterate, locate, search) is
lowering's business; this module builds and measures the arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from autosparse.core.formats import Format, LevelKind

IntArray = NDArray[Any]  # any integer type
COORDINATE_DTYPES: Final[Mapping[int, np.dtype[Any]]] = {
    16: np.dtype(np.uint16),
    32: np.dtype(np.int32),
    64: np.dtype(np.int64),
}
"""Type of stored coordinates by `Format.index_bits`."""


def coordinate_dtype(fmt: Format, index_dtype: str) -> np.dtype[Any]:
    """Type of stored coordinates. CSR has the user's own, also where it had to be copied: the kernels are shared."""
    return np.dtype(index_dtype) if fmt.is_csr else COORDINATE_DTYPES[fmt.index_bits]


@dataclass(frozen=True, slots=True)
class Entries:
    """Stored entries on their way through the levels: position of each in the level above, and how many it has."""

    positions: IntArray  # int64, nondecreasing as far as compressed levels follow
    n_positions: int


@dataclass(frozen=True, slots=True)
class LevelArrays:
    """Arrays of one level; None where it keeps none."""

    pos: IntArray | None = None
    crd: IntArray | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of both."""
        return sum(array.nbytes for array in (self.pos, self.crd) if array is not None)


class LevelStorage(Protocol):
    """What packing asks of a level format."""

    @staticmethod
    def n_positions(n_parents: int, extent: int, n_prefixes: int) -> int:
        """Positions of the level, given its parent's and the number of distinct coordinate prefixes down to here."""

    @staticmethod
    def nbytes(n_parents: int, n_positions: int, pos_bytes: int, crd_bytes: int) -> int:
        """Bytes of its arrays."""

    @staticmethod
    def assemble(above: Entries, coordinates: IntArray, extent: int, *, distinct: bool) -> tuple[LevelArrays, Entries]:
        """Arrays and entries one level down. `distinct`: equal coordinates are one position (else each its own)."""


class UncompressedStorage:
    """Every coordinate of the extent has a position; nothing is stored."""

    @staticmethod
    def n_positions(n_parents: int, extent: int, n_prefixes: int) -> int:
        """All of them."""
        return n_parents * extent

    @staticmethod
    def nbytes(n_parents: int, n_positions: int, pos_bytes: int, crd_bytes: int) -> int:
        """None."""
        return 0

    @staticmethod
    def assemble(above: Entries, coordinates: IntArray, extent: int, *, distinct: bool) -> tuple[LevelArrays, Entries]:
        """Positions by arithmetic."""
        return LevelArrays(), Entries(above.positions * extent + coordinates, above.n_positions * extent)


class CompressedStorage:
    """Coordinates that exist are listed, parent by parent."""

    @staticmethod
    def n_positions(n_parents: int, extent: int, n_prefixes: int) -> int:
        """One per distinct prefix."""
        return n_prefixes

    @staticmethod
    def nbytes(n_parents: int, n_positions: int, pos_bytes: int, crd_bytes: int) -> int:
        """Pos has one entry per parent and one more, crd one per position."""
        return (n_parents + 1) * pos_bytes + n_positions * crd_bytes

    @staticmethod
    def assemble(above: Entries, coordinates: IntArray, extent: int, *, distinct: bool) -> tuple[LevelArrays, Entries]:
        """Group equal neighbours (entries come sorted by prefix), then delimit the groups by parent."""
        starts = np.ones(coordinates.size, dtype=bool)
        if distinct:
            same = (above.positions[1:] == above.positions[:-1]) & (coordinates[1:] == coordinates[:-1])
            starts[1:] = ~same
        pos = np.zeros(above.n_positions + 1, dtype=np.int64)
        np.cumsum(np.bincount(above.positions[starts], minlength=above.n_positions), out=pos[1:])
        below = Entries(np.cumsum(starts) - 1, int(pos[-1]))
        return LevelArrays(pos, coordinates[starts]), below


class NonuniqueStorage(CompressedStorage):
    """Every entry is listed, parent by parent, also where coordinates repeat."""

    @staticmethod
    def assemble(above: Entries, coordinates: IntArray, extent: int, *, distinct: bool) -> tuple[LevelArrays, Entries]:
        """No groups."""
        return CompressedStorage.assemble(above, coordinates, extent, distinct=False)


class SingletonStorage:
    """One coordinate for each position of the parent."""

    @staticmethod
    def n_positions(n_parents: int, extent: int, n_prefixes: int) -> int:
        """The parent's."""
        return n_parents

    @staticmethod
    def nbytes(n_parents: int, n_positions: int, pos_bytes: int, crd_bytes: int) -> int:
        """Only crd."""
        return n_positions * crd_bytes

    @staticmethod
    def assemble(above: Entries, coordinates: IntArray, extent: int, *, distinct: bool) -> tuple[LevelArrays, Entries]:
        """The coordinates as they come."""
        return LevelArrays(None, coordinates), above


LEVELS: Final[Mapping[LevelKind, type[LevelStorage]]] = {
    LevelKind.UNCOMPRESSED: UncompressedStorage,
    LevelKind.COMPRESSED: CompressedStorage,
    LevelKind.NONUNIQUE: NonuniqueStorage,
    LevelKind.SINGLETON: SingletonStorage,
}
"""Storage of each level format."""
