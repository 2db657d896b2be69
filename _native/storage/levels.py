"""Level storage: how one level of a format keeps its coordinates. A level format is a row of `LEVELS`.

A level maps positions of its parent to its own positions: an Uncompressed level of extent n has n of them per parent
(``p = parent * n + coordinate``, padding included); a Compressed level lists those that exist in ``crd``, delimited by
``pos[parent] .. pos[parent + 1]``; a Nonunique level lists every entry, and a Singleton below it has one coordinate for
each position of its parent. What a level can do when a loop wants its coordinate (iterate, locate, search) is
lowering's business, building its arrays that of `assembly`; this module measures them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from autosparse.core.formats import Format, LevelKind
from autosparse.core.values import dataclass

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
class LevelStorage:
    """What packing asks of a level format.

    `n_positions`: (positions of the parent, extent, distinct coordinate prefixes down to here) -> positions.
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
    LevelKind.NONUNIQUE: _COMPRESSED,  # every entry is listed, also where coordinates repeat: `n_prefixes` counts them
    LevelKind.SINGLETON: LevelStorage(  # one coordinate for each position of the parent
        lambda n_parents, extent, n_prefixes: n_parents, lambda n_parents, n, pos_bytes, crd_bytes: n * crd_bytes
    ),
}
"""Storage of each level format."""
