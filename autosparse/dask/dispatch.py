"""Registration of blocks in Dask's dispatch tables, which are keyed by the type of a chunk."""

from __future__ import annotations

from typing import Any

import dask.array as da
from dask.array import dispatch
from dask.base import normalize_token
from dask.sizeof import sizeof

from autosparse._native import runtime_api
from autosparse.arrays.family import AutoSparseMatrix
from autosparse.dask.blocks import csc_block, csr_block, joined
from autosparse.dask.expanded import Expanded
from autosparse.light.matrices import coo_array


def _concatenate(parts: Any, axis: int = 0) -> Any:
    return joined(list(parts), axis=axis)


def _take(A: Any, positions: Any, axis: int = 0) -> Any:
    return A[:, positions] if axis else A[positions]


def _tensordot(left: Any, right: Any, axes: Any = 2) -> Any:
    """Multiply two matrices along one axis of each; SciPy's entry in the table uses elementwise ``*``."""
    (of_left,), (of_right,) = axes
    return (left if of_left else left.T) @ (right.T if of_right else right)


def _token(A: AutoSparseMatrix) -> Any:
    """Return a deterministic token of a matrix for Dask's graphs: a hash of its arrays, as fast as reading them."""
    rows = [A._cell.peek(field) for field in range(3)]
    if not runtime_api.available:
        return [type(A).__name__, A._shape, *map(normalize_token, rows)]
    return [type(A).__name__, A._shape, *((str(one.dtype), one.size, runtime_api.hash128(one)) for one in rows)]


def _register() -> None:
    for kind in (csr_block, csc_block):
        dispatch.concatenate_lookup.register(kind, _concatenate)
        dispatch.tensordot_lookup.register(kind, _tensordot)
        dispatch.take_lookup.register(kind, _take)
    dispatch.concatenate_lookup.register(coo_array, _concatenate)  # rows and columns of blocks
    for chunk in (csr_block, csc_block, Expanded):
        da.register_chunk_type(chunk)
        sizeof.register(chunk, lambda one: one.nbytes)
    normalize_token.register(AutoSparseMatrix, _token)


_register()
