"""PackedStructure: a pattern in a format without its values, for operations whose result has the pattern's entries.

A kernel reads the user's values in place, at ``vals[origin[p]]`` for position p, and writes ``out[origin[p]]``, so
nothing needs to be updated when values change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from autosparse._native.storage.assembly import Assembled, Types, assemble
from autosparse._native.storage.levels import coordinate_dtype
from autosparse._native.storage.packers import rows_of
from autosparse._native.storage.packing import packed_bytes, reason_unfit
from autosparse._native.storage.row_orders import row_permutation
from autosparse._native.storage.stored import StoredLevels, whole_of
from numpy.typing import NDArray

from autosparse.core.dtypes import WideIndex
from autosparse.core.formats import Format
from autosparse.core.pattern import Pattern
from autosparse.core.values import dataclass, field
from autosparse.errors import PackError

Array = NDArray[Any]  # indices: int32, int64, uint16


@dataclass(eq=False)
class PackedStructure(StoredLevels):
    """A pattern's levels, and the entry (its number in `indices` and in the values) at each position.

    `origin` is None if position p holds entry p (always for CSR); -1 marks padding. In a format with padding, repeated
    entries share a position: `repeats[e]` is the next entry at the position of entry e, or -1. It is None if nothing
    repeats.
    """

    kind: ClassVar[str] = "structure"
    fmt: Format
    pattern: Pattern = field(repr=False)
    pos: Mapping[str, Array] = field(repr=False)
    crd: Mapping[str, Array] = field(repr=False)
    origin: Array | None = field(repr=False)
    repeats: Array | None = field(repr=False)
    _sorted: dict[str, bool] = field(default_factory=dict, repr=False)

    @property
    def sizes(self) -> dict[str, int]:
        """Extents of the indices: ``i`` rows, ``k`` columns."""
        return dict(zip(("i", "k"), self.pattern.shape, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes taken in addition to the user's arrays."""
        if self.fmt.is_csr:
            return 0
        sides = [array for array in (self.origin, self.repeats) if array is not None]
        return sum(array.nbytes for array in (*self.pos.values(), *self.crd.values(), *sides))

    def entries(self) -> tuple[Array, Array, Array]:
        """Return (rows, columns, entry numbers) of all entries in arbitrary order: the inverse of packing."""
        coordinates, positions = self.walk()
        numbers = positions if self.origin is None else self.origin[positions].astype(WideIndex)
        kept = numbers >= 0
        rows, columns = (whole_of(coordinates, index, self.fmt)[kept] for index in ("i", "k"))
        if self.fmt.rows:
            rows = self.crd["rows"][rows]
        found = [(rows, columns, numbers[kept])]
        while self.repeats is not None and found[-1][2].size:
            rows, columns, numbers = found[-1]
            following = self.repeats[numbers]
            kept = following >= 0
            found.append((rows[kept], columns[kept], following[kept].astype(WideIndex)))
        rows, columns, numbers = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return rows, columns, numbers


def structure_bytes(pattern: Pattern, fmt: Format) -> int:
    """Return an upper bound of the bytes of `pack_structure`'s result. Takes O(nnz) at most."""
    if fmt.is_csr:
        return 0
    item = pattern.indptr.dtype.itemsize
    repeats = pattern.nnz * item if fmt.has_padding else 0
    return packed_bytes(pattern, fmt, item, transposed=False) + repeats


def pack_structure(pattern: Pattern, fmt: Format) -> PackedStructure:
    """Pack the structure of `pattern` in `fmt`.

    Raises PackError if it does not fit; the caller checks memory limits.
    """
    if fmt.is_csr:
        return PackedStructure(fmt, pattern, {"k1": pattern.indptr}, {"k1": pattern.indices}, None, None)
    reason = f"slices hold values: {fmt} has no structure alone" if fmt.is_sliced else None
    reason = reason or reason_unfit(pattern, fmt, transposed=False)
    if reason:
        raise PackError.unfit(fmt, reason)
    rows = pattern.rows_of_entries(pattern.indptr.dtype)
    entries = {"i": rows, "k": np.ascontiguousarray(pattern.indices[: pattern.nnz])}
    listed: dict[str, Array] = {}
    if fmt.rows:
        own, _ = rows_of(pattern, pattern.indices, transposed=False)
        listed["rows"], place = row_permutation(own, fmt.rows)
        entries["i"] = place[rows].astype(pattern.indptr.dtype)
    types = Types(pattern.indptr.dtype, coordinate_dtype(fmt, pattern.index_dtype))
    made = assemble(fmt, entries, dict(zip(("i", "k"), pattern.shape, strict=True)), types)
    origin, repeats = origins(made, pattern.nnz)
    return PackedStructure(fmt, pattern, made.pos, made.crd | listed, origin, repeats)


def origins(made: Assembled, nnz: int) -> tuple[Array | None, Array | None]:
    """Return the arrays `origin` and `repeats` (see PackedStructure) of assembled levels with `nnz` entries."""
    if made.positions is None:
        return made.order, None
    dtype = made.dtype
    order = np.arange(nnz, dtype=dtype) if made.order is None else made.order
    origin = np.full(made.n_positions, -1, dtype=dtype)
    # The last assignment to a position wins; in reverse order that is the first entry.
    origin[made.positions[::-1]] = order[::-1]
    first = origin[made.positions]
    again = np.flatnonzero(first != order)
    if again.size == 0:
        return origin, None
    repeats = np.full(nnz, -1, dtype=dtype)
    by_position = again[np.argsort(made.positions[again], kind="stable")]
    at, entry = made.positions[by_position], order[by_position]
    before = np.where(np.concatenate([[True], at[1:] != at[:-1]]), origin[at], np.roll(entry, 1))
    repeats[before] = entry
    return origin, repeats
