"""Convert the result of an einsum to the requested format: sparse matrix, tensor, ndarray or scalar."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import scipy.sparse as sps

from autosparse.arrays import construct
from autosparse.arrays.family import csr_array
from autosparse.contraction.expressions.semirings import PLUS_TIMES, SEMIRINGS, Semiring
from autosparse.contraction.kinds import AnyArray, arrays_of, is_sparse
from autosparse.contraction.kinds import entries as entries_of
from autosparse.contraction.routes.elementwise import of_arrays
from autosparse.core.dtypes import WideIndex
from autosparse.errors import EinsumError

if TYPE_CHECKING:
    from autosparse.contraction.operands import Sparse


def _csr(entries: Any) -> Any:
    if sps.issparse(entries):
        return entries
    if entries.sorted_by is None or entries.sorted_by != entries.indices:
        check_room(entries.shape[0])
        return construct.csr(_coo(entries).tocsr(), copy=False)
    if entries.rows is not None:
        indptr, indices = entries.rows
        return of_arrays(entries.shape, (indptr, indices, entries.values))
    check_room(entries.shape[0])
    major, minor = entries.coords
    indptr = np.concatenate(([0], np.cumsum(np.bincount(major, minlength=entries.shape[0])))).astype(minor.dtype)
    return of_arrays(entries.shape, (indptr, minor, entries.values))


def _csc(entries: Sparse) -> Any:
    check_room(entries.shape[1])
    return construct.csc(_coo(entries).tocsc(), copy=False)


def check_room(n_rows: int) -> None:
    """Raise MemoryError if an array of 64-bit row starts would exceed the memory of this machine."""
    try:
        ram_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return
    if 8 * (n_rows + 1) > ram_bytes:
        raise MemoryError(
            f"einsum: starts of {n_rows:,} compressed rows take more than the {ram_bytes:,} bytes of this machine\n"
            "  Hint: pass format='tensor' or 'coo', which take memory by entries."
        )


def _coo(entries: Sparse) -> Any:
    return sps.coo_array((entries.values, tuple(entries.coords)), shape=entries.shape)


def _tensor(entries: Sparse) -> Any:
    from autosparse.arrays.sparse_tensor import tensor  # imported late: its import takes longer than most first calls

    return tensor(entries.coords, entries.values, entries.shape, copy=False)


def _levels(entries: Sparse) -> Any:
    """Convert entries to a sparse tensor with distinct entries sorted by its modes."""
    if entries.sorted_by is None or entries.sorted_by != entries.indices:
        from autosparse.contraction.operands import distinct

        entries = distinct(entries.indices, entries.coords, entries.values, entries.shape)
    return _tensor(entries)


def dense(entries: Sparse, semiring: Semiring = SEMIRINGS[PLUS_TIMES]) -> AnyArray:
    """Return the entries as an ndarray, with the zero of the semiring elsewhere."""
    array = semiring.filled(entries.shape, entries.dtype)
    array[tuple(entries.coords)] = (
        entries.values if array.ndim else semiring.add.reduce(entries.values, initial=semiring.zero)
    )
    return array


MAX_DIMS: Final = 64
"""Maximum number of dimensions of a NumPy array."""
FORMATS: Final[dict[str, tuple[Callable[[Sparse], Any], range]]] = {
    "csr": (_csr, range(2, 3)),
    "csc": (_csc, range(2, 3)),
    "dcsr": (_levels, range(2, 3)),
    "coo": (_coo, range(1, MAX_DIMS + 1)),
    "csf": (_levels, range(1, MAX_DIMS + 1)),
    "tensor": (_tensor, range(1, MAX_DIMS + 1)),
    "dense": (dense, range(MAX_DIMS + 1)),
}
"""Constructor of each value of `format`, and the numbers of dimensions that it supports."""


OF_SCIPY: Final = {"csr": "?bBhHiIlLqQfdgFDG", "csc": "?bBhHiIlLqQfdgFDG", "coo": "?bBhHiIlLqQfdgFDG"}
"""Characters of the dtypes that SciPy's matrices of these formats support; half precision and objects are not included.
"""


def is_dense_by_default(output: str, sparse_indices: set[str]) -> bool:
    """Return whether the output has fewer than two dimensions or an index that no sparse operand has."""
    return len(output) < 2 or not set(output) <= sparse_indices


def default_format(output: str, sparse_indices: set[str], dtype: np.dtype[Any]) -> str:
    """Return the default format: sparse if the output has two or more indices, all of them of sparse operands."""
    if is_dense_by_default(output, sparse_indices):
        return "dense"
    return "csr" if len(output) == 2 and dtype.char in OF_SCIPY["csr"] else "tensor"


def check_format(name: str, n_dims: int, dtype: np.dtype[Any]) -> None:
    """Raise EinsumError unless format `name` supports this number of dimensions and this dtype."""
    if name not in FORMATS:
        raise EinsumError.refused(f"unknown format {name!r}", hint=f"use one of {', '.join(FORMATS)}")
    if dtype.char not in OF_SCIPY.get(name, dtype.char):
        raise EinsumError.refused(f"format {name!r} holds no {dtype}, the result's dtype", hint="pass format='tensor'")
    can_have = FORMATS[name][1]
    if n_dims not in can_have:
        dims = f"{can_have[0]} dimensions" if len(can_have) == 1 else f"{can_have[0]} dimensions or more"
        fitting = ", ".join(repr(other) for other, (_, known) in FORMATS.items() if n_dims in known)
        raise EinsumError.refused(
            f"format {name!r} holds {dims}, the result has {n_dims}", f"format={fitting} would do"
        )


def converted(result: Any, wanted: str, semiring: Semiring = SEMIRINGS[PLUS_TIMES]) -> Any:
    """Convert a finished result (sparse object, ndarray or scalar) to the format `wanted`."""
    if is_sparse(result):
        return _of_sparse(result, wanted)
    if hasattr(result, "sorted_by"):  # entries from a kernel or from joins
        return dense(result, semiring) if wanted == "dense" else FORMATS[wanted][0](result)
    if wanted == "dense":
        return result
    from autosparse.contraction.operands import Sparse

    array = np.asarray(result)
    check_format(wanted, array.ndim, array.dtype)
    coords = np.stack(np.nonzero(array != semiring.zero)).astype(WideIndex)
    return FORMATS[wanted][0](Sparse("", coords, array[tuple(coords)], array.shape))


def _of_sparse(obj: Any, wanted: str) -> Any:
    if wanted == "dense":
        return obj.toarray() if sps.issparse(obj) else obj.todense()
    if wanted == getattr(obj, "format", "tensor"):
        is_matrix = isinstance(obj, sps.spmatrix)  # a product by a csr_matrix
        return csr_array._of_rows(tuple(obj.shape), arrays_of(obj)) if is_matrix else obj
    from autosparse.contraction.operands import Sparse

    return FORMATS[wanted][0](Sparse("", *entries_of(obj), obj.shape))
