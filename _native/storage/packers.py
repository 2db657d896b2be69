"""Packing functions of the C runtime: which formats have one, and the calls.

`pack_generic` handles all other formats.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np
from autosparse._native import memory, runtime_api
from autosparse._native.storage import row_orders, slices
from autosparse._native.storage.levels import COORDINATE_DTYPES, coordinate_dtype
from autosparse._native.storage.rows import KernelRows, check, packing_threads
from autosparse._native.storage.stored import Filled, Packed
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowIndex, WideIndex
from autosparse.core.formats import PRESETS, Format
from autosparse.core.pattern import Pattern
from autosparse.core.values import dataclass

Array = NDArray[Any]  # values or indices of any supported dtype
Turned = tuple[Array, Array, Array]
"""Arrays indptr, indices and data of the rows of a transpose."""


def _pack_rows(rows: KernelRows, values: Array, fmt: Format) -> Packed:
    """Return pos, crd and values: the arrays of compressed rows, copied unless they are new."""
    crd = rows.indices.astype(coordinate_dtype(fmt, rows.indices.dtype.name), copy=not rows.is_new)
    indptr, values = (rows.indptr, values) if rows.is_new else (rows.indptr.copy(), values.copy())
    return {"k1": indptr}, {"k1": crd}, values


def _has_blocks(fmt: Format) -> bool:
    """Return whether a format stores blocks of rows, sorted by block column, with uncompressed inner levels only."""
    return _levels(fmt).startswith("i1:U,k1:C,") and all(level.kind.value == "U" for level in fmt.levels[2:])


def _pack_blocks(rows: KernelRows, values: Array, fmt: Format) -> Packed:
    """Return pos, crd and values of the rows in blocks, by three passes over the entries: count, list and fill."""
    r, c, pointer = fmt.split("i"), fmt.split("k"), runtime_api.pointer
    pos = rows.known.pop((r, c), None)
    if pos is None:
        pos = _count_blocks(rows, r, c)
    n_blocks, threads = int(pos[-1]), packing_threads()
    crd = _room(n_blocks, COORDINATE_DTYPES[fmt.index_bits])
    check(runtime_api.lib.asp_list_blocks(*rows.head, r, c, fmt.index_bits, pointer(pos), pointer(crd), threads))
    packed = _room(n_blocks * r * c, values.dtype)
    _fill_blocks(rows, values, fmt, (pos, crd, packed))
    return {"k1": pos}, {"k1": crd}, packed


def _fill_blocks(rows: KernelRows, values: Array, fmt: Format, arrays: tuple[Array, Array, Array]) -> None:
    """Write the values of the blocks (the third pass)."""
    steps, pointer = _inner_steps(fmt), runtime_api.pointer
    code = runtime_api.lib.asp_fill_blocks(
        runtime_api.DTYPE_CODES[values.dtype.name], *rows.head, pointer(values),
        fmt.split("i"), fmt.split("k"), fmt.split("i") * fmt.split("k"), steps["i0"], steps["k0"], fmt.index_bits,
        *map(pointer, arrays), packing_threads(),
    )  # fmt: skip
    check(code)


def _pack_panels(rows: KernelRows, values: Array, fmt: Format) -> Packed:
    """Return pos, crd and values of the rows in column panels, by two passes over the entries: count and fill."""
    split = fmt.split("k")
    pos = _room(-(-rows.n_cols // split) * rows.n_rows + 1, rows.indptr.dtype)
    check(runtime_api.lib.asp_count_panels(*rows.head, split, runtime_api.pointer(pos)))
    crd = _room(values.size, COORDINATE_DTYPES[fmt.index_bits])
    packed = _room(values.size, values.dtype)
    _fill_panels(rows, values, fmt, (pos, crd, packed))
    return {"k0": pos}, {"k0": crd}, packed


def _fill_panels(rows: KernelRows, values: Array, fmt: Format, arrays: tuple[Array, Array | None, Array]) -> None:
    """Write the panels (the second pass); without columns (None), values only."""
    (pos, crd, packed), pointer = arrays, runtime_api.pointer
    code = runtime_api.lib.asp_fill_panels(
        runtime_api.DTYPE_CODES[values.dtype.name], *rows.head, pointer(values), fmt.split("k"), pointer(pos),
        fmt.index_bits, runtime_api.ffi.NULL if crd is None else pointer(crd), pointer(packed),
    )  # fmt: skip
    check(code)


@dataclass(frozen=True, slots=True)
class Packer:
    """Packing functions of one family of formats: `takes` tests a format, `fill` rewrites values in place."""

    takes: Callable[[Format], bool]
    pack: Callable[[KernelRows, Array, Format], Packed]
    fill: Callable[[KernelRows, Array, Filled], None]


PACKERS: Final = (
    # ``i1:U,k1:C``: CSR of op(A), with narrow coordinates or of the transpose.
    Packer(
        lambda fmt: _levels(fmt) == PRESETS["CSR"].levels,
        _pack_rows,
        lambda rows, values, operand: np.copyto(operand.values, values),
    ),
    # ``i1:U,k1:C`` followed by inner levels: BCSR, UCU.
    Packer(
        _has_blocks,
        _pack_blocks,
        lambda rows, values, operand: _fill_blocks(
            rows, values, operand.fmt, (operand.pos["k1"], operand.crd["k1"], operand.values)
        ),
    ),
    # ``k1:U,i1:U,k0:C``: column panels, each a CSR matrix with panel-relative columns. This is the sparse block format
    # of WACO §5.2.1 with unsplit rows.
    Packer(
        lambda fmt: _levels(fmt) == PRESETS["sparse block"].levels,
        _pack_panels,
        lambda rows, values, operand: _fill_panels(
            rows, values, operand.fmt, (operand.pos["k0"], None, operand.values)
        ),
    ),
    Packer(slices.is_packed_here, slices.pack, slices.fill),
)
"""Packing functions, in the order in which they are tried. To support a new family, add a row."""


def pack(
    pattern: Pattern, values: Array, fmt: Format, *, transposed: bool, turned: Turned | None = None
) -> Packed | None:
    """Return structure and values of op(A) in `fmt`, or None if no packing function supports it.

    `turned`: the rows of A^T, if the caller has them.
    """
    packer = _packer(fmt)
    if packer is None:
        return None
    if transposed and turned is not None:
        rows, own = KernelRows(pattern.n_cols, pattern.n_rows, *turned[:2]), turned[2]
    else:
        rows, own = rows_of(pattern, values, transposed=transposed)
    if not fmt.rows:
        if not transposed:
            rows = dataclasses.replace(rows, known=pattern.counts)  # statistics from `packed_bytes` are reused once
        return packer.pack(rows, own, fmt)
    order = row_orders.order_of(rows, fmt.rows)
    pos, crd, packed = packer.pack(*row_orders.ordered(rows, own, order), fmt)
    return pos, crd | {"rows": order}, packed


@dataclass(frozen=True, slots=True)
class ValuePositions:
    """Positions of a matrix's values in a packed copy: value `origin[e]` is stored at `to[e]`; None means e itself."""

    n: int
    to: Array | None
    origin: Array | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays."""
        return sum(array.nbytes for array in (self.to, self.origin) if array is not None)

    def fill(self, values: Array, packed: Array, ranges: Iterable[tuple[int, int]] | None = None) -> None:
        """Write `values`, contiguous, to their positions in `packed`, or only those in `ranges` of entries."""
        ffi, pointer = runtime_api.ffi, runtime_api.pointer
        indices: list[Any] = []
        for array in (self.origin, self.to):
            wide = array is not None and array.dtype.itemsize == 8
            indices += [int(wide), ffi.NULL if array is None else pointer(array)]
        for begin, end in ranges or ((0, self.n),):
            check(
                runtime_api.lib.asp_refill(
                    values.itemsize, *indices, pointer(values), pointer(packed), begin, min(end, self.n),
                    packing_threads(),
                )
            )  # fmt: skip


def dictionary_positions(found: Array, n: int) -> ValuePositions | None:
    """Return where each of n entries was packed; None if two entries share a position.

    `found` is what packing gave for the values 1, 2, …, n, which number the entries.
    """
    to = np.empty(n, NarrowIndex if found.size <= np.iinfo(NarrowIndex).max else WideIndex)
    code = runtime_api.INDEX_CODES[to.dtype.name]
    how = runtime_api.lib.asp_places(runtime_api.pointer(found), found.size, n, code, runtime_api.pointer(to))
    return None if how < 0 else ValuePositions(n, to if how == 0 else None)


def refill(operand: Filled, values: Array) -> bool:
    """Overwrite the operand's values in place; return False if no packing function supports its format."""
    packer = _packer(operand.fmt)
    if packer is None:
        return False
    rows, own = rows_of(operand.pattern, values, transposed=operand.transposed)
    if operand.fmt.rows:
        rows, own = row_orders.ordered(rows, own, operand.crd["rows"])
    packer.fill(rows, own, operand)
    return True


def sliced_bytes(
    pattern: Pattern, fmt: Format, value_bytes: int, *, transposed: bool, turned: Turned | None = None
) -> int:
    """Return the exact bytes of op(A) in a sliced format.

    Takes O(n_rows), or O(nnz) if columns or the transpose matter. `turned`: the rows of A^T, if the caller has them.
    """
    csr = pattern.indptr, np.ascontiguousarray(pattern.indices[: pattern.nnz])
    if not transposed:
        return slices.packed_bytes(KernelRows(*pattern.shape, *csr, pattern.counts), fmt, value_bytes)
    if turned is None:  # in scratch memory, which returns to the system
        threads, room = packing_threads(), memory.empty_scratch
        indptr, indices, _, _ = runtime_api.transpose((*csr, None), pattern.shape, threads=threads, room=room)
    else:
        indptr, indices, _ = turned
    return slices.packed_bytes(KernelRows(pattern.n_cols, pattern.n_rows, indptr, indices), fmt, value_bytes)


def count_blocks(pattern: Pattern, r: int, c: int, *, transposed: bool) -> int:
    """Return the number of nonempty r x c blocks of op(A). Their starts are cached for packing."""
    rows = KernelRows(
        *pattern.shape, pattern.indptr, np.ascontiguousarray(pattern.indices[: pattern.nnz]), pattern.counts
    )
    # The blocks of A^T are those of A with the sides exchanged.
    pos = _count_blocks(rows, *((c, r) if transposed else (r, c)))
    if not transposed:
        rows.keep((r, c), pos)
    return int(pos[-1])


def _count_blocks(rows: KernelRows, r: int, c: int) -> Array:
    """Return the number of nonempty r x c blocks before each block row, and their total as the last element."""
    pos = _room(-(-rows.n_rows // r) + 1, rows.indptr.dtype)
    check(int(runtime_api.lib.asp_count_blocks(*rows.head, r, c, runtime_api.pointer(pos), packing_threads())))
    return pos


def _packer(fmt: Format) -> Packer | None:
    return next((packer for packer in PACKERS if packer.takes(fmt)), None)


def rows_of(pattern: Pattern, values: Array, *, transposed: bool) -> tuple[KernelRows, Array]:
    """Return op(A) by rows; the entries of a row have SciPy's summation order."""
    nnz = pattern.nnz
    indices, data = pattern.indices[:nnz], np.ascontiguousarray(values[:nnz])
    if not transposed:
        return KernelRows(*pattern.shape, pattern.indptr, np.ascontiguousarray(indices)), data
    csr, threads = (pattern.indptr, np.ascontiguousarray(indices), data), packing_threads()
    indptr_t, indices_t, data_t, _ = runtime_api.transpose(
        csr, pattern.shape, threads=threads, room=memory.empty_scratch
    )
    assert data_t is not None
    return KernelRows(pattern.n_cols, pattern.n_rows, indptr_t, indices_t, is_new=True), data_t


def _levels(fmt: Format) -> str:
    return ",".join(map(str, fmt.levels))


def _inner_steps(fmt: Format) -> Mapping[str, int]:
    """Return the distances between neighbours in i0 and in k0 inside a block of values."""
    steps = {"i0": 0, "k0": 0}
    for depth, level in enumerate(fmt.levels):
        if level.coordinate in steps:
            steps[level.coordinate] = math.prod(fmt.split(after.coordinate[:-1]) for after in fmt.levels[depth + 1 :])
    return steps


def _room(n: int, dtype: np.dtype[Any]) -> Array:
    """Return uninitialised memory for n elements, on huge pages if it is large, which speeds up packing and kernels."""
    return memory.empty_scratch((n,), dtype)
