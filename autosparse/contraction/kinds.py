"""Classify the arguments of an einsum and check their structure before any entry is read.

The module imports little, because expressions that an existing product computes need nothing else on the first call.
"""

# No `from __future__ import annotations`: a NamedTuple would then compile each annotation string at import.

import sys
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray
from scipy.sparse import _sparsetools

from autosparse.core.dtypes import Half, WideIndex
from autosparse.errors import InputTypeError, StructureError
from autosparse.operands.csr import DATA, INDICES, INDPTR
from autosparse.operands.native_rows import check_bounds, check_structure
from autosparse.scalar import INDEX_CODES, INDEX_TEXT

AnyArray: TypeAlias = NDArray[Any]  # any dtype that NumPy multiplies


class OperandKind(NamedTuple):
    """Class, shape and dtype of an operand, and whether it is sparse; equal kinds are computed alike by an einsum."""

    cls: type
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_tensor: bool
    is_sparse: bool

    @classmethod
    def of(cls, obj: Any) -> "OperandKind":
        """Create the kind of a sparse object or an array."""
        return cls(type(obj), tuple(obj.shape), obj.dtype, is_tensor(obj), is_sparse(obj))


def is_tensor(obj: object) -> bool:
    """Return whether `obj` is a sparse tensor of this library, without importing the module of its class."""
    return isinstance(obj, _class_of("autosparse.arrays.sparse_tensor", "AutoSparseTensor"))


def is_sparse(obj: object) -> bool:
    """Return whether `obj` is an operand with a sparsity pattern."""
    return sps.issparse(obj) or is_tensor(obj)


def is_of_torch(obj: object) -> bool:
    """Return whether `obj` is a torch tensor."""
    return isinstance(obj, _class_of("torch", "Tensor"))


def is_of_dask(obj: object) -> bool:
    """Return whether `obj` is a Dask array."""
    return isinstance(obj, _class_of("dask.array", "Array"))


def _class_of(module: str, name: str) -> Any:
    """Return a class, or an empty tuple while its module is not imported or another thread is importing it."""
    return getattr(sys.modules.get(module), name, ())


def shape_of(obj: Any) -> tuple[int, ...]:
    """Return the shape of an operand, which may be a scalar."""
    return tuple(obj.shape) if hasattr(obj, "shape") else np.shape(obj)


def as_array(obj: Any) -> Any:
    """Return a sparse `obj` after checking its structure, else an ndarray; raise InputTypeError if not numeric."""
    if is_sparse(obj):
        return sound(obj)
    if is_of_dask(obj):  # its blocks may be sparse, which np.asarray does not join
        return as_array(obj.compute())
    array = np.asarray(obj)
    if array.dtype.kind not in "biufcO":
        raise InputTypeError.refused(
            "einsum: an operand holds no numbers", given=f"dtype {array.dtype}", hint="pass arrays of numbers"
        )
    return array


def sound(obj: Any) -> Any:
    """Return a sparse operand whose coordinates all lie within its shape; raise StructureError otherwise.

    Formats other than CSR, CSC and COO are converted to COO. Cached SciPy flags for sorted or distinct entries are
    ignored, because the arrays may have been written since.
    """
    if is_tensor(obj):  # coordinates of a tensor are private and were checked at construction
        return obj
    if obj.format in ("csr", "csc"):
        return _without_room(_sound_rows(obj))
    if obj.format == "bsr":
        return _sound_blocks(obj).tocoo()
    coo = obj if obj.format == "coo" else obj.tocoo()
    check_coordinates(coordinates(coo), coo.data, coo.shape)
    return coo


def _sound_rows(obj: Any) -> Any:
    """Return CSR or CSC with coordinates within bounds and index arrays of a type that compiled functions accept."""
    cell = getattr(obj, "_cell", None) if hasattr(type(obj), "_cell") else None
    if cell is not None and (cell.rows or cell.validate()).dtype is not None:
        return obj
    indptr, indices, data = arrays_of(obj)
    if indptr.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
        raise InputTypeError.refused(
            "einsum: index arrays must hold integers",
            given=f"{indptr.dtype} and {indices.dtype}",
            hint=f"convert them to {INDEX_TEXT}",
        )
    check_bounds(indptr, indices, data, rows_shape(obj), checked=False)
    if indptr.dtype == indices.dtype and indptr.dtype.name in INDEX_CODES and indices.dtype.isnative:
        return obj
    made = (data, indices.astype(WideIndex), indptr.astype(WideIndex))
    return (sps.csr_array if obj.format == "csr" else sps.csc_array)(made, shape=obj.shape)


def arrays_of(obj: Any) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return (indptr, indices, data) of a CSR or CSC object, to be read within one call only."""
    cell = getattr(obj, "_cell", None) if hasattr(type(obj), "_cell") else None
    if cell is not None:  # the attributes would mark the arrays as exported, to be checked for writes
        indptr, indices, data = (cell.peek(field) for field in (INDPTR, INDICES, DATA))
    else:
        indptr, indices, data = obj.indptr, obj.indices, obj.data
    return np.asarray(indptr), np.asarray(indices), np.asarray(data)


def rows_shape(obj: Any) -> tuple[int, int]:
    """Return (number of compressed rows or columns, other extent); a one-dimensional array counts as one row."""
    if len(obj.shape) == 1:
        return 1, obj.shape[0]
    n_rows, n_cols = obj.shape
    return (n_rows, n_cols) if obj.format == "csr" else (n_cols, n_rows)


def _without_room(obj: Any) -> Any:
    """Return `obj` without unused space behind its last entry, which SciPy's conversions would treat as entries."""
    indptr, indices, data = arrays_of(obj)
    nnz = int(indptr[-1])
    if indices.size == nnz == data.size:
        return obj
    kind = sps.csr_array if obj.format == "csr" else sps.csc_array
    return kind((data[:nnz], indices[:nnz], indptr), shape=obj.shape)


def _sound_blocks(obj: Any) -> Any:
    """Return a BSR matrix without blocks behind the last one; raise StructureError if a block is out of bounds."""
    r, c = obj.blocksize
    indptr, indices, data = (np.asarray(one) for one in (obj.indptr, obj.indices, obj.data))
    check_structure(indptr, indices, (obj.shape[0] // r, obj.shape[1] // c))
    if data.ndim != 3 or data.shape[0] < indptr[-1]:
        raise StructureError.too_short(int(indptr[-1]), n_indices=indices.size, n_data=data.shape[0])
    n_blocks = int(indptr[-1])
    if indices.size == n_blocks == data.shape[0]:
        return obj
    return sps.bsr_array((data[:n_blocks], indices[:n_blocks], indptr), shape=obj.shape)


def coordinates(coo: Any) -> tuple[AnyArray, ...]:
    """Return the coordinates of a COO matrix or array, one array per dimension."""
    return tuple(np.asarray(row) for row in getattr(coo, "coords", None) or (coo.row, coo.col))


def check_coordinates(coords: tuple[AnyArray, ...], values: AnyArray, shape: tuple[int, ...]) -> None:
    """Raise StructureError unless there is one coordinate per value and dimension, each within the shape."""
    if len(coords) != len(shape):
        raise StructureError.unsound(
            f"it has coordinates for {len(coords)} dimensions and {len(shape)} dimensions",
            shape=(*shape, 1, 1), n_stored=int(values.size),
        )  # fmt: skip
    for row, extent in zip(coords, shape, strict=True):
        if row.dtype.kind not in "iu":
            raise InputTypeError.refused(
                "einsum: coordinates must be integers", given=f"dtype {row.dtype}", hint=f"convert them to {INDEX_TEXT}"
            )
        if row.shape != values.shape:
            raise StructureError.too_short(row.size, n_indices=row.size, n_data=values.size)
        if row.size and row.max() >= extent:
            raise StructureError.index_too_large(int(row.max()), extent=extent)
        if row.size and row.min() < 0:
            raise StructureError.index_negative(int(row.min()))


def canonical(obj: Any) -> Any:
    """Return CSR with sorted, distinct entries: `obj` itself if a check of its arrays confirms that, else a copy."""
    indptr, indices, data = arrays_of(obj)
    if _sparsetools.csr_has_canonical_format(rows_shape(obj)[0], indptr, indices):
        return obj
    made = sps.csr_array((data.copy(), indices.copy(), indptr.copy()), shape=obj.shape)
    made.sum_duplicates()
    return made


def cast(obj: Any, dtype: np.dtype[Any], casting: Any) -> Any:
    """Return an operand converted to `dtype`; raise InputTypeError if the rule `casting` forbids the conversion."""
    array = as_array(obj)
    if not np.can_cast(array.dtype, dtype, casting):
        raise InputTypeError.refused(
            f"einsum: an operand could not be cast from {array.dtype} to {dtype} according to the rule {casting!r}",
            given=f"an operand of dtype {array.dtype}, and dtype={str(dtype)!r}",
            hint="pass casting='same_kind' or 'unsafe', or another dtype",
        )
    is_half = dtype == Half and array.dtype != dtype and sps.issparse(array)  # unknown to SciPy's matrices
    if is_half or is_tensor(array):
        from autosparse.arrays.sparse_tensor import tensor  # slow to import

        coords, values = entries(array)
        return tensor(coords, values.astype(dtype), array.shape, copy=False)
    return array.astype(dtype, copy=False)


def entries(obj: Any) -> tuple[AnyArray, AnyArray]:
    """Return coordinates, an int64 array of shape (modes, entries), and values."""
    if is_tensor(obj):
        return np.asarray(obj.coords, dtype=WideIndex), np.asarray(obj.values)
    coo = obj.tocoo()
    return np.stack([row.astype(WideIndex, copy=False) for row in coordinates(coo)]), np.asarray(coo.data)
