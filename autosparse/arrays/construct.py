"""Construction of matrices by `csr` and `csc`, from any object that holds one, once the library is loaded."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import scipy.sparse as sps

from autosparse.arrays.family import AutoSparseMatrix, csc_array, csc_matrix, csr_array, csr_matrix, greet
from autosparse.config import get_options
from autosparse.errors import AutosparseError, DtypeError, InputError, InputTypeError, LayoutError, ShapeError
from autosparse.light.adoption import arrays_of
from autosparse.light.construct import csc, csr, use, wrapped
from autosparse.operands import ownership
from autosparse.operands.native_rows import check_structure
from autosparse.scalar import DOUBLE

__all__ = ["csc", "csr", "wrapped"]

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
    "indices and data should have the same size": "pass one index for each value",
    "data, indices, and indptr should be 1-D": "pass one-dimensional arrays",
    "index pointer size": "pass an indptr with one entry more than there are compressed rows, or another shape",
    "index pointer should start with 0": "pass an indptr whose values start with 0",
    "Last value of index pointer": "pass indices and data with at least indptr[-1] entries",
    **dict.fromkeys(("'shape'", "shape must", "invalid 'shape'", "mismatching"), "pass shape=(n, m), both >= 0"),
    "data type": f"pass a dtype of numbers, for example dtype=np.{DOUBLE.name}",
    **dict.fromkeys(("axis", "row index", "column index", "negative"), "pass a larger shape=, or count indices from 0"),
    "all index and data arrays": "pass one row index and one column index for each value",
}
_ANY_INPUT: Final = (
    "pass a SciPy sparse array or matrix, a two-dimensional array, (data, indices, indptr), a torch sparse tensor or a "
    "path to a .mtx, .mtx.gz, .mtx.bz2, .tar.gz or .npz file, or an open one"
)


@functools.cache
def _foreign() -> Any:
    """Return the module of objects of other libraries, which SciPy's compressed matrices do not need."""
    from autosparse.interop import foreign

    return foreign


def _with_gradients(obj: Any, shape: Any, dtype: Any, wanted: bool | None, *, is_copy: bool) -> Any:
    """Return the matrix whose products keep gradients of the tensor `obj`; None for other objects."""
    if not _foreign().is_tensor(obj):
        return None
    from autosparse.arrays import tensors  # for torch's users only

    keeps = tensors.keeps_gradients(obj, wanted)
    return tensors.with_gradients(obj, shape, dtype, is_copy=is_copy) if keeps else None


def _construct(
    fmt: str, obj: Any, shape: Any, dtype: Any, *, copy: bool | None, frozen: bool, gradients: bool | None
) -> Any:  # Any: of SciPy
    """Return `obj` in the class of format `fmt`; see `csr`."""
    kept = _OVER.get((fmt, type(obj))) if shape is None and dtype is None else None
    if kept is None and (made := _with_gradients(obj, shape, dtype, gradients, is_copy=bool(copy))) is not None:
        return made
    greet()
    if copy is not False and (copy is not None or get_options().share):
        copy = bool(copy)
    A: Any = None
    if kept is not None:
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
    if not made._adopt(*arrays_of(made, obj, shape, dtype), copy):
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
    if fmt == "csr" and _foreign().is_on_gpu(obj) and shape is None and dtype is None and not copy:
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
    foreign = _foreign()
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


use(_construct)
