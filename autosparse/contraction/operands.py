"""Operands of an einsum in canonical form: sparse by sorted coordinates, dense as arrays, no repeated index."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from autosparse.contraction.expressions.semirings import PLUS_TIMES, SEMIRINGS, Semiring, added_along, added_runs, named
from autosparse.contraction.kinds import AnyArray, arrays_of, canonical, entries, is_sparse, is_tensor
from autosparse.contraction.lower.ordered_entries import OrderedEntries, keys
from autosparse.contraction.subscripts import Subscripts
from autosparse.core.dtypes import WideIndex

FEW_ROWS: Final = 1 << 20
"""Number of rows or columns up to which arrays with one element per row or column are always allocated."""
MAX_EMPTY_ROWS: Final = 8
"""Ratio of rows (or columns) to entries up to which such arrays are allocated above `FEW_ROWS`, to bound memory by nnz.
"""


class Sparse:
    """Sparse operand: ``values[e]`` at ``coords[:, e]`` with distinct entries; `indices` has one letter per mode.

    A matrix may be given by `rows` instead, its (indptr, indices) sorted within each row. A tensor may be given by its
    kept `OrderedEntries`. Coordinates and values are then computed on first use.
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
        self.nnz = int(values.size)  # number of stored entries
        self.sorted_by = sorted_by  # order of modes by which entries are sorted, or None
        self.tensor: OrderedEntries | None = None
        self.stored: dict[tuple[object, ...], Any] = {}  # copies in other orders, made by `lower.levels`
        self.shared: dict[tuple[object, ...], Any] = {}  # the same copies by modes, shared by all reads of one matrix

    @classmethod
    def of_tensor(cls, indices: str, tensor: OrderedEntries, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Sparse:
        """Create an operand from the kept entries of a tensor, sorted by its modes and read on first use."""
        made = cls(indices, None, np.empty(0, dtype), shape, sorted_by=indices)
        made._values, made.nnz, made.tensor = None, tensor.nnz, tensor
        return made

    @property
    def coords(self) -> AnyArray:
        """Coordinates of the entries, an array of shape (modes, entries)."""
        if self._coords is None and self.tensor is not None:
            self._coords = self.tensor.coords
        if self._coords is None:
            assert self.rows is not None
            indptr, indices = self.rows
            major = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
            self._coords = np.stack([major, indices.astype(WideIndex, copy=False)])
        return self._coords

    @property
    def values(self) -> AnyArray:
        """Values of the entries, an array of shape (entries,)."""
        if self._values is None:
            assert self.tensor is not None
            self._values = self.tensor.values(self.dtype)
        return self._values


@dataclass(eq=False)
class Dense:
    """Dense operand: an ndarray with one index letter per axis."""

    indices: str
    array: AnyArray


Operand: TypeAlias = "Sparse | Dense"


def prepare(arguments: Sequence[Any], subscripts: Subscripts, dtype: np.dtype[Any]) -> list[Operand]:
    """Convert arguments to operands of `dtype` in which every index occurs once.

    Diagonals are extracted, modes of extent 1 that broadcast are dropped, and indices of only one operand are summed.
    """
    found: list[Operand] = []
    rows: dict[int, Sparse] = {}  # by the id of an argument, which may occur several times
    for n, (obj, letters) in enumerate(zip(arguments, subscripts.inputs, strict=True)):
        others = subscripts.output + "".join(subscripts.inputs[:n] + subscripts.inputs[n + 1 :])
        if is_sparse(obj):
            operand = _sparse(obj, letters, others, subscripts, dtype)
            if operand.rows is not None:
                operand.shared = rows.setdefault(id(obj), operand).shared
            found.append(operand)
        else:
            found.append(_dense(np.asarray(obj), letters, others, subscripts, dtype))
    semiring = named(subscripts.semiring)
    for one in () if semiring.has_negatives else found:
        semiring.check(one.values if isinstance(one, Sparse) else one.array)
    return found


def _dense(array: AnyArray, letters: str, others: str, subscripts: Subscripts, dtype: np.dtype[Any]) -> Dense:
    """Convert a dense argument: extract its diagonals and add up over the indices that are not in `others`."""
    kept = "".join(
        index
        for index in dict.fromkeys(letters)
        if index in others and not _is_broadcast(index, letters, array.shape, subscripts)
    )
    names = dict(zip(dict.fromkeys(letters), string.ascii_letters, strict=False))
    array = array.astype(dtype, copy=False)
    semiring = named(subscripts.semiring)
    if not semiring.is_ordinary:
        whole = "".join(names[index] for index in letters) + "->" + "".join(names.values())
        summed = tuple(axis for axis, index in enumerate(names) if index not in kept)
        return Dense(kept, np.ascontiguousarray(added_along(np.einsum(whole, array), summed, semiring)))
    plain = "".join(names[index] for index in letters) + "->" + "".join(names[index] for index in kept)
    return Dense(kept, np.ascontiguousarray(np.einsum(plain, array)))


def _is_broadcast(index: str, letters: str, shape: Sequence[int], subscripts: Subscripts) -> bool:
    extents = {extent for one, extent in zip(letters, shape, strict=True) if one == index}
    return extents == {1} and subscripts.extents[index] != 1


def _sparse(obj: Any, letters: str, others: str, subscripts: Subscripts, dtype: np.dtype[Any]) -> Sparse:
    is_plain = len(set(letters)) == 2 == len(letters) and set(letters) <= set(others) and 1 not in obj.shape
    if is_plain and _has_rows(obj):
        *rows, values = _plain_rows(obj)
        values = values.astype(dtype, copy=False)
        return Sparse(letters, None, values, obj.shape, sorted_by=letters, rows=(rows[0], rows[1]))
    if is_tensor(obj) and subscripts.semiring != "or_and" and _is_whole(obj.shape, letters, others, subscripts):
        return Sparse.of_tensor(letters, OrderedEntries.of(obj._entries), obj.shape, dtype)
    coords, values = entries(obj)
    shape = obj.shape
    semiring = named(subscripts.semiring)
    if not semiring.is_ordinary:  # an entry's value is the sum of its duplicates, as in SciPy
        whole = distinct(letters, coords, values, shape)
        coords, values = whole.coords, whole.values
    values = values.astype(dtype, copy=False)
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
    return distinct(indices, coords[modes], values, extents, semiring)


def _is_whole(shape: Sequence[int], letters: str, others: str, subscripts: Subscripts) -> bool:
    """Return whether each mode of a tensor becomes one mode of the operand: no diagonal, no sum, no broadcast mode.

    `others` are the indices of the output and of all other operands.
    """
    return len(set(letters)) == len(letters) and all(
        index in others and not _is_broadcast(index, letters, shape, subscripts) for index in letters
    )


def _has_rows(obj: Any) -> bool:
    """Return whether `obj` is CSR, or CSC with few enough rows for an array with one element per row."""
    fmt = getattr(obj, "format", None)
    return fmt == "csr" or (fmt == "csc" and obj.shape[0] <= MAX_EMPTY_ROWS * obj.nnz + FEW_ROWS)


def _plain_rows(obj: Any) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return (indptr, indices, data) by rows, sorted and without duplicates; converted if `obj` is stored otherwise."""
    rows = canonical(obj if obj.format == "csr" else obj.tocsr())
    nnz = int(arrays_of(rows)[0][-1])
    indptr, indices, data = arrays_of(rows)
    return indptr, indices[:nnz], data[:nnz]


def distinct(
    indices: str, coords: AnyArray, values: AnyArray, shape: tuple[int, ...], semiring: Semiring = SEMIRINGS[PLUS_TIMES]
) -> Sparse:
    """Create an operand with sorted entries, adding up those at the same coordinates."""
    if not values.size:
        return Sparse(indices, coords, values, shape, sorted_by=indices)
    if not shape:
        total = added_runs(values, np.zeros(1, WideIndex), semiring)
        return Sparse(indices, coords[:, :1], total, shape, sorted_by=indices)
    key = keys(coords, shape)
    if not (key[1:] >= key[:-1]).all():
        if semiring.is_ordinary and values.dtype.char in "fd" and math.prod(map(float, shape)) <= values.size:
            return _counted(indices, key, values, shape)
        order = np.argsort(key, kind="stable")
        key, coords, values = key[order], coords[:, order], values[order]
    starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    if starts.size < values.size:
        coords, values = coords[:, starts], added_runs(values, starts, semiring)
    return Sparse(indices, np.ascontiguousarray(coords), values, shape, sorted_by=indices)


def _counted(indices: str, key: AnyArray, values: AnyArray, shape: tuple[int, ...]) -> Sparse:
    """Return the sums of real values at each row-major number, without sorting."""
    at = np.flatnonzero(np.bincount(key))
    sums = np.bincount(key, values)[at].astype(values.dtype, copy=False)
    return Sparse(indices, np.stack(np.unravel_index(at, shape)), sums, shape, sorted_by=indices)
