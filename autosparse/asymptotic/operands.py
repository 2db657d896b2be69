"""Operands of an einsum: sparse ones by sorted distinct coordinates, dense ones as arrays; an index occurs once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray

from autosparse.arrays.sparse_tensor import AutoSparseTensor, tensor
from autosparse.asymptotic.lower.ordered_entries import OrderedEntries, added, keys
from autosparse.asymptotic.subscripts import Subscripts
from autosparse.errors import InputTypeError

AnyArray: TypeAlias = NDArray[Any]  # any dtype that NumPy multiplies


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


class Kind(NamedTuple):
    """What of an operand decides how an einsum is computed, its entries apart."""

    cls: type
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, obj: Any) -> Kind:
        """Of a sparse object or an array."""
        return cls(type(obj), tuple(obj.shape), obj.dtype)

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor of ours."""
        return issubclass(self.cls, AutoSparseTensor)

    @property
    def is_sparse(self) -> bool:
        """Whether it has a sparsity pattern."""
        return self.is_tensor or issubclass(self.cls, (sps.sparray, sps.spmatrix))


def is_sparse(obj: object) -> bool:
    """Whether `obj` is an operand with a sparsity pattern."""
    return sps.issparse(obj) or isinstance(obj, AutoSparseTensor)


def is_of_torch(obj: object) -> bool:
    """Whether `obj` is a tensor of torch, which nobody has imported if it is not."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, torch.Tensor)


def shape_of(obj: Any) -> tuple[int, ...]:
    """Shape of an operand, which may be a number."""
    return tuple(obj.shape) if hasattr(obj, "shape") else np.shape(obj)


def as_array(obj: Any) -> Any:
    """`obj`, or an ndarray of it; InputTypeError where that has no numbers."""
    if is_sparse(obj):
        return without_room(obj)
    array = np.asarray(obj)
    if array.dtype.kind not in "biufcO":
        raise InputTypeError.refused(
            "einsum: an operand holds no numbers", given=f"dtype {array.dtype}", cure="arrays of numbers"
        )
    return array


def without_room(obj: Any) -> Any:
    """`obj` without what lies behind its last entry, which SciPy's conversions would take for entries."""
    if getattr(obj, "format", None) not in ("csr", "csc") or len(obj.indices) == obj.indptr[-1]:
        return obj
    nnz = int(obj.indptr[-1])
    kind = sps.csr_array if obj.format == "csr" else sps.csc_array
    return kind((obj.data[:nnz], obj.indices[:nnz], obj.indptr), shape=obj.shape)


def cast(obj: Any, dtype: np.dtype[Any], casting: Any) -> Any:
    """An operand with values of `dtype`; InputTypeError where the rule `casting` does not allow it."""
    array = as_array(obj)
    if not np.can_cast(array.dtype, dtype, casting):
        raise InputTypeError.refused(
            f"einsum: an operand could not be cast from {array.dtype} to {dtype} according to the rule {casting!r}",
            given=f"an operand of dtype {array.dtype}, and dtype={str(dtype)!r}",
            cure="casting='same_kind' or 'unsafe', or another dtype",
        )
    if isinstance(array, AutoSparseTensor):
        return tensor(array.coords, array.values.astype(dtype), array.shape, copy=False)
    if dtype == np.float16 and sps.issparse(array) and array.dtype != dtype:  # SciPy has no such matrix
        coo = array.tocoo()
        return tensor(np.stack(coo.coords), coo.data.astype(dtype), coo.shape, copy=False)
    return array.astype(dtype, copy=False)


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
    names = {index: chr(ord("a") + n) for n, index in enumerate(dict.fromkeys(letters))}
    plain = "".join(names[index] for index in letters) + "->" + "".join(names[index] for index in kept)
    return Dense(kept, np.ascontiguousarray(np.einsum(plain, array.astype(dtype, copy=False))))


def _is_broadcast(index: str, letters: str, shape: Sequence[int], subscripts: Subscripts) -> bool:
    extents = {extent for one, extent in zip(letters, shape, strict=True) if one == index}
    return extents == {1} and subscripts.extents[index] != 1


def _sparse(obj: Any, letters: str, others: str, subscripts: Subscripts, dtype: np.dtype[Any]) -> Sparse:
    if len(set(letters)) == 2 == len(letters) and set(letters) <= set(others) and 1 not in obj.shape:
        plain = _plain_rows(obj)
        if plain is not None:
            return Sparse(
                letters, None, plain[2].astype(dtype, copy=False), obj.shape, sorted_by=letters, rows=plain[:2]
            )
    if isinstance(obj, AutoSparseTensor) and _is_whole(obj.shape, letters, others, subscripts):
        return Sparse.of_tensor(letters, OrderedEntries.of(obj._entries), obj.shape, dtype)
    coords, values = _entries(obj)
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


def _plain_rows(obj: Any) -> tuple[AnyArray, AnyArray, AnyArray] | None:
    """(indptr, indices, data) of a csr matrix with sorted distinct entries; None for others."""
    if isinstance(obj, AutoSparseTensor) or obj.format != "csr" or not obj.has_canonical_format:
        return None
    nnz = int(obj.indptr[-1])
    return obj.indptr, obj.indices[:nnz], obj.data[:nnz]


def _entries(obj: Any) -> tuple[AnyArray, AnyArray]:
    """Coordinates and values."""
    if isinstance(obj, AutoSparseTensor):
        return np.asarray(obj.coords, dtype=np.int64), np.asarray(obj.values)
    coo = obj.tocoo()
    coords = getattr(coo, "coords", None) or (coo.row, coo.col)
    return np.stack([np.asarray(row, dtype=np.int64) for row in coords]), np.asarray(coo.data)


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
