"""Assembly: entries given by their indices become the levels of a format: sorted, grouped, listed. Any order of tensor.

Entries that repeat stay apart where the last level is Compressed (in their own order), and share a position where it is
Uncompressed. A compressed level that is the last of all lists a fiber's entries as they come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from autosparse._native import memory, runtime_api
from autosparse._native.storage.levels import LEVELS, Entries
from numpy.typing import NDArray

from autosparse.core.formats import Format, LevelKind
from autosparse.errors import PackError

Array = NDArray[Any]  # indices of any integer type
KIND_CODES: Final = {
    LevelKind.UNCOMPRESSED: 0,
    LevelKind.COMPRESSED: 1,
    LevelKind.NONUNIQUE: 2,
    LevelKind.SINGLETON: 3,
}
"""Kinds of levels as the runtime knows them."""

MAX_POSITIONS: Final = 1 << 62
"""Formats with more positions than this are refused whatever the memory."""


@dataclass(frozen=True, eq=False)
class Assembled:
    """Levels of a format, and where entries went.

    `order[q]` is the entry that comes q-th in the format, None where that is entry q; `positions[q]` its position in
    the last level, None where that is q.
    """

    pos: dict[str, Array]
    crd: dict[str, Array]
    n_positions: int
    order: Array | None
    positions: Array | None
    dtype: np.dtype[Any]  # of `order`


@dataclass(frozen=True)
class Types:
    """Types of the arrays that are made: of `pos` and `order`, and of `crd`."""

    pos: np.dtype[Any]
    crd: np.dtype[Any]


def assemble(fmt: Format, entries: Mapping[str, Array], sizes: Mapping[str, int], types: Types) -> Assembled:
    """`entries` (values of each index, entry by entry) as levels of `fmt`. PackError, MemoryError."""
    made = _assemble_native(fmt, entries, sizes, types) if runtime_api.available else None
    return assemble_generic(fmt, entries, sizes, types) if made is None else made


def _assemble_native(
    fmt: Format, entries: Mapping[str, Array], sizes: Mapping[str, int], types: Types
) -> Assembled | None:
    """By one radix sort of whole keys; None where it cannot be had (see ``runtime/pack/levels_api.h``)."""
    ffi, lib = runtime_api.ffi, runtime_api.lib
    asked = ffi.new("asp_level_order *")
    extents, columns = fmt.extents(sizes), [entries[name[:-1]] for name in fmt.order]
    asked.n_levels, asked.n_sorted, asked.nnz = len(fmt.levels), n_sorted(fmt), columns[0].size
    asked.itype, asked.n_threads = runtime_api.INDEX_CODES[columns[0].dtype.name], runtime_api.max_threads()
    for depth, (level, column) in enumerate(zip(fmt.levels, columns, strict=True)):
        name = level.coordinate
        asked.coords[depth] = runtime_api.pointer(column)
        asked.split[depth], asked.extent[depth] = fmt.split(name[:-1]), extents[name]
        asked.is_outer[depth] = name.endswith("1")
        asked.kind[depth] = KIND_CODES[level.kind]
    n_listed, in_order = ffi.new("int64_t[12]"), ffi.new("int *")
    entries_sorted = lib.asp_sort_entries(asked, n_listed, in_order)
    if not entries_sorted:
        return None
    try:
        return _written(fmt, extents, types, (entries_sorted, n_listed, bool(in_order[0])))
    finally:
        lib.asp_free_entries(entries_sorted)


def _written(fmt: Format, extents: Mapping[str, int], types: Types, found: tuple[Any, Any, bool]) -> Assembled:
    """Arrays of the right sizes, filled from sorted entries (C handles)."""
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
            crd[name] = memory.empty_output((n_positions,), types.crd)
        if n_positions > MAX_POSITIONS:
            raise PackError.unfit(fmt, f"{n_positions:,} positions")
    nnz = int(n_listed[len(fmt.levels) - 1])
    numbers = None if in_order else np.empty(nnz, dtype=types.pos)
    positions = np.empty(nnz, dtype=np.int64) if fmt.has_padding else None
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


def assemble_generic(fmt: Format, entries: Mapping[str, Array], sizes: Mapping[str, int], types: Types) -> Assembled:
    """The same by NumPy's sort: the reference, and the stand-in where the runtime is missing."""
    coordinates = {name: _part(entries[name[:-1]], name, fmt).astype(np.int64) for name in fmt.order}
    order = _storage_order(fmt, coordinates)
    extents = fmt.extents(sizes)
    above = Entries(np.zeros(order.size, dtype=np.int64), 1)
    pos: dict[str, Array] = {}
    crd: dict[str, Array] = {}
    for level in fmt.levels:
        name = level.coordinate
        storage, distinct = LEVELS[level.kind], level is not fmt.levels[-1]
        arrays, above = storage.assemble(above, coordinates[name][order], extents[name], distinct)
        if above.n_positions > MAX_POSITIONS:
            raise PackError.unfit(fmt, f"{above.n_positions:,} positions")
        if arrays.pos is not None:
            pos[name] = arrays.pos.astype(types.pos)
        if arrays.crd is not None:
            crd[name] = arrays.crd.astype(types.crd)
    is_user_order = bool((order[1:] > order[:-1]).all())
    positions = above.positions if fmt.has_padding else None
    numbers = None if is_user_order else order.astype(types.pos)
    return Assembled(pos, crd, above.n_positions, numbers, positions, types.pos)


def _part(values: Array, name: str, fmt: Format) -> Array:
    split = fmt.split(name[:-1])
    return values // split if name.endswith("1") else values % split


def _storage_order(fmt: Format, coordinates: Mapping[str, Array]) -> Array:
    """Stable order of the entries by the levels that `n_sorted` counts."""
    keys = [coordinates[name] for name in fmt.order[: n_sorted(fmt)]]
    size = next(iter(coordinates.values())).size
    return np.lexsort(keys[::-1]) if keys else np.arange(size)


def n_sorted(fmt: Format) -> int:
    """Levels by which entries are sorted: down to the last compressed one, which is left out if it is the last of all.

    A compressed level that is the last of all lists a row's entries as they come, singletons do so too: summation order
    is the user's.
    """
    kinds = [level.kind for level in fmt.levels]
    if LevelKind.NONUNIQUE in kinds:
        return kinds.index(LevelKind.NONUNIQUE) + 1
    compressed = [depth for depth, level in enumerate(fmt.levels) if level.kind is LevelKind.COMPRESSED]
    return 0 if not compressed else compressed[-1] + (compressed[-1] + 1 < len(fmt.levels))
