"""Operands of an einsum: sparse ones by sorted distinct coordinates, dense ones as arrays; an index occurs once."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from autosparse.contraction.kinds import AnyArray, arrays_of, canonical, entries, is_sparse, is_tensor
from autosparse.contraction.lower.ordered_entries import OrderedEntries, added, keys
from autosparse.contraction.subscripts import Subscripts

FEW_ROWS: Final = 1 << 20
"""Rows or columns for which arrays with a place each are always made."""
MAX_EMPTY_ROWS: Final = 8
"""Rows or columns per entry up to which larger ones are, too: memory is to go by entries."""


class Sparse:
    """``values[e]`` at ``coords[:, e]``, entries distinct; `indices` has a letter per mode.

    A matrix may come as `rows`, its (indptr, indices) sorted in each row, and a tensor as what it keeps in order: then
    coordinates and values are made when asked for.
    """

    __slots__ = (
        "_coords",
        "_values",
        "dtype",
        "indices",
        "nnz",
        "rows",
        "shape",
        "shared",
        "sorted_by",
        "stored",
        "tensor",
    )

    def __init__(
        self, indices: str, coords: AnyArray | None, values: AnyArray, shape: tuple[int, ...],
        *, sorted_by: str | None = None, rows: tuple[AnyArray, AnyArray] | None = None,
    ) -> None:  # fmt: skip
        self.indices, self._coords, self.shape, self.rows = indices, coords, shape, rows
        self._values: AnyArray | None = values
        self.dtype: np.dtype[Any] = values.dtype
        self.nnz = int(values.size)  # stored entries
        self.sorted_by = sorted_by  # the order of modes that entries are sorted by
        self.tensor: OrderedEntries | None = None
        self.stored: dict[tuple[object, ...], Any] = {}  # copies in other orders: `lower.levels`
        self.shared: dict[tuple[object, ...], Any] = {}  # the same by modes, of all reads of one matrix

    @classmethod
    def of_tensor(cls, indices: str, tensor: OrderedEntries, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Sparse:
        """A tensor's entries, in the order of its modes."""
        made = cls(indices, None, np.empty(0, dtype), shape, sorted_by=indices)
        made._values, made.nnz, made.tensor = None, tensor.nnz, tensor
        return made

    @property
    def coords(self) -> AnyArray:
        """Coordinates, (modes, entries)."""
        if self._coords is None and self.tensor is not None:
            self._coords = self.tensor.coords
        if self._coords is None:
            assert self.rows is not None
            indptr, indices = self.rows
            major = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
            self._coords = np.stack([major, indices.astype(np.int64, copy=False)])
        return self._coords

    @property
    def values(self) -> AnyArray:
        """Values, (entries,)."""
        if self._values is None:
            assert self.tensor is not None
            self._values = self.tensor.values(self.dtype)
        return self._values


@dataclass(eq=False)
class Dense:
    """An ndarray with a letter per axis."""

    indices: str
    array: AnyArray


Operand: TypeAlias = "Sparse | Dense"


def prepare(arguments: Sequence[Any], subscripts: Subscripts, dtype: np.dtype[Any]) -> list[Operand]:
    """Operands of `dtype` in which every index occurs once.

    Diagonals are taken, extents of 1 that broadcast are dropped, indices of one operand alone are summed.
    """
    found: list[Operand] = []
    rows: dict[int, Sparse] = {}  # by the id of an argument, which may come several times
    for n, (obj, letters) in enumerate(zip(arguments, subscripts.inputs, strict=True)):
        others = subscripts.output + "".join(subscripts.inputs[:n] + subscripts.inputs[n + 1 :])
        if is_sparse(obj):
            operand = _sparse(obj, letters, others, subscripts, dtype)
            if operand.rows is not None:
                operand.shared = rows.setdefault(id(obj), operand).shared
            found.append(operand)
        else:
            found.append(_dense(np.asarray(obj), letters, others, subscripts, dtype))
    return found


def _dense(array: AnyArray, letters: str, others: str, subscripts: Subscripts, dtype: np.dtype[Any]) -> Dense:
    """Diagonals and sums by NumPy."""
    kept = "".join(
        index
        for index in dict.fromkeys(letters)
        if index in others and not _is_broadcast(index, letters, array.shape, subscripts)
    )
    names = dict(zip(dict.fromkeys(letters), string.ascii_letters, strict=False))
    plain = "".join(names[index] for index in letters) + "->" + "".join(names[index] for index in kept)
    return Dense(kept, np.ascontiguousarray(np.einsum(plain, array.astype(dtype, copy=False))))


def _is_broadcast(index: str, letters: str, shape: Sequence[int], subscripts: Subscripts) -> bool:
    extents = {extent for one, extent in zip(letters, shape, strict=True) if one == index}
    return extents == {1} and subscripts.extents[index] != 1


def _sparse(obj: Any, letters: str, others: str, subscripts: Subscripts, dtype: np.dtype[Any]) -> Sparse:
    is_plain = len(set(letters)) == 2 == len(letters) and set(letters) <= set(others) and 1 not in obj.shape
    if is_plain and _has_rows(obj):
        *rows, values = _plain_rows(obj)
        values = values.astype(dtype, copy=False)
        return Sparse(letters, None, values, obj.shape, sorted_by=letters, rows=(rows[0], rows[1]))
    if is_tensor(obj) and _is_whole(obj.shape, letters, others, subscripts):
        return Sparse.of_tensor(letters, OrderedEntries.of(obj._entries), obj.shape, dtype)
    coords, values = entries(obj)
    values = values.astype(dtype, copy=False)
    shape = obj.shape
    keep = np.ones(values.size, dtype=bool)
    first: dict[str, int] = {}
    for mode, index in enumerate(letters):
        if index in first and shape[mode] != 1 != shape[first[index]]:
            keep &= coords[mode] == coords[first[index]]
        elif index not in first or shape[first[index]] == 1:
            first[index] = mode
    if len(first) < len(letters) and not keep.all():
        coords, values = coords[:, keep], values[keep]
    kept = [
        (index, mode)
        for index, mode in first.items()
        if index in others and not _is_broadcast(index, letters, shape, subscripts)
    ]
    modes = [mode for _, mode in kept]
    indices = "".join(index for index, _ in kept)
    extents = tuple(shape[mode] for mode in modes)
    return distinct(indices, coords[modes], values, extents)


def _is_whole(shape: Sequence[int], letters: str, others: str, subscripts: Subscripts) -> bool:
    """Whether each mode of a tensor is one of the operand's: no diagonal, no sum, nothing that broadcasts."""
    return len(set(letters)) == len(letters) and all(
        index in others and not _is_broadcast(index, letters, shape, subscripts) for index in letters
    )


def _has_rows(obj: Any) -> bool:
    """Return whether `obj` is compressed by rows, or by columns with room for an array as long as its rows."""
    fmt = getattr(obj, "format", None)
    return fmt == "csr" or (fmt == "csc" and obj.shape[0] <= MAX_EMPTY_ROWS * obj.nnz + FEW_ROWS)


def _plain_rows(obj: Any) -> tuple[AnyArray, AnyArray, AnyArray]:
    """(indptr, indices, data) of a matrix by rows, sorted and distinct: made where they are not so."""
    rows = canonical(obj if obj.format == "csr" else obj.tocsr())
    nnz = int(arrays_of(rows)[0][-1])
    indptr, indices, data = arrays_of(rows)
    return indptr, indices[:nnz], data[:nnz]


def distinct(indices: str, coords: AnyArray, values: AnyArray, shape: tuple[int, ...]) -> Sparse:
    """Entries sorted, those at one place added up."""
    if not values.size:
        return Sparse(indices, coords, values, shape, sorted_by=indices)
    key = keys(coords, shape)
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    coords, values = coords[:, order], values[order]
    if starts.size < values.size:
        coords, values = coords[:, starts], added(values, starts)
    return Sparse(indices, np.ascontiguousarray(coords), values, shape, sorted_by=indices)
