"""Conversion of coordinates to the levels of a format, for sparse operands of any order: entries are sorted, grouped
and listed.

Repeated entries stay separate, in their given order, if the last level is Compressed, and share a position if it is
Uncompressed. A Compressed last level lists the entries of a fiber in their given order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from autosparse._native import memory, runtime_api
from numpy.typing import NDArray

from autosparse.core.dtypes import WideIndex
from autosparse.core.formats import Format, LevelKind
from autosparse.core.values import dataclass
from autosparse.errors import PackError
from autosparse.scalar import C_SIZE

Array = NDArray[Any]  # indices of any integer type
KIND_CODES: Final = {
    LevelKind.UNCOMPRESSED: 0,
    LevelKind.COMPRESSED: 1,
    LevelKind.NONUNIQUE: 2,
    LevelKind.SINGLETON: 3,
}
"""Codes of the kinds of levels in the C runtime."""

MAX_ENTRIES: Final = (1 << 32) - 2
MAX_KEY_BITS: Final = 127
MAX_POSITIONS: Final = 1 << 62
"""Maximum number of positions of a format, whatever the memory."""


@dataclass(frozen=True, eq=False)
class Assembled:
    """Levels of a format, and the positions of the entries.

    `order[q]` is the entry that comes q-th in the format; None means entry q. `positions[q]` is its position in the
    last level; None means q.
    """

    pos: dict[str, Array]
    crd: dict[str, Array]
    n_positions: int
    order: Array | None
    positions: Array | None
    dtype: np.dtype[Any]  # of `order`


@dataclass(frozen=True)
class Types:
    """Types of the arrays: `pos` and `order` have the first, `crd` the second."""

    pos: np.dtype[Any]
    crd: np.dtype[Any]


def assemble(fmt: Format, entries: Mapping[str, Array], sizes: Mapping[str, int], types: Types) -> Assembled:
    """Convert `entries` (values of each index, entry by entry) to the levels of `fmt`, by one radix sort of whole
    keys.

    Raises PackError if there are too many entries or key bits (see ``runtime/pack/levels_api.h``), and MemoryError.
    """
    ffi, lib = runtime_api.ffi, runtime_api.lib
    asked = ffi.new("asp_level_order *")
    extents, columns = fmt.extents(sizes), [entries[name[:-1]] for name in fmt.order]
    if columns[0].size > MAX_ENTRIES or sum((extents[name] - 1).bit_length() for name in fmt.order) > MAX_KEY_BITS:
        raise PackError.unfit(fmt, "more entries, or longer coordinates, than one sort takes")
    asked.n_levels, asked.n_sorted, asked.nnz = len(fmt.levels), n_sorted(fmt), columns[0].size
    asked.itype, asked.n_threads = runtime_api.INDEX_CODES[columns[0].dtype.name], runtime_api.max_threads()
    for depth, (level, column) in enumerate(zip(fmt.levels, columns, strict=True)):
        name = level.coordinate
        asked.coords[depth] = runtime_api.pointer(column)
        asked.split[depth], asked.extent[depth] = fmt.split(name[:-1]), extents[name]
        asked.is_outer[depth] = name.endswith("1")
        asked.kind[depth] = KIND_CODES[level.kind]
    n_listed, in_order = ffi.new(f"{C_SIZE}[12]"), ffi.new("int *")
    entries_sorted = lib.asp_sort_entries(asked, n_listed, in_order)
    if not entries_sorted:
        raise MemoryError("no memory to sort the entries of a sparse operand")
    try:
        return _written(fmt, extents, types, (entries_sorted, n_listed, bool(in_order[0])))
    finally:
        lib.asp_free_entries(entries_sorted)


def _written(fmt: Format, extents: Mapping[str, int], types: Types, found: tuple[Any, Any, bool]) -> Assembled:
    """Return the levels of `fmt` with arrays of the required sizes, filled from C's sorted entries `found`."""
    entries_sorted, n_listed, in_order = found
    ffi, pos, crd, n_positions = runtime_api.ffi, {}, {}, 1
    for depth, level in enumerate(fmt.levels):
        name = level.coordinate
        if level.kind is LevelKind.UNCOMPRESSED:
            n_positions *= extents[name]
        else:
            if level.kind is not LevelKind.SINGLETON:
                pos[name] = np.zeros(n_positions + 1, dtype=types.pos)
            n_positions = int(n_listed[depth])
            crd[name] = memory.empty_scratch((n_positions,), types.crd)
        if n_positions > MAX_POSITIONS:
            raise PackError.unfit(fmt, f"{n_positions:,} positions")
    nnz = int(n_listed[len(fmt.levels) - 1])
    numbers = None if in_order else np.empty(nnz, dtype=types.pos)
    positions = np.empty(nnz, dtype=WideIndex) if fmt.has_padding else None
    pointers = [
        [ffi.NULL if name not in arrays else runtime_api.pointer(arrays[name]) for name in fmt.order]
        for arrays in (pos, crd)
    ]
    sides = [ffi.NULL if array is None else runtime_api.pointer(array) for array in (numbers, positions)]
    bits = 8 * types.pos.itemsize, 8 * types.crd.itemsize
    runtime_api.lib.asp_write_levels(entries_sorted, bits[0], pointers[0], bits[1], pointers[1], *sides)
    for array in pos.values():
        np.cumsum(array, out=array)
    return Assembled(pos, crd, n_positions, numbers, positions, types.pos)


def n_sorted(fmt: Format) -> int:
    """Return the number of levels by which entries are sorted: down to the last Compressed one, excluding a last
    level.

    A Compressed last level lists a row's entries in their given order, as Singleton levels do, so the summation order
    is the user's.
    """
    kinds = [level.kind for level in fmt.levels]
    if LevelKind.NONUNIQUE in kinds:
        return kinds.index(LevelKind.NONUNIQUE) + 1
    compressed = [depth for depth, level in enumerate(fmt.levels) if level.kind is LevelKind.COMPRESSED]
    return 0 if not compressed else compressed[-1] + (compressed[-1] + 1 < len(fmt.levels))
