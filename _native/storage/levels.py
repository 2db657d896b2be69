"""Level storage: how one level of a format keeps its coordinates. A level format is a row of `LEVELS`.

A level maps positions of its parent to its own positions: an Uncompressed level of extent n has n of them per parent
(``p = parent * n + coordinate``, padding included); a Compressed level lists those that exist in ``crd``, delimited by
``pos[parent] .. pos[parent + 1]``; a Nonunique level lists every entry, and a Singleton below it has one coordinate for
each position of its parent. What a level can do when a loop wants its coordinate (iterate, locate, search) is
lowering's business; this module builds and measures the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

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


@dataclass(frozen=True, slots=True)
class LevelStorage:
    """What packing asks of a level format.

    `n_positions`: (positions of the parent, extent, distinct coordinate prefixes down to here) -> positions.
    `nbytes`: (positions of the parent, positions, bytes of a pos, bytes of a crd) -> bytes of its arrays.
    `assemble`: arrays and entries one level down; equal coordinates are one position where told `distinct`.
    """

    n_positions: Callable[[int, int, int], int]
    nbytes: Callable[[int, int, int, int], int]
    assemble: Callable[[Entries, IntArray, int, bool], tuple[LevelArrays, Entries]]


def _uncompressed(above: Entries, coordinates: IntArray, extent: int, distinct: bool) -> tuple[LevelArrays, Entries]:
    """Every coordinate of the extent has a position, by arithmetic; nothing is stored."""
    return LevelArrays(), Entries(above.positions * extent + coordinates, above.n_positions * extent)


def _compressed(above: Entries, coordinates: IntArray, extent: int, distinct: bool) -> tuple[LevelArrays, Entries]:
    """Group equal neighbours (entries come sorted by prefix), then delimit the groups by parent."""
    starts = np.ones(coordinates.size, dtype=bool)
    if distinct:
        same = (above.positions[1:] == above.positions[:-1]) & (coordinates[1:] == coordinates[:-1])
        starts[1:] = ~same
    pos = np.zeros(above.n_positions + 1, dtype=np.int64)
    np.cumsum(np.bincount(above.positions[starts], minlength=above.n_positions), out=pos[1:])
    below = Entries(np.cumsum(starts) - 1, int(pos[-1]))
    return LevelArrays(pos, coordinates[starts]), below


_COMPRESSED: Final = LevelStorage(
    lambda n_parents, extent, n_prefixes: n_prefixes,
    lambda n_parents, n, pos_bytes, crd_bytes: (n_parents + 1) * pos_bytes + n * crd_bytes,
    _compressed,
)

LEVELS: Final[Mapping[LevelKind, LevelStorage]] = {
    LevelKind.UNCOMPRESSED: LevelStorage(
        lambda n_parents, extent, n_prefixes: n_parents * extent, lambda *sizes: 0, _uncompressed
    ),
    LevelKind.COMPRESSED: _COMPRESSED,
    # Every entry is listed, also where coordinates repeat: no groups.
    LevelKind.NONUNIQUE: replace(
        _COMPRESSED,
        assemble=lambda above, coordinates, extent, distinct: _compressed(above, coordinates, extent, False),
    ),
    # One coordinate for each position of the parent, as they come.
    LevelKind.SINGLETON: LevelStorage(
        lambda n_parents, extent, n_prefixes: n_parents,
        lambda n_parents, n, pos_bytes, crd_bytes: n * crd_bytes,
        lambda above, coordinates, extent, distinct: (LevelArrays(None, coordinates), above),
    ),
}
"""Storage of each level format."""
