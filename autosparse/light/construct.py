"""`csr` and `csc`: construct a light matrix where possible, else load the library, whose `arrays.construct` does it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import scipy.sparse as sps

from autosparse import forking, light
from autosparse.light.adoption import adopt, arrays_of, attributes, is_small, register
from autosparse.light.matrices import FAMILY

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Protocol, SupportsIndex

    from numpy.typing import DTypeLike

    from autosparse.arrays.family import csc_array, csc_matrix, csr_array, csr_matrix

    class HasShape(Protocol):
        """Protocol of SciPy's sparse objects, torch's tensors and arrays: objects with a shape."""

        @property
        def shape(self) -> Any:
            """Number of rows and of columns."""

    Source = HasShape | Sequence[Any] | os.PathLike[str]
    """Object that a matrix is made from. A path given as a string is a Sequence, too."""
    Shape = tuple[SupportsIndex, SupportsIndex]

else:
    from autosparse.light.matrices import csc_array, csc_matrix, csr_array, csr_matrix

_KINDS: Final[Mapping[tuple[str, type], type]] = {
    ("csr", sps.csr_array): csr_array,
    ("csr", sps.csr_matrix): csr_matrix,
    ("csc", sps.csc_array): csc_array,
    ("csc", sps.csc_matrix): csc_matrix,
    ("csr", tuple): csr_array,
    ("csc", tuple): csc_array,
    **{(fmt, made): kind for fmt, kind in (("csr", csr_array), ("csc", csc_array)) for made in (list, np.ndarray)},
}
"""Class of the result for SciPy's matrices that are compressed already, for tuples of arrays, and for dense arrays."""


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
    return _make("csr", obj, shape, dtype, copy=copy, frozen=frozen, gradients=gradients)


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
    return _make("csc", obj, shape, dtype, copy=copy, frozen=frozen, gradients=gradients)


def _first(fmt: str, obj: Any, shape: Any, dtype: Any, *, copy: Any, frozen: bool, gradients: Any) -> Any:
    """Return a light matrix of a SciPy matrix or arrays in the format `fmt`; load the library for other arguments."""
    kind = _KINDS.get((fmt, type(obj)))
    is_plain = not frozen and gradients is None and light.may_be_light()
    is_as_is = is_plain and not copy and shape is None and dtype is None
    if is_as_is and (same := _same(obj, fmt)) is not None:
        return same
    if kind is not None and is_plain and is_small(obj):
        made: Any = object.__new__(kind)
        is_new = not copy and not sps.issparse(obj) and (type(obj) is not tuple or len(obj) == 2)
        rows = adopt(made, arrays_of(made, obj, shape, dtype), copy=False if is_new else copy)
        if rows is not None and rows.sound():
            rows.copied_bytes = 0 if is_new else rows.copied_bytes
            return made
    rare = light.rare_functions() if is_as_is and sps.issparse(obj) else None
    if rare is not None and (made := rare.converted(fmt, obj)) is not None:
        return made
    with forking.loading():
        importlib.import_module("autosparse.arrays.construct")  # calls `use`
    return _make(fmt, obj, shape, dtype, copy=copy, frozen=frozen, gradients=gradients)


def _same(A: Any, fmt: str) -> Any:
    """Return another light matrix over the rows of `A`, if that is one of the format `fmt`; else None."""
    rows = light.rows_of(A)
    if rows is None or A.format != fmt or A._twin._twin is not type(A):
        return None
    made = object.__new__(type(A))
    if not (rows.sound() and register(made, rows, A._shape)):
        return None
    rows.is_shared = True
    return made


_make: Callable[..., Any] = _first


def use(make: Callable[..., Any]) -> None:
    """Let `csr` and `csc` call `make` from now on."""
    global _make
    _make = make


def wrapped(m: Any) -> Any:  # Any: a sparse matrix, or another object that `csr` takes
    """Wrap `m` for one call: csc for a csc matrix, else csr, sharing the arrays that SciPy would share."""
    return (csc if sps.issparse(m) and m.format == "csc" else csr)(m, copy=False)


def wrapped_if_scipys(A: Any) -> Any:  # Any: an operand of any class
    """Wrap a matrix of SciPy's that is small enough to be light for one call; return other operands unchanged."""
    is_scipys = sps.issparse(A) and type(A).__module__.startswith("scipy.") and A.ndim == 2
    return wrapped(A) if is_scipys and A.nnz <= light.MAX_ENTRIES else A


def has_own_product(A: Any) -> bool:  # Any: a sparse matrix, or an object of any other class
    """Return whether A is a sparse matrix whose class overrides `@` or `dot`, or that has a `dot` of its own.

    SciPy's solvers before 1.18 call `dot`, which may be an attribute of one object.
    """
    kind = type(A)
    if not (kind in FAMILY or sps.issparse(A)):
        return False
    return "dot" in attributes(A) or not (kind in FAMILY or all(map(_is_of_libraries, (kind.__matmul__, kind.dot))))


def _is_of_libraries(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] in ("autosparse", "scipy")
