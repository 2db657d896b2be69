"""Sizes of the levels of a format: how each kind of level stores its coordinates. A kind of level is a row of
`LEVELS`.

A level maps positions of its parent to its own positions. An Uncompressed level of extent n has n of them per parent
(``p = parent * n + coordinate``, padding included). A Compressed level lists the existing ones in ``crd``, delimited
by ``pos[parent] .. pos[parent + 1]``. A Nonunique level lists every entry, and a Singleton below it has one coordinate
per position of its parent. Lowering decides how loops iterate over, locate or search a level, `assembly` builds its
arrays, and this module computes their sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from autosparse.core.dtypes import HalfBits, NarrowIndex, WideIndex
from autosparse.core.formats import Format, LevelKind
from autosparse.core.values import dataclass

COORDINATE_DTYPES: Final[Mapping[int, np.dtype[Any]]] = {
    16: np.dtype(HalfBits),
    32: np.dtype(NarrowIndex),
    64: np.dtype(WideIndex),
}
"""Type of stored coordinates by `Format.index_bits`."""


def coordinate_dtype(fmt: Format, index_dtype: str) -> np.dtype[Any]:
    """Return the type of stored coordinates.

    CSR has the user's index type, even if it was copied, because its kernels are shared.
    """
    return np.dtype(index_dtype) if fmt.is_csr else COORDINATE_DTYPES[fmt.index_bits]


@dataclass(frozen=True, slots=True)
class LevelStorage:
    """Functions that compute the sizes of one kind of storage level.

    `n_positions`: (positions of the parent, extent, distinct coordinate prefixes down to this level) -> positions.
    `nbytes`: (positions of the parent, positions, bytes of a pos, bytes of a crd) -> bytes of its arrays.
    """

    n_positions: Callable[[int, int, int], int]
    nbytes: Callable[[int, int, int, int], int]


_COMPRESSED: Final = LevelStorage(
    lambda n_parents, extent, n_prefixes: n_prefixes,
    lambda n_parents, n, pos_bytes, crd_bytes: (n_parents + 1) * pos_bytes + n * crd_bytes,
)

LEVELS: Final[Mapping[LevelKind, LevelStorage]] = {
    LevelKind.UNCOMPRESSED: LevelStorage(lambda n_parents, extent, n_prefixes: n_parents * extent, lambda *sizes: 0),
    LevelKind.COMPRESSED: _COMPRESSED,
    LevelKind.NONUNIQUE: _COMPRESSED,  # every entry is listed, even if coordinates repeat: `n_prefixes` counts them
    LevelKind.SINGLETON: LevelStorage(  # one coordinate per position of the parent
        lambda n_parents, extent, n_prefixes: n_parents, lambda n_parents, n, pos_bytes, crd_bytes: n * crd_bytes
    ),
}
"""Sizes by kind of level."""
