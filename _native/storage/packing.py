"""Packing of the user's CSR arrays into the levels of a Format, and unpacking.

Coordinates are those of op(A): ``i`` its rows, ``k`` its columns. Repeated entries stay separate if the last level is
Compressed (products sum them, in the row's own order) and are summed if it is Uncompressed. Plain CSR is not packed:
operands refer to the user's arrays, and values are read live.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any, ClassVar, Final

import numpy as np
from autosparse._native.storage import dictionary, row_orders, slices
from autosparse._native.storage import packers as native_packers
from autosparse._native.storage.levels import LEVELS, coordinate_dtype
from autosparse._native.storage.packers import ValuePositions, dictionary_positions
from autosparse._native.storage.stored import StoredLevels, is_inside, whole_of
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowIndex, Real
from autosparse.core.formats import DICTIONARY, Format, LevelKind
from autosparse.core.pattern import Pattern
from autosparse.core.values import dataclass, field
from autosparse.errors import PackError

ORDER_BYTES: Final = 4
"""Bytes per row of the row permutation of a format with `rows`."""
Ranges = list[tuple[int, int]] | None
"""Ranges (begin, end) of entries whose values changed; None means all entries."""
Array = NDArray[Any]  # values: float32, float64, complex64, complex128; indices: int32, int64, uint16


@dataclass(eq=False)
class PackedOperand(StoredLevels):
    """Packed copy of op(A) in a format: `pos` and `crd` arrays by coordinate of the compressed levels, and the values.

    The structure is written once; `refresh` overwrites values in place. Callers ensure that no product runs meanwhile.
    """

    kind: ClassVar[str] = "values"
    fmt: Format
    transposed: bool
    pattern: Pattern = field(repr=False)  # of A, not of op(A)
    pos: Mapping[str, Array] = field(repr=False)
    crd: Mapping[str, Array] = field(repr=False)
    values: Array = field(repr=False)
    live: bool = False  # the arrays are the user's own
    _sorted: dict[str, bool] = field(default_factory=dict, repr=False)
    _places: list[ValuePositions | None] = field(
        default_factory=list, repr=False
    )  # of the values; filled at the first refresh

    @property
    def sizes(self) -> dict[str, int]:
        """Extents of the indices of op(A)."""
        n_rows, n_cols = self.pattern.shape
        return {"i": n_cols, "k": n_rows} if self.transposed else {"i": n_rows, "k": n_cols}

    @property
    def numbers(self) -> Array:
        """Values used in computations: half-precision values are widened, dictionary-encoded ones decoded."""
        if self.fmt.values == DICTIONARY:
            return np.asarray(self.crd["table"][self.values])
        return _half_precision().widened(self.values, self.fmt) if self.fmt.values else self.values

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All arrays, values last."""
        return (*self.pos.values(), *self.crd.values(), self.values)

    @property
    def nbytes(self) -> int:
        """Bytes taken in addition to the user's arrays."""
        if self.live:
            return 0
        return sum(array.nbytes for array in self.arrays) + sum(one.nbytes for one in self._places if one is not None)

    def refresh(self, values: Array, ranges: Ranges = None, *, room_bytes: int | None = None) -> None:
        """Take new values of the same pattern, in A's order; live operands refer to them.

        `ranges` of entries restricts the update; all other values are unchanged. The first call stores the position of
        each entry, which counts in `nbytes` and takes at most `room_bytes`. Raises PackError if the format cannot hold
        the values, and keeps the old ones.
        """
        if self.live:
            self.values = values
            return
        places = self.places(room_bytes)
        if places is None:
            self._repack(values)
            return
        values = np.ascontiguousarray(values[: places.n])
        if not self.fmt.values:
            places.fill(values, self.values, ranges)
            return
        exact = np.zeros(self.values.size, values.dtype)
        places.fill(values, exact)
        self._take(*_stored(exact, self.fmt))

    def places(self, room_bytes: int | None = None) -> ValuePositions | None:
        """Return the position of each entry of A in `values`, or None if entries share one or memory is short."""
        if not self._places:
            item = 4 if self.values.size <= np.iinfo(NarrowIndex).max else 8
            if room_bytes is not None and item * self.pattern.nnz > room_bytes:
                return None
            try:
                self._places.append(_positions_of(self))
            except MemoryError:
                self._places.append(None)
        return self._places[0]

    def _repack(self, values: Array) -> None:
        if self.fmt.values or not native_packers.refill(self, values):
            made = pack(self.pattern, values, self.fmt, transposed=self.transposed)
            self._take(made.values, made.crd)

    def _take(self, values: Array, crd: Mapping[str, Array]) -> None:
        self.values[...] = values
        if "table" in crd:
            self.crd["table"][...] = crd["table"]

    def unpack(self) -> tuple[Array, Array, Array]:
        """Return op(A) as CSR (indptr, indices, data): rows in order, without padding, and without zeros of blocks.

        Entries of a row have the order in which the format stores them.
        """
        coordinates, positions = slices.walk(self) if self.fmt.is_sliced else self.walk()
        values = self.numbers[positions]
        if self.fmt.has_padding:
            kept = (values != 0) & is_inside(coordinates, self.fmt, self.sizes)
            values = values[kept]
            coordinates = {name: array[kept] for name, array in coordinates.items()}
        rows, columns = (whole_of(coordinates, index, self.fmt) for index in ("i", "k"))
        if self.fmt.rows:
            rows = self.crd["rows"][rows]
        order = np.argsort(rows, kind="stable")
        index_dtype = self.pattern.indptr.dtype
        indptr = np.zeros(self.sizes["i"] + 1, dtype=index_dtype)
        np.cumsum(np.bincount(rows, minlength=self.sizes["i"]), out=indptr[1:])
        return indptr, columns[order].astype(index_dtype), values[order]


def packed_bytes(
    pattern: Pattern, fmt: Format, value_bytes: int, *, transposed: bool, turned: native_packers.Turned | None = None
) -> int:
    """Return the bytes of `pack`'s result: exact if levels distinguish blocks, else an upper bound. Takes O(nnz)."""
    if fmt.is_csr and not transposed:
        return 0
    if fmt.is_sliced:
        return native_packers.sliced_bytes(pattern, fmt, value_bytes, transposed=transposed, turned=turned)
    value_bytes = _half_precision().WIDTH if fmt.values else value_bytes
    extents = fmt.extents(_sizes(pattern, transposed))
    crd_bytes = coordinate_dtype(fmt, pattern.index_dtype).itemsize
    pos_bytes = pattern.indptr.dtype.itemsize
    total, n_positions = ORDER_BYTES * extents["i1"] * fmt.split("i") if fmt.rows else 0, 1
    for depth, level in enumerate(fmt.levels):
        storage = LEVELS[level.kind]
        extent = extents[level.coordinate]
        n_prefixes = _n_prefixes(pattern, fmt, depth, n_positions * extent, transposed=transposed)
        below = storage.n_positions(n_positions, extent, n_prefixes)
        total += storage.nbytes(n_positions, below, pos_bytes, crd_bytes)
        n_positions = below
    return total + n_positions * value_bytes


def reason_unfit(pattern: Pattern, fmt: Format, *, transposed: bool) -> str | None:
    """Return why `pattern` cannot be packed in `fmt` (a coordinate or count exceeds its index types), or None."""
    if fmt.is_csr and not transposed:
        return None
    if fmt.is_sliced:
        return slices.reason_unfit(pattern, fmt)
    sizes = _sizes(pattern, transposed)
    if fmt.rows and sizes["i"] > row_orders.MAX_ROWS:
        return f"{sizes['i']:,} rows: more than 32 bits can number"
    name = fmt.too_long(sizes, int(np.iinfo(coordinate_dtype(fmt, pattern.index_dtype)).max) + 1)
    return name and f"{name} has {fmt.extents(sizes)[name]:,} coordinates: more than {fmt.index_bits} bits hold"


def pack(
    pattern: Pattern, values: Array, fmt: Format, *, transposed: bool, turned: native_packers.Turned | None = None
) -> PackedOperand:
    """Pack op(A) in `fmt`. Raises PackError if its indices or values do not fit the types of `fmt`.

    The caller checks memory limits. `turned`: the rows of A^T, if the caller has them. Half-precision and
    dictionary-encoded values are made from a packed copy of the exact ones.
    """
    if fmt.is_csr and not transposed:
        arrays = {"k1": pattern.indptr}, {"k1": pattern.indices}
        return PackedOperand(fmt, False, pattern, *arrays, values, live=True)
    reason = reason_unfit(pattern, fmt, transposed=transposed)
    if reason:
        raise PackError.unfit(fmt, reason)
    native = native_packers.pack(pattern, values, fmt, transposed=transposed, turned=turned)
    pos, crd, packed = native if native is not None else pack_generic(pattern, values, fmt, transposed=transposed)
    stored, table = _stored(packed, fmt)
    return PackedOperand(fmt, transposed, pattern, pos, {**crd, **table}, stored)


def _stored(exact: Array, fmt: Format) -> tuple[Array, dict[str, Array]]:
    """Return packed values as the format stores them, and the dictionary of encoded values if there is one."""
    if fmt.values == DICTIONARY:
        numbers, table = dictionary.encoded(exact, fmt)
        return numbers, {"table": table}
    return (_half_precision().narrowed(exact, fmt) if fmt.values else exact), {}


def _positions_of(packed: PackedOperand) -> ValuePositions | None:
    """Return the positions of A's entries, found by packing the numbers of the entries (from 1) as values."""
    nnz = packed.pattern.nnz
    numbers = np.arange(1, nnz + 1, dtype=Real)
    same = replace(packed, values=np.zeros(packed.values.size, Real), _places=[None])
    if native_packers.refill(same, numbers):
        return dictionary_positions(same.values, nnz)
    _, _, found = pack_generic(packed.pattern, numbers, packed.fmt, transposed=packed.transposed)
    return dictionary_positions(found, nnz)


def pack_generic(
    pattern: Pattern, values: Array, fmt: Format, *, transposed: bool
) -> tuple[dict[str, Array], dict[str, Array], Array]:
    """Return pos, crd and values of any format, by sorting.

    This serves formats without a packing function, and as reference.
    """
    from autosparse._native.storage.assembly import Types, assemble

    nnz = pattern.nnz
    rows = pattern.rows_of_entries(pattern.indptr.dtype)
    columns = np.ascontiguousarray(pattern.indices[:nnz])
    entries = {"i": columns, "k": rows} if transposed else {"i": rows, "k": columns}
    listed: dict[str, Array] = {}
    if fmt.rows:
        by_rows, _ = native_packers.rows_of(pattern, values, transposed=transposed)
        listed["rows"], place = row_orders.row_permutation(by_rows, fmt.rows)
        entries["i"] = place[entries["i"]].astype(pattern.indptr.dtype)
    types = Types(pattern.indptr.dtype, coordinate_dtype(fmt, pattern.index_dtype))
    made = assemble(fmt, entries, _sizes(pattern, transposed), types)
    ordered = values[:nnz] if made.order is None else values[:nnz][made.order]
    if made.positions is None:
        return made.pos, made.crd | listed, ordered.copy() if made.order is None else ordered
    packed = np.zeros(made.n_positions, dtype=values.dtype)
    np.add.at(packed, made.positions, ordered)
    return made.pos, made.crd | listed, packed


def _half_precision() -> ModuleType:
    """Return the module of half-precision values, which is imported only for formats that use it."""
    from autosparse._native.storage import half_precision

    return half_precision


def _sizes(pattern: Pattern, transposed: bool) -> dict[str, int]:
    n_rows, n_cols = pattern.shape
    return {"i": n_cols, "k": n_rows} if transposed else {"i": n_rows, "k": n_cols}


def _n_prefixes(pattern: Pattern, fmt: Format, depth: int, most: int, *, transposed: bool) -> int:
    """Return an upper bound on the distinct coordinates of the levels down to `depth`, exact for countable blocks."""
    levels = fmt.levels
    if levels[depth].kind is not LevelKind.COMPRESSED or depth + 1 == len(levels):
        return pattern.nnz
    sides = _prefix_blocks(fmt, depth)
    return (
        min(pattern.nnz, most) if sides is None else native_packers.count_blocks(pattern, *sides, transposed=transposed)
    )


def _prefix_blocks(fmt: Format, depth: int) -> tuple[int, int] | None:
    """Return the sides of the blocks that the levels down to `depth` distinguish, or None if they are no blocks."""
    found = {level.coordinate for level in fmt.levels[: depth + 1]}
    if not {"i1", "k1"} <= found:
        return None
    return 1 if "i0" in found else fmt.split("i"), 1 if "k0" in found else fmt.split("k")
