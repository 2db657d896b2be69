"""PackedTensor: a sparse tensor of any order in a format of levels, for products along all of its modes but one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from autosparse._native import runtime_api
from autosparse._native.storage.assembly import Assembled, Types, assemble
from autosparse._native.storage.levels import COORDINATE_DTYPES, LEVELS
from autosparse._native.storage.packing import Ranges
from autosparse._native.storage.rows import packing_threads
from autosparse._native.storage.stored import StoredLevels, is_inside, whole_of
from numpy.typing import NDArray

from autosparse.core.dtypes import WideIndex
from autosparse.core.formats import Format, LevelKind
from autosparse.core.pattern import TensorPattern
from autosparse.core.values import dataclass, field
from autosparse.errors import PackError
from autosparse.ops.mttkrp import TENSOR_INDICES

Array = NDArray[Any]  # values: float32, float64; indices: int32, int64, uint16


@dataclass(eq=False)
class PackedTensor(StoredLevels):
    """A packed tensor whose mode `mode` is index ``i`` and whose other modes are ``k``, ``l``, ... in order.

    The structure is written once; `refresh` overwrites values in place. Callers ensure that no product runs meanwhile.
    `order[q]` is the entry that comes q-th (None: entry q); its value is added at `positions[q]` (None: at q).
    """

    kind: ClassVar[str] = "fibers"
    fmt: Format
    mode: int
    pattern: TensorPattern = field(repr=False)
    pos: Mapping[str, Array] = field(repr=False)
    crd: Mapping[str, Array] = field(repr=False)
    values: Array = field(repr=False)
    order: Array | None = field(repr=False)
    positions: Array | None = field(repr=False)
    _sorted: dict[str, bool] = field(default_factory=dict, repr=False)

    @property
    def sizes(self) -> dict[str, int]:
        """Extents of the indices."""
        return {index: self.pattern.shape[mode] for index, mode in modes_of(self.pattern, self.mode).items()}

    @property
    def nbytes(self) -> int:
        """Bytes taken in addition to the user's arrays."""
        sides = [array for array in (self.order, self.positions) if array is not None]
        return sum(array.nbytes for array in (*self.pos.values(), *self.crd.values(), self.values, *sides))

    def refresh(self, values: Array, ranges: Ranges = None, *, room_bytes: int | None = None) -> None:
        """Take new values of the same pattern, in the order of its coordinates; all values are rewritten."""
        _fill(self.values, values, self.order, self.positions)

    def unpack(self) -> tuple[Array, Array]:
        """Return (coordinates, values) in the order of storage: (ndim, n) by mode, and (n,).

        Padding and zeros of blocks are left out. Entries that share a position are returned as one entry, their sum.
        """
        coordinates, positions = self.walk()
        values = self.values[positions]
        if self.fmt.has_padding:
            kept = (values != 0) & is_inside(coordinates, self.fmt, self.sizes)
            values = values[kept]
            coordinates = {name: array[kept] for name, array in coordinates.items()}
        found = np.empty((self.pattern.ndim, values.size), dtype=self.pattern.coords.dtype)
        for index, mode in modes_of(self.pattern, self.mode).items():
            found[mode] = whole_of(coordinates, index, self.fmt)
        return found, values


def modes_of(pattern: TensorPattern, mode: int) -> dict[str, int]:
    """Return the mode that each index runs over: ``i`` over `mode`, the others over the remaining modes in order."""
    others = [other for other in range(pattern.ndim) if other != mode]
    return dict(zip(TENSOR_INDICES, [mode, *others], strict=False))


def tensor_bytes(pattern: TensorPattern, fmt: Format, value_bytes: int, mode: int) -> int:
    """Return an upper bound of the bytes of `pack_tensor`'s result, in O(1)."""
    sizes = {index: pattern.shape[at] for index, at in modes_of(pattern, mode).items()}
    extents, item = fmt.extents(sizes), np.dtype(pattern.index_dtype).itemsize
    total, n_positions = 0, 1
    for level in fmt.levels:
        storage, most = LEVELS[level.kind], n_positions * extents[level.coordinate]
        repeats = level is fmt.levels[-1] or level.kind is LevelKind.NONUNIQUE
        n_prefixes = pattern.nnz if repeats else min(pattern.nnz, most)
        below = storage.n_positions(n_positions, extents[level.coordinate], n_prefixes)
        total += storage.nbytes(n_positions, below, item, fmt.index_bits // 8)
        n_positions = below
    sides = pattern.nnz * (item + (np.dtype(WideIndex).itemsize if fmt.has_padding else 0))
    return total + n_positions * value_bytes + sides


def reason_unfit_tensor(pattern: TensorPattern, fmt: Format, mode: int) -> str | None:
    """Return why `pattern` cannot be packed in `fmt` (a coordinate exceeds its index type), or None."""
    sizes = {index: pattern.shape[at] for index, at in modes_of(pattern, mode).items()}
    if fmt.is_sliced:
        return "slices are for matrices"
    if set(sizes) != {level.coordinate[:-1] for level in fmt.levels}:
        return f"{fmt} does not store the indices {', '.join(sizes)} of a tensor of order {pattern.ndim}"
    name = fmt.too_long(sizes, int(np.iinfo(COORDINATE_DTYPES[fmt.index_bits]).max) + 1)
    return name and f"{name} has {fmt.extents(sizes)[name]:,} coordinates: more than {fmt.index_bits} bits hold"


def pack_tensor(pattern: TensorPattern, values: Array, fmt: Format, mode: int) -> PackedTensor:
    """Pack the tensor in `fmt` for products that keep mode `mode`. Raises PackError when it does not fit.

    `values` is (nnz,) in the order of the coordinates. The caller checks memory limits (`tensor_bytes`).
    """
    reason = reason_unfit_tensor(pattern, fmt, mode)
    if reason:
        raise PackError.unfit(fmt, reason)
    entries = {index: pattern.coords[at] for index, at in modes_of(pattern, mode).items()}
    sizes = {index: pattern.shape[at] for index, at in modes_of(pattern, mode).items()}
    types = Types(np.dtype(pattern.index_dtype), COORDINATE_DTYPES[fmt.index_bits])
    made: Assembled = assemble(fmt, entries, sizes, types)
    packed = np.empty(made.n_positions, dtype=values.dtype)
    _fill(packed, values, made.order, made.positions)
    return PackedTensor(fmt, mode, pattern, made.pos, made.crd, packed, made.order, made.positions)


def _fill(packed: Array, values: Array, order: Array | None, positions: Array | None) -> None:
    """Compute ``packed[positions[q]] += values[order[q]]`` from zero; without shared positions values are copied."""
    if positions is not None:
        packed[...] = 0
        runtime_api.add_at(np.ascontiguousarray(values), order, positions, packed)
    elif order is not None:
        runtime_api.gather(np.ascontiguousarray(values), order, packed, threads=packing_threads())
    else:
        np.copyto(packed, values)
