"""Convert sparse operands to trees of levels, in the order in which a program's loops bind their indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import scipy.sparse as sps

from autosparse._native import runtime_api
from autosparse.contraction.kinds import AnyArray
from autosparse.contraction.lower.ordered_entries import EntryLevels, keys
from autosparse.contraction.operands import FEW_ROWS, MAX_EMPTY_ROWS, Sparse
from autosparse.core.dtypes import NarrowIndex, WideIndex

Rows: TypeAlias = tuple[AnyArray, AnyArray, AnyArray]  # indptr, indices, data
Index: TypeAlias = "np.dtype[NarrowIndex] | np.dtype[WideIndex]"


def levels(operand: Sparse, order: str, *, is_dense: bool, dtype: Index, keep: bool = False) -> EntryLevels:
    """Return `operand` as a tree of levels in the `order` of its indices; the first level is dense if `is_dense`.

    Indices have the given dtype. With `keep`, a tensor keeps the tree for later calls.
    """
    key = (order, is_dense, dtype.str)
    found = operand.stored.get(key)
    by_modes = (*map(operand.indices.index, order), is_dense, dtype.str)
    if found is None and operand.rows is not None:
        found = operand.shared.get(by_modes)
    if found is None and operand.tensor is not None:
        made = lambda: _built(*_ordered(numbered(operand), order), is_dense=is_dense, dtype=dtype)  # noqa: E731
        found = operand.stored[key] = operand.tensor.tree(by_modes, made, operand.dtype, keep=keep)
    if found is None:
        if len(order) == 2 and operand.sorted_by in (order, order[::-1]) and _has_room(operand, order):
            found = _of_matrix(operand, order, is_dense=is_dense, dtype=dtype)
        else:
            found = _built(*_ordered(operand, order), is_dense=is_dense, dtype=dtype)
        operand.stored[key] = operand.shared[by_modes] = found
    assert isinstance(found, EntryLevels)
    return found


def _has_room(operand: Sparse, order: str) -> bool:
    """Return whether a matrix's extents fit 32 bits and arrays per row and per column are affordable."""
    if operand.rows is not None and operand.sorted_by == order:
        return max(operand.shape) < 2**31
    return max(operand.shape) <= min(2**31 - 1, MAX_EMPTY_ROWS * operand.nnz + FEW_ROWS)


def _of_matrix(operand: Sparse, order: str, *, is_dense: bool, dtype: Index) -> EntryLevels:
    """Build the levels of a matrix from its compressed rows, transposed by a counting sort if the order requires it."""
    first = str(operand.sorted_by)
    major = operand.indices.index(first[0])
    if operand.rows is not None and major == 0:
        pattern, minor = operand.rows
    else:
        pattern, minor = pointers(operand.coords[major], operand.shape[major]), operand.coords[1 - major]
    values = operand.values
    if first != order:
        shape = (operand.shape[major], operand.shape[1 - major])
        pattern, minor, values = transposed((pattern, minor, values), shape)
    crd: AnyArray | None = None
    if not is_dense:
        crd = np.flatnonzero(np.diff(pattern)).astype(dtype)
        pattern = np.append(pattern[crd], pattern[-1])
    minor = np.ascontiguousarray(minor, dtype=dtype)
    return EntryLevels((np.ascontiguousarray(pattern, dtype=dtype),), (crd, minor), np.ascontiguousarray(values))


def transposed(rows: Rows, shape: tuple[int, int]) -> Rows:
    """Return the compressed columns of a matrix given by compressed rows."""
    indptr, indices, data = rows
    if runtime_api.available and indptr.dtype == indices.dtype and data.itemsize in (4, 8, 16):
        arrays = (np.ascontiguousarray(indptr), np.ascontiguousarray(indices), np.ascontiguousarray(data))
        pattern, minor, values, _ = runtime_api.transpose(arrays, shape)
        assert values is not None
        return pattern, minor, values
    turned = sps.csr_array((data, indices, indptr), shape=shape).tocsc()
    return turned.indptr, turned.indices, turned.data


def numbered(operand: Sparse) -> Sparse:
    """Return an operand with the pattern of `operand` and the entry numbers 0 … nnz - 1 as values."""
    numbers: AnyArray = np.arange(operand.nnz, dtype=WideIndex)
    return Sparse(
        operand.indices, operand.coords if operand.rows is None else None, numbers, operand.shape,
        sorted_by=operand.sorted_by, rows=operand.rows,
    )  # fmt: skip


def _ordered(operand: Sparse, order: str) -> tuple[list[AnyArray], AnyArray, list[int]]:
    """Return (coordinates by level, values, extents by level), with the entries sorted by the level order."""
    modes = [operand.indices.index(index) for index in order]
    rows = [operand.coords[mode] for mode in modes]
    extents = [operand.shape[mode] for mode in modes]
    if operand.sorted_by == order:
        return rows, operand.values, extents
    place = np.argsort(keys(np.stack(rows), extents), kind="stable")
    return [row[place] for row in rows], operand.values[place], extents


def _built(
    rows: Sequence[AnyArray], values: AnyArray, extents: Sequence[int], *, is_dense: bool, dtype: Index
) -> EntryLevels:
    n = values.size
    pos: list[AnyArray] = []
    crd: list[AnyArray | None] = []
    is_new = np.zeros(n, dtype=bool)
    nodes = np.zeros(n, dtype=WideIndex)  # node of the level above, for each entry
    n_nodes = 1
    for depth, row in enumerate(rows):
        is_last = depth == len(rows) - 1
        if is_last:
            is_new = np.ones(n, dtype=bool)
        elif n:
            is_new[0] = True
            is_new[1:] |= row[1:] != row[:-1]
        firsts = slice(None) if is_last else np.flatnonzero(is_new)
        if depth:
            pos.append(pointers(nodes[firsts], n_nodes).astype(dtype))
        if depth == 0 and is_dense:
            crd.append(None)
            nodes, n_nodes = row, extents[0]
            continue
        crd.append(np.ascontiguousarray(row[firsts], dtype=dtype))
        n_nodes = n if is_last else int(np.count_nonzero(is_new))
        if not is_last:
            nodes = np.cumsum(is_new) - 1
    return EntryLevels(tuple(pos), tuple(crd), np.ascontiguousarray(values))


def pointers(nodes: AnyArray, n_nodes: int) -> AnyArray:
    """Return the position of each node's first child, given the ascending parents of all children."""
    return np.concatenate(([0], np.cumsum(np.bincount(nodes, minlength=n_nodes))))
