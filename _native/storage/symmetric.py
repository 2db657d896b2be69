"""Symmetric storage: the lower triangle of a matrix that equals its transpose, including its values.

Half of the entries are stored and read; each off-diagonal entry contributes to two rows of the product.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from autosparse._native.storage.levels import coordinate_dtype
from autosparse._native.storage.packers import rows_of
from numpy.typing import NDArray

from autosparse.core.formats import Format
from autosparse.core.pattern import Pattern
from autosparse.errors import PackError

Array = NDArray[Any]  # values or indices of any supported dtype


def pack_lower(pattern: Pattern, values: Array, fmt: Format) -> tuple[dict[str, Array], dict[str, Array], Array]:
    """Return pos, crd and values of the lower triangle, sorted by column.

    Raises PackError unless A equals its transpose exactly.
    """
    if pattern.n_rows != pattern.n_cols:
        raise PackError.unfit(fmt, f"a matrix of shape {pattern.shape} is not symmetric")
    turned, turned_values = rows_of(pattern, values, transposed=True)
    back = Pattern(turned.n_rows, turned.n_cols, turned.indptr, turned.indices)
    own, own_values = rows_of(back, turned_values, transposed=True)  # sorted by column, as the transpose is
    sides = (own.indptr, own.indices, own_values), (turned.indptr, turned.indices, turned_values)
    if not all(map(np.array_equal, *sides)):
        raise PackError.unfit(fmt, "the matrix does not equal its transpose, entry by entry")
    rows = np.repeat(np.arange(own.n_rows, dtype=own.indices.dtype), np.diff(own.indptr))
    kept = own.indices <= rows
    pos = np.zeros_like(own.indptr)
    np.cumsum(np.bincount(rows[kept], minlength=own.n_rows), out=pos[1:])
    crd = own.indices[kept].astype(coordinate_dtype(fmt, pattern.index_dtype))
    return {"k1": pos}, {"k1": crd}, own_values[kept]


def whole(rows: Array, columns: Array, values: Array) -> tuple[Array, Array, Array]:
    """Return the entries of the whole matrix, given those of its lower triangle."""
    off = rows != columns
    return (
        np.concatenate([rows, columns[off]]),
        np.concatenate([columns, rows[off]]),
        np.concatenate([values, values[off]]),
    )
