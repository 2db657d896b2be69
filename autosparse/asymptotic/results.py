"""What an einsum returns: a sparse matrix, tensor or array, an ndarray, or a scalar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import scipy.sparse as sps

from autosparse.arrays import construct
from autosparse.arrays.sparse_tensor import tensor
from autosparse.asymptotic.operands import AnyArray, Sparse
from autosparse.errors import EinsumError


def _csr(entries: Any) -> Any:
    if not isinstance(entries, Sparse):
        return entries
    if entries.sorted_by is None or entries.sorted_by != entries.indices:
        return construct.csr(_coo(entries).tocsr())
    major, minor = entries.coords
    indptr = np.concatenate(([0], np.cumsum(np.bincount(major, minlength=entries.shape[0])))).astype(minor.dtype)
    made = sps.csr_array((entries.values, minor, indptr), shape=entries.shape)
    made.has_canonical_format = True
    return construct.csr(made)


def _csc(entries: Sparse) -> Any:
    return construct.csc(_coo(entries).tocsc())


def _coo(entries: Sparse) -> Any:
    return sps.coo_array((entries.values, tuple(entries.coords)), shape=entries.shape)


def _tensor(entries: Sparse) -> Any:
    return tensor(entries.coords, entries.values, entries.shape)


def dense(entries: Sparse) -> AnyArray:
    """The entries as an ndarray."""
    array = np.zeros(entries.shape, dtype=entries.values.dtype)
    array[tuple(entries.coords)] = entries.values if array.ndim else entries.values.sum()
    return array


FORMATS: Final[dict[str, tuple[Callable[[Sparse], Any], tuple[int, ...]]]] = {
    "csr": (_csr, (2,)),
    "csc": (_csc, (2,)),
    "coo": (_coo, (1, 2, 3, 4, 5, 6, 7, 8)),
    "tensor": (_tensor, (1, 2, 3, 4, 5, 6, 7, 8)),
    "dense": (dense, (0, 1, 2, 3, 4, 5, 6, 7, 8)),
}
"""Values of `format`, and the numbers of dimensions that each can have."""


def default_format(output: str, sparse_indices: set[str]) -> str:
    """Sparse when sparse operands bound every index of an output of two dimensions or more."""
    if len(output) < 2 or not set(output) <= sparse_indices:
        return "dense"
    return "csr" if len(output) == 2 else "tensor"


def check_format(name: str, n_dims: int) -> None:
    """EinsumError unless `name` is a format for so many dimensions."""
    if name not in FORMATS:
        raise EinsumError.refused(f"unknown format {name!r}", f"known are {', '.join(FORMATS)}")
    if n_dims not in FORMATS[name][1]:
        raise EinsumError.refused(f"format {name!r} does not hold a result of {n_dims} dimensions")


def converted(result: Any, wanted: str) -> Any:
    """A finished result (sparse matrix, ndarray or scalar) in the format `wanted`."""
    if sps.issparse(result):
        return result.toarray() if wanted == "dense" else FORMATS[wanted][0](_of_matrix(result, wanted))
    if wanted == "dense":
        return result
    array = np.asarray(result)
    check_format(wanted, array.ndim)
    coords = np.stack(np.nonzero(array)).astype(np.int64)
    return FORMATS[wanted][0](Sparse("", coords, array[tuple(coords)], array.shape))


def _of_matrix(matrix: Any, wanted: str) -> Any:
    if wanted == "csr" and matrix.format == "csr":
        return matrix
    coo = matrix.tocoo()
    return Sparse("", np.stack([coo.row, coo.col]), coo.data, matrix.shape)
