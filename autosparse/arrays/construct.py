"""`csr` and `csc`: construct a self-tuning matrix from any object that holds a matrix."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, SupportsIndex

import numpy as np
import scipy.sparse as sps
from numpy.typing import DTypeLike

from autosparse.arrays import adoption
from autosparse.arrays.family import AutoSparseMatrix, csc_array, csc_matrix, csr_array, csr_matrix
from autosparse.config import get_options
from autosparse.errors import AutosparseError, DtypeError, InputError, InputTypeError, LayoutError, ShapeError
from autosparse.interop import foreign, neighbours
from autosparse.operands import ownership
from autosparse.operands.native_rows import check_structure
from autosparse.scalar import DOUBLE

_CLASSES: Final[Mapping[tuple[str, bool], type[AutoSparseMatrix]]] = {
    ("csr", True): csr_array,
    ("csr", False): csr_matrix,
    ("csc", True): csc_array,
    ("csc", False): csc_matrix,
}

# Class of the result for inputs that are compressed already.
_OVER: Final[Mapping[tuple[str, type], type[AutoSparseMatrix]]] = {
    **{(fmt, kind): kind for (fmt, _), kind in _CLASSES.items()},
    ("csr", sps.csr_array): csr_array,
    ("csr", sps.csr_matrix): csr_matrix,
    ("csc", sps.csc_array): csc_array,
    ("csc", sps.csc_matrix): csc_matrix,
}

_CONVERT: Final = f"convert the values first, for example obj.astype(np.{DOUBLE.name})"
# Beginning of SciPy's message -> what to do about it.
_HINTS: Final[Mapping[str, str]] = {
    "scipy.sparse does not support dtype": _CONVERT,
    "Output dtype not compatible": _CONVERT,  # SciPy 1.13
    "unsupported data types in input": _CONVERT,
    "unable to infer matrix dimensions": "pass shape=(n_rows, n_cols)",
    "indices and data should have the same size": "one index for each value",
    "data, indices, and indptr should be 1-D": "pass one-dimensional arrays",
    "index pointer size": "indptr needs one entry more than there are compressed rows, or pass another shape",
    "index pointer should start with 0": "indptr must start with 0",
    "Last value of index pointer": "indices and data need at least indptr[-1] entries",
    "'shape' must be": "shape=(n_rows, n_cols)",
    "invalid 'shape'": "shape=(n_rows, n_cols), both >= 0",
}
_ANY_INPUT: Final = (
    "pass a SciPy sparse array or matrix, a two-dimensional array, (data, indices, indptr), a torch sparse tensor or a "
    "path to a .mtx, .mtx.gz, .mtx.bz2, .tar.gz or .npz file, or an open one"
)


class HasShape(Protocol):
    """Protocol of SciPy's sparse objects, torch's tensors and arrays: objects with a shape."""

    @property
    def shape(self) -> Any:
        """Number of rows and of columns."""


Source = HasShape | Sequence[Any] | os.PathLike[str]
"""Object that a matrix is made from. A path given as a string is a Sequence, too."""
Shape = tuple[SupportsIndex, SupportsIndex]


def csr(
    obj: Source,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    copy: bool | None = None,
    *,
    frozen: bool = False,
    gradients: bool | None = None,
) -> csr_array | Any:  # csr_matrix for a SciPy sparse matrix
    """Return `obj` as compressed rows: `autosparse.csr_matrix` for a SciPy sparse matrix, else `autosparse.csr_array`.

    A torch tensor on a GPU becomes an `autosparse.cuda.matrix.CudaCsr`, which stays there. A tensor in CPU memory that
    requires gradients becomes an `autosparse.torch.Csr`, whose products keep them.

    Parameters
    ----------
    obj
        SciPy sparse array or matrix of any format, torch tensor (COO, CSR, CSC, BSR, dense; in CPU memory), dense array
        or list. Or ``(data, indices, indptr)`` with `shape` as argument or fourth, ``(data, (rows, columns))``,
        ``(n_rows, n_cols)`` for an empty one, or a path (.mtx, .mtx.gz, .npz). Unlike SciPy, indices given as arrays
        are checked to be within the shape.
    shape
        ``(n_rows, n_cols)``. None: the shape of `obj`, or for arrays of indices the smallest one that holds them.
    dtype
        Dtype of the values, which are converted. None: that of `obj`.
    copy
        None: the matrix owns its arrays. Arrays of the caller are copied once, arrays that a conversion makes are used
        directly, and later writes to `obj` have no effect. An autosparse matrix shares everything, plans included, as
        ``A.T`` does. Tensors on a GPU and memory that NumPy cannot write (read-only maps, `bytes`) are not copied.
        False: memory is shared where SciPy shares it, and the next product sees writes to it; a tuned product checks
        the arrays for writes. True: everything is copied. The setting `share` makes None mean False.
    frozen
        Declare that nobody writes to the arrays: products do not check them for writes, and the matrix exposes them
        read-only. For ``copy=False``. A later write leads to stale results.
    gradients
        For torch tensors in CPU memory. True: the result is an `autosparse.torch.Csr`, which multiplies torch tensors.
        False: the result multiplies arrays, and gradients are dropped. None: True if the tensor requires gradients.

    Raises
    ------
    InputError (ValueError), InputTypeError (TypeError), StructureError, InputFileError (ValueError), OSError, or
    RoomError (MemoryError) where the copy does not fit, before anything is allocated.

    >>> m = sps.csr_array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    >>> A = asp.csr(m)
    >>> m.data[:] = 0.0
    >>> A @ np.array([1.0, 1.0, 1.0])
    array([3., 3.])
    """
    if (
        foreign.is_tensor(obj)
        and (made := _with_gradients(obj, shape, dtype, gradients, is_copy=bool(copy))) is not None
    ):
        return made
    return _construct("csr", obj, shape, dtype, copy=copy, frozen=frozen)


def csc(
    obj: Source,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    copy: bool | None = None,
    *,
    frozen: bool = False,
    gradients: bool | None = None,
) -> csc_array | Any:  # csc_matrix for a SciPy sparse matrix
    """Return `obj` as compressed columns, an `autosparse.csc_array` (for a SciPy sparse matrix, a `csc_matrix`).

    `obj`, `shape`, `dtype`, `copy`, `frozen` and `gradients` have the meaning that they have for `csr`, and the same
    errors are raised. The arrays of a triple are (data, indices, indptr) of the columns.

    >>> asp.csc([[0.0, 2.0], [1.0, 0.0]]).indices
    array([1, 0], dtype=int32)
    """
    if (
        foreign.is_tensor(obj)
        and (made := _with_gradients(obj, shape, dtype, gradients, is_copy=bool(copy))) is not None
    ):
        return made
    return _construct("csc", obj, shape, dtype, copy=copy, frozen=frozen)


def _with_gradients(obj: Any, shape: Any, dtype: Any, wanted: bool | None, *, is_copy: bool) -> Any:
    """Return the matrix whose products keep gradients of the tensor `obj`; None for other objects."""
    if not foreign.is_tensor(obj):
        return None
    from autosparse.arrays import tensors  # for torch's users only

    keeps = tensors.keeps_gradients(obj, wanted)
    return tensors.with_gradients(obj, shape, dtype, is_copy=is_copy) if keeps else None


def wrapped(m: Any) -> Any:  # Any: a sparse matrix, or another object that `csr` takes
    """Wrap `m` for one call: csc for a csc matrix, else csr, sharing the arrays that SciPy would share."""
    return (csc if sps.issparse(m) and m.format == "csc" else csr)(m, copy=False)


def _construct(fmt: str, obj: Any, shape: Any, dtype: Any, *, copy: bool | None, frozen: bool) -> Any:  # Any: of SciPy
    neighbours.greet()
    if copy is not False and (copy is not None or get_options().share):
        copy = bool(copy)
    A: Any = None
    if shape is None and dtype is None and (kept := _OVER.get((fmt, type(obj)))) is not None:
        A = (obj.copy() if copy else obj._same()) if kept is type(obj) else kept._over(obj, copy)
    elif type(obj) is tuple and len(obj) == 3:
        A = _of_arrays(fmt, obj, shape, dtype, copy)
    if A is None:
        A = _converted(fmt, obj, shape, dtype, copy)
    if frozen and isinstance(A, AutoSparseMatrix):
        A._freeze()
    return A


def _of_arrays(fmt: str, obj: Any, shape: Any, dtype: Any, copy: bool | None) -> Any:
    """Return the matrix over (data, indices, indptr) that SciPy would accept unchanged; None for other arguments."""
    made: Any = object.__new__(_CLASSES[fmt, True])
    if not made._adopt(*adoption.arrays_of(made, obj, shape, dtype), copy):
        return None
    _check_indices(made)
    return made


def _check_indices(A: Any) -> None:
    """Raise StructureError unless all indices, which were given as an array, are within the shape."""
    cell = A._cell
    if not cell._checked:
        check_structure(cell.peek(0), cell.peek(1), A._swap(A._shape_as_2d))
        cell._checked = cell.copied_bytes is not None  # the caller may write shared arrays before the first product


def _converted(fmt: str, obj: Any, shape: Any, dtype: Any, copy: bool | None) -> Any:
    """Return the matrix that SciPy's constructor makes of `obj`, in the class of format `fmt`."""
    if fmt == "csr" and foreign.is_on_gpu(obj) and shape is None and dtype is None and not copy:
        from autosparse.cuda import matrix  # imports torch, which the owner of such a tensor has

        return matrix.csr(obj)
    obj, given, tensor = _for_scipy(obj)
    if isinstance(obj, tuple) and len(obj) == 4:
        shape = obj[3] if shape is None else shape
        obj = obj[:3]
    is_array = not (sps.issparse(obj) and not isinstance(obj, sps.sparray))
    try:
        A = _CLASSES[fmt, is_array](obj, shape=shape, dtype=dtype)
    except AutosparseError:
        raise
    except (ValueError, TypeError) as err:
        kind = InputTypeError if isinstance(err, TypeError) else InputError
        raise kind.refused(_first_line(err), given=describe(obj, shape, dtype), hint=_hint(str(err))) from err
    if copy is not False:
        ownership.take_over(A._cell, given, everything=copy is True)
        if tensor is not None:
            from autosparse.arrays import tensors

            A._cell = tensors.Snapshot.of(A._cell, tensor)
    if isinstance(obj, tuple) and len(obj) == 3:
        _check_indices(A)
    return A


def _for_scipy(obj: Any) -> tuple[Any, ownership.Given, Any]:
    """Return the argument for SciPy's constructor, the caller's arrays in it, and the tensor that holds them."""
    if foreign.is_file(obj):
        return foreign.from_file(obj), ownership.Given(None), None
    if foreign.is_tensor(obj):
        from autosparse.arrays import tensors

        made = tensors.from_tensor(obj)
        return made, ownership.Given(made), obj
    try:
        made = obj if sps.issparse(obj) else foreign.as_scipys(obj)
        return made, ownership.Given(made), None
    except ValueError as err:
        raise InputError.refused(_first_line(err), given=describe(obj), hint="subtract the fill value") from err


def _first_line(err: Exception) -> str:
    return (str(err).split("\n", 1)[0] or type(err).__name__)[:400]


def _hint(message: str) -> str:
    return next((hint for start, hint in _HINTS.items() if message.startswith(start)), _ANY_INPUT)


def check_out(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], *, hint: str) -> None:
    """Raise InputTypeError, ShapeError, DtypeError or LayoutError unless `out` is an array for `shape` and `dtype`.

    `hint` is the text of the error's hint.
    """
    if not isinstance(out, np.ndarray):
        raise InputTypeError.refused("return arrays must be of ArrayType", given=describe(out), hint=hint)
    if out.shape != shape:
        raise ShapeError.out(wanted=shape, got=out.shape)
    if out.dtype != dtype:
        raise DtypeError.out(wanted=dtype, got=out.dtype)
    if not out.flags.writeable:
        raise LayoutError.out_readonly()


def describe(obj: Any, shape: Any = None, dtype: Any = None) -> str:
    """Return a phrase for error messages: type, shape and dtype of `obj` or its items, and the given arguments."""
    wanted = "".join(f", {name}={value!r}" for name, value in (("shape", shape), ("dtype", dtype)) if value is not None)
    is_parts = isinstance(obj, tuple | list) and len(obj) <= 3
    if is_parts and any(hasattr(part, "dtype") or isinstance(part, tuple | list) for part in obj):
        return f"a {type(obj).__name__} of {', '.join(map(_describe_one, obj))}{wanted}"
    return f"{_describe_one(obj)}{wanted}"


def _describe_one(obj: Any) -> str:
    facts = [f"{name} {getattr(obj, name)}" for name in ("shape", "dtype") if hasattr(obj, name)]
    return f"{type(obj).__name__} with {' and '.join(facts)}" if facts else f"{type(obj).__name__} {obj!r:.60}"
