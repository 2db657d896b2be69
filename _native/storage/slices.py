"""Packing of sliced formats (SELL-C-sigma, with diagonals): slots of lanes, one row of op(A) per lane.

A PackedOperand in such a format has the arrays of `SIDES` (ir/slice_layout.py) in addition to the slots of the sliced
level ``k1`` (``pos["k1"]``, ``crd["k1"]``). ``runtime/pack/pack_slices.c``, which packs them, describes their contents.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import numpy as np
from autosparse._native import memory, runtime_api
from autosparse._native.ir.slice_layout import (
    BASE_SHIFT,
    DIAGONAL,
    IN_ORDER,
    INDEX_BITS,
    KIND_MASK,
    LEVELS,
    NARROW,
    has_diagonals,
)  # fmt: skip
from autosparse._native.storage.dictionary import TABLE
from autosparse._native.storage.levels import COORDINATE_DTYPES
from autosparse._native.storage.rows import KernelRows, check, packing_threads
from autosparse._native.storage.stored import Filled, Packed
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowIndex, WideIndex
from autosparse.core.formats import DICTIONARY, Format
from autosparse.core.pattern import Pattern
from autosparse.core.values import dataclass

Array = NDArray[Any]  # indices of any supported dtype, or values

LIMIT: Final = (1 << 31) - 1
"""Maximum number of rows and of columns, because both are stored in 32 bits."""


@dataclass(frozen=True)
class SliceLayout:
    """Assignment of rows to slices, and how the columns of each slice are stored."""

    rows: tuple[Array, Array] | None  # `first` and `rows`, int32; None: all in order
    pos: Array  # index type of the pattern
    begin: Array  # int64
    what: Array  # int64

    @property
    def n_slots(self) -> int:
        """Total number of slots of all slices."""
        return int(self.pos[-1])

    def sides(self) -> dict[str, Array]:
        """Return, by name, those arrays of `SIDES` that the layout has."""
        found = {"begin": self.begin, "what": self.what}
        return found if self.rows is None else found | {"first": self.rows[0], "rows": self.rows[1]}


def lay_out(rows: KernelRows, fmt: Format) -> SliceLayout:
    """Compute the layout of op(A) in `fmt`. Takes O(rows), or O(nnz) if columns must be read. Raises MemoryError."""
    lanes = fmt.split("i")
    n_slices = -(-rows.n_rows // lanes)
    room = np.empty(n_slices, dtype=NarrowIndex), np.empty(n_slices * lanes, dtype=NarrowIndex)
    layout = SliceLayout(
        room if fmt.sigma > 1 else None,
        np.empty(n_slices + 1, dtype=rows.indptr.dtype),
        np.empty(n_slices + 1, dtype=WideIndex),
        np.empty(n_slices, dtype=WideIndex),
    )
    n_listed = runtime_api.lib.asp_slices_lay_out(
        *rows.head, lanes, fmt.sigma, has_diagonals(fmt), fmt.index_bits, *_pointers(layout), packing_threads()
    )
    check(n_listed)
    if layout.rows is None:
        return layout
    return dataclasses.replace(layout, rows=(room[0], room[1][: n_listed * lanes].copy()))


def is_packed_here(fmt: Format) -> bool:
    """Return whether the format is ``i1:U,k1:S,i0:U`` or ``i1:U,k1:D,i0:U``."""
    return ",".join(map(str, fmt.levels)) in LEVELS


def pack(rows: KernelRows, values: Array, fmt: Format) -> Packed:
    """Compute the layout, then write columns and values."""
    layout = rows.known.pop(fmt, None) or lay_out(rows, fmt)
    crd = memory.empty_scratch((int(layout.begin[-1]),), COORDINATE_DTYPES[fmt.index_bits])
    packed = memory.empty_scratch((layout.n_slots * fmt.split("i"),), values.dtype)
    _fill(rows, values, fmt, (layout, crd, packed), crd_known=False)
    sides = layout.sides()
    pos = {"k1": layout.pos, "begin": sides.pop("begin")}
    return pos, {"k1": crd, **sides}, packed


def fill(rows: KernelRows, values: Array, operand: Filled) -> None:
    """Rewrite the values in place."""
    pos, crd = operand.pos, operand.crd
    rows_of_lanes = (crd["first"], crd["rows"]) if "rows" in crd else None
    layout = SliceLayout(rows_of_lanes, pos["k1"], pos["begin"], crd["what"])
    _fill(rows, values, operand.fmt, (layout, crd["k1"], operand.values), crd_known=True)


def packed_bytes(rows: KernelRows, fmt: Format, value_bytes: int) -> int:
    """Return the exact bytes of op(A) in `fmt`."""
    layout = lay_out(rows, fmt)
    rows.keep(fmt, layout)
    arrays = [layout.pos, *layout.sides().values()]
    cells = layout.n_slots * fmt.split("i")
    values_bytes = cells + TABLE * value_bytes if fmt.values == DICTIONARY else cells * value_bytes
    return sum(array.nbytes for array in arrays) + int(layout.begin[-1]) * fmt.index_bits // 8 + values_bytes


def reason_unfit(pattern: Pattern, fmt: Format) -> str | None:
    """Return why `pattern` (or its transpose) cannot be packed in the sliced format `fmt`, or None."""
    if not is_packed_here(fmt):
        return f"of sliced formats only {' and '.join(LEVELS)} are packed"
    if fmt.index_bits not in INDEX_BITS:
        return f"slices store columns of 16 or 32 bits, not {fmt.index_bits}"
    if max(pattern.shape) > LIMIT:
        return f"{max(pattern.shape):,} rows or columns: more than 31 bits hold"
    return None


def walk(operand: Filled) -> tuple[dict[str, Array], Array]:
    """Return the coordinates of every position (``i1``, ``i0`` of the row, ``k1``) and the positions, for lanes with a
    row.
    """
    lanes = operand.fmt.split("i")
    slots = np.diff(operand.pos["k1"]).astype(WideIndex)
    owner = np.repeat(np.arange(slots.size), slots * lanes)  # slice of each position
    positions = np.arange(owner.size)
    lane = positions % lanes
    row = lane_rows(operand)[owner, lane]
    column = columns(operand, owner, positions)
    kept = row < operand.sizes["i"]
    found = {"i1": row[kept] // lanes, "i0": row[kept] % lanes, "k1": column[kept]}
    return found, positions[kept]


def lane_rows(operand: Filled) -> Array:
    """Return the row of op(A) of each lane of each slice, (n_slices, lanes); lanes without a row have numbers beyond
    the last.
    """
    lanes, crd = operand.fmt.split("i"), operand.crd
    n_slices = crd["what"].size
    if "rows" not in crd:
        return np.arange(n_slices * lanes).reshape(n_slices, lanes)
    in_order = crd["what"] & IN_ORDER != 0
    found = crd["first"].astype(WideIndex)[:, None] + np.arange(lanes)
    found[~in_order] = crd["rows"].reshape(-1, lanes)[crd["first"][~in_order]]
    return found


def columns(operand: Filled, owner: Array, positions: Array) -> Array:
    """Return the columns of op(A) at `positions`, which belong to the slices `owner`."""
    lanes, crd = operand.fmt.split("i"), operand.crd["k1"]
    what, begin = operand.crd["what"][owner], operand.pos["begin"][owner]
    is_narrow, is_diagonal = what & KIND_MASK == NARROW, what & KIND_MASK == DIAGONAL
    at = positions - operand.pos["k1"][owner].astype(WideIndex) * lanes
    n_units = 4 // crd.itemsize  # per 32-bit column; such columns are aligned to 32 bits
    wide = crd[: crd.size // n_units * n_units].view(NarrowIndex)
    found = np.empty(positions.size, dtype=WideIndex)
    found[is_narrow] = crd[(begin + at)[is_narrow]] + (what >> BASE_SHIFT)[is_narrow]
    unit = begin // n_units + np.where(is_diagonal, at // lanes, at)
    found[~is_narrow] = wide[unit[~is_narrow]]
    return found + np.where(is_diagonal, positions % lanes, 0)


def _fill(
    rows: KernelRows, values: Array, fmt: Format, arrays: tuple[SliceLayout, Array, Array], *, crd_known: bool
) -> None:
    layout, crd, packed = arrays
    code = runtime_api.lib.asp_slices_fill(
        runtime_api.DTYPE_CODES[values.dtype.name],
        *rows.head,
        runtime_api.pointer(values),
        *(fmt.split("i"), fmt.index_bits, *_pointers(layout), crd_known),
        *(runtime_api.pointer(crd), runtime_api.pointer(packed), packing_threads()),
    )
    check(code)


def _pointers(layout: SliceLayout) -> list[Any]:  # C pointers: first, rows, pos, begin, what
    null = runtime_api.ffi.NULL
    rows = [null, null] if layout.rows is None else [runtime_api.pointer(array) for array in layout.rows]
    return [*rows, *(runtime_api.pointer(array) for array in (layout.pos, layout.begin, layout.what))]
