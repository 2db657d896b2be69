"""Functions for light matrices that most programs do not call, so that they import less.

They read constructors' arguments other than compressed rows, and are behind copies, states, `resize`, `argmax`, and
texts of errors. `has_plan` looks up plans that earlier processes left.
"""

from __future__ import annotations

import copy as copying
import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray
from scipy.sparse import _sparsetools as loops

from autosparse import configured, light
from autosparse.light import adoption, matrices
from autosparse.light.adoption import attributes
from autosparse.light.matrices import FIELDS, completed

_DEFAULTS: Final = (None, None, None, None, False)
"""Options of accounts where no option is set: isa, storage, hybrid, compiler and vendor."""


def _of_light(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator of functions for light matrices; for others they call the complete method `name`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(A: Any, *args: Any) -> Any:
            is_light = A._light is not None and light.may_be_light()
            return function(A, *args) if is_light else completed(A, name)(*args)

        return call

    return decorate


@_of_light("__copy__")
def copy(A: Any) -> Any:
    """Return another matrix over the arrays of A."""
    copied: Any = object.__new__(type(A))
    setstate(copied, A.__getstate__())
    return copied


@_of_light("__deepcopy__")
def deepcopy(A: Any, memo: dict[int, Any]) -> Any:
    """Return another matrix over copies of the arrays of A."""
    memo[id(A)] = copied = object.__new__(type(A))
    state = {**attributes(A), **dict(zip(FIELDS, A._light.arrays, strict=True))}
    setstate(copied, copying.deepcopy(state, memo))
    if (rows := light.rows_of(copied)) is not None:
        rows.copied_bytes = sum(array.nbytes for array in rows.arrays)
    return copied


def setstate(A: Any, state: Any) -> None:
    """Set A to a state that `__getstate__` returned."""
    is_plain = light.may_be_light() and type(state) is dict and state.keys() >= {"_shape", *FIELDS}
    found = (state["_shape"], *map(state.get, FIELDS)) if is_plain else light.NOTHING
    rows = adoption.adopt(A, found, copy=False)
    if rows is None:
        completed(A, "__setstate__")(state)
        return
    rows.is_exported = True  # the arrays may lie in buffers of the program
    for name in state.keys() - set(FIELDS):
        setattr(A, name, state[name])


def attributes_of(A: Any) -> Any:
    """Return the attributes that SciPy stores, the arrays included, of A, which becomes complete."""
    completed(A, "__getstate__")
    from autosparse.arrays.plain import LiveAttributes

    return LiveAttributes(A)


def set_attributes(A: Any, state: Any) -> None:
    """Set the attributes that SciPy stores, the arrays included, of A, which becomes complete."""
    completed(A, "__getstate__")
    A.__setstate__(state)


def explained(A: Any, B: Any, error: ValueError) -> ValueError:
    """Return SciPy's error with both shapes and a hint, if the shapes of A and B are the reason; else the error."""
    shapes = A.shape, getattr(B, "shape", ())
    if type(error) is not ValueError or shapes[0] == shapes[1] or "inconsistent shape" not in str(error):
        return error
    from autosparse.errors import ShapeError

    return ShapeError.unfit(str(error), wanted="operands of one shape", left=shapes[0], right=shapes[1])


def resize(A: Any, *shape: Any) -> None:
    """Resize A, which becomes complete."""
    completed(A, "resize")(*shape)


@_of_light("_argminmax")
def argminmax(A: Any, *args: Any) -> Any:
    """Return places of extreme entries as SciPy's `_argminmax` does, which fetches the arrays for each row."""
    rows, is_by_rows = A._light, type(args[0]) is int and args[0] in ((0, -2) if A._transposed else (1, -1))
    if is_by_rows and rows is not None and rows.sound():
        A._plain_class.sum_duplicates(A)  # as SciPy's method does for this axis
        rows = A._light
    if rows is None or not loops.csr_has_canonical_format(rows.n_major, *rows.arrays[:2]):
        return A._plain_class._argminmax(A, *args)  # adds up duplicates in place
    plain: Any = object.__new__(A._plain_class)
    own = attributes(A)
    adoption.set_state(plain, A._shape)
    plain.indptr, plain.indices, plain.data = rows.arrays
    vars(plain).update(_flags(own))
    found = plain._argminmax(*args)
    own.update(_flags(vars(plain)))
    return found


def _flags(state: dict[str, Any]) -> dict[str, Any]:
    """Return what a matrix knows about the order of its entries, which SciPy keeps once it has looked."""
    return {name: value for name, value in state.items() if name.startswith("_has")}


def arrays_of(made: Any, arg1: Any, shape: Any, dtype: Any) -> light.Arrays:
    """Return (shape, indptr, indices, data) from a pair or a dense array; four None if SciPy must interpret them.

    Accepted are shapes, pairs (data, (rows, columns)), and dense arrays.
    """
    if type(arg1) is not tuple:
        return _of_dense(made, arg1, dtype)
    is_empty = shape is None and light.is_shape(arg1)
    return _of_shape(made, arg1, dtype) if is_empty else _of_entries(made, arg1, shape, dtype)


def _of_shape(made: Any, shape: tuple[int, int], dtype: Any) -> light.Arrays:
    """Return new arrays without entries for a matrix of that shape."""
    if dtype is None or (isinstance(dtype, type) and issubclass(dtype, np.generic)):
        dtype = np.dtype(dtype)
    if not isinstance(dtype, np.dtype) or dtype.char not in light.VALUE_TYPES or not dtype.isnative:
        return light.NOTHING
    if max(shape) > light.INT32_MAX:
        return light.NOTHING
    return shape, np.zeros(made._swap(shape)[0] + 1, light.INT32), np.zeros(0, light.INT32), np.zeros(0, dtype)


def _of_entries(made: Any, pair: tuple[Any, Any], shape: Any, dtype: Any) -> light.Arrays:
    """Return new arrays in canonical format (sorted, without duplicates) from (data, (rows, columns)), and say so."""
    first, second = pair
    if type(second) not in (tuple, list) or len(second) != 2:
        return light.NOTHING
    first, second = light.as_array(first), tuple(map(light.as_array, second))
    if shape is None:
        shape = tuple(int(part.max()) + 1 if type(part) is np.ndarray and part.size else 0 for part in second)
    if not light.is_shape(shape) or max(shape) > light.INT32_MAX:
        return light.NOTHING
    coords = [part for part, extent in zip(second, shape, strict=True) if _are_within(part, extent)]
    is_plain = len(coords) == 2 and _are_values(first) and first.ndim == 1
    first = adoption.cast(first, dtype) if is_plain and coords[0].size == coords[1].size == first.size else None
    if first is None:
        return light.NOTHING
    index = np.result_type(*coords) if isinstance(made, sps.sparray) else light.INT32
    coords = [part.astype(index, copy=False) for part in coords]
    made.has_canonical_format = True
    return shape, *_compressed(first, coords[::-1] if made._transposed else coords, made._swap(shape))


def _are_values(array: Any) -> bool:
    return type(array) is np.ndarray and array.dtype.char in light.VALUE_TYPES and array.dtype.isnative


def _are_within(numbers: Any, extent: int) -> bool:
    """Return whether this is a vector of at least one int32 or int64 number, all of which are in [0, extent)."""
    if type(numbers) is not np.ndarray or numbers.ndim != 1 or not 0 < numbers.size <= light.INT32_MAX:
        return False
    unsigned = light.UNSIGNED.get(numbers.dtype)
    return unsigned is not None and bool(numbers.view(unsigned).max() < extent)  # negative numbers become large ones


def _compressed(
    values: NDArray[Any], coords: list[NDArray[Any]], shape: tuple[int, int]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return (indptr, indices, data) of entries by coordinates, which are within `shape`, by SciPy's loops.

    The indices are sorted and the duplicates added. There may be spare room behind the last entry.
    """
    (major, minor), (n_major, n_minor) = coords, shape
    indptr, indices, data = np.empty(n_major + 1, major.dtype), np.empty_like(minor), np.empty_like(values)
    loops.coo_tocsr(n_major, n_minor, values.size, major, minor, values, indptr, indices, data)
    if not loops.csr_has_canonical_format(n_major, indptr, indices):
        if not loops.csr_has_sorted_indices(n_major, indptr, indices):
            loops.csr_sort_indices(n_major, indptr, indices, data)
        loops.csr_sum_duplicates(n_major, n_minor, indptr, indices, data)
    return indptr, indices, data


def _of_dense(made: Any, dense: NDArray[Any], dtype: Any) -> light.Arrays:
    """Return new arrays of the entries of a dense array that are not zero."""
    if not _are_values(dense) or dense.ndim != 2 or not 0 < dense.size <= light.INT32_MAX:
        return light.NOTHING
    is_by_rows = bool(dense.flags.c_contiguous)
    if not (is_by_rows or dense.flags.f_contiguous):
        return light.NOTHING
    flat = (dense if is_by_rows else dense.T).ravel()
    width = dense.shape[is_by_rows]
    places = flat.nonzero()[0]
    values, inner = adoption.cast(flat[places], dtype), (places % width).astype(light.INT32)
    if values is None:
        return light.NOTHING
    if is_by_rows is made._transposed:  # the other order: a counting sort
        coords = [inner, (places // width).astype(light.INT32)]
        return dense.shape, *_compressed(values, coords, made._swap(dense.shape))
    return dense.shape, places.searchsorted(np.arange(0, flat.size + 1, width)).astype(light.INT32), inner, values


def least_shape(made: Any, indices: Any, indptr: Any) -> Any:
    """Return the smallest shape that holds all indices, as SciPy's constructors find it; None for them to find it."""
    is_plain = type(indices) is type(indptr) is np.ndarray and indices.ndim == indptr.ndim == 1
    if not is_plain or indices.dtype not in (light.INT32, light.INT64) or not indices.size * indptr.size:
        return None
    return made._swap((indptr.size - 1, int(indices.max()) + 1))


def converted(fmt: str, obj: Any) -> Any:
    """Return a light matrix of a sparse matrix in another format, whose conversion makes new arrays; else None."""
    is_small = sps.issparse(obj) and obj.ndim == 2 and obj.format != fmt and not adoption.is_large(obj.nnz)
    if not (is_small and type(obj).__module__.startswith(("scipy.sparse.", "autosparse"))):
        return None
    found = obj.asformat(fmt)
    made: Any = object.__new__(getattr(matrices, f"{fmt}_{'array' if isinstance(obj, sps.sparray) else 'matrix'}"))
    rows = adoption.adopt(made, (found._shape, found.indptr, found.indices, found.data), copy=False)
    if rows is None or not rows.sound():
        return None
    rows.copied_bytes = 0
    return made


def has_plan(rows: light.Rows, B: Any, *, transposed: bool) -> bool:
    """Return whether earlier processes left a plan for this product that saves the time in which the library loads."""
    content = configured.accounts_content()
    if not content:
        return False
    indptr, indices, data = rows.arrays
    operand = SimpleNamespace(
        indptr=indptr, indices=indices, nnz=indices.size, n_major=rows.n_major, n_minor=rows.n_minor
    )
    n_vecs, names = B.size // max(1, B.shape[0]), importlib.import_module("autosparse.ops.names")
    key = configured.account_key(
        configured.structure_sample(operand), names.MATMUL, 0, transposed, max(0, n_vecs - 1).bit_length(),
        data.dtype.name, light.n_threads, *_DEFAULTS,
    )  # fmt: skip
    if key not in content:
        return False
    accounts = importlib.import_module("autosparse.cache.accounts.rows")
    _, account = accounts.folded(accounts.with_key(content, key)).get(key) or (0.0, accounts.Account())
    plan = account.plan
    if plan is None or plan.flags & accounts.NOTHING_FASTER:
        return False
    saved_share = 1.0 - plan.measured_s / plan.default_s if plan.default_s else 0.0
    return bool(plan.is_asked or saved_share * account.spent.mean_product_s * 1e9 > light.LOADING_NS // 2)
