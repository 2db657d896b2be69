"""Helpers that generated Python calls: those of `c_text` on NumPy arrays, compiled by numba or interpreted.

Values may have any numeric type. Tables and outputs are named tuples of arrays; a helper that must grow one returns a
larger one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from autosparse.contraction.kinds import AnyArray
from autosparse.core.dtypes import Byte, WideIndex

MAX_DENSE_SLOTS = 1 << 20
"""Maximum dense size of a table that has one slot per element; larger tables are hashed."""


class Space(NamedTuple):
    """Workspace of rank 1: values by index, a flag per index that is set, and the list of set indices."""

    value: AnyArray
    bits: AnyArray
    list: AnyArray
    n: AnyArray


class Table(NamedTuple):
    """Workspace of any rank: entries in insertion order, slots to find them, and their levels once frozen."""

    key: AnyArray
    value: AnyArray
    slot: AnyArray
    n: AnyArray
    pos: AnyArray
    crd: AnyArray
    val: AnyArray


class Out(NamedTuple):
    """Output: coordinates of shape (modes, capacity), values and the number of entries."""

    crd: AnyArray
    val: AnyArray
    n: AnyArray


def plus(a: Any, b: Any) -> Any:
    """Return ``a ⊕ b``; kernels of other semirings than the ordinary one have a function of this name of their own."""
    return a + b


def out_new(n_modes: int, zero: AnyArray) -> Out:
    """Return an empty output."""
    return Out(np.empty((n_modes, 16), WideIndex), np.empty(16, zero.dtype), np.zeros(1, WideIndex))


def out_grown(out: Out) -> Out:
    """Return an output with room for one more entry: `out`, or a larger one."""
    n = out.val.size
    if out.n[0] < n:
        return out
    crd = np.empty((out.crd.shape[0], 2 * n), WideIndex)
    crd[:, :n] = out.crd
    val = np.empty(2 * n, out.val.dtype)
    val[:n] = out.val
    return Out(crd, val, out.n)


def push(out: Out, at: tuple[int, ...], value: Any) -> Out:
    """Append an entry, or add it to the last one if coordinates are equal; return the output, maybe a larger one."""
    n = out.n[0]
    if n:
        same = True
        for m in range(len(at)):
            same = same and out.crd[m, n - 1] == at[m]
        if same:
            out.val[n - 1] = plus(out.val[n - 1], value)
            return out
    out = out_grown(out)
    for m in range(len(at)):
        out.crd[m, n] = at[m]
    out.val[n] = value
    out.n[0] = n + 1
    return out


def flush(out: Out, row: Space, at: tuple[int, ...], last: int) -> Out:
    """Append the buffered row in ascending order and empty it; return the output, maybe a larger one.

    `last` is the position of the row's index among the coordinates, `at` gives the others.
    """
    space_sort(row)
    for k in range(row.n[0]):
        index = row.list[k]
        n = out.n[0]
        out = out_grown(out)
        for m in range(len(at)):
            out.crd[m, n] = at[m]
        out.crd[last, n] = index
        out.val[n] = row.value[index]
        out.n[0] = n + 1
    space_clear(row)
    return out


def space_new(extent: int, zero: AnyArray) -> Space:
    """Return an empty workspace of rank 1."""
    return Space(
        np.empty(extent + 1, zero.dtype), np.zeros(extent + 1, Byte), np.empty(extent + 1, WideIndex),
        np.zeros(1, WideIndex),
    )  # fmt: skip


def space_has(w: Space, i: int) -> bool:
    """Return whether index `i` is set."""
    return bool(w.bits[i])


def space_add(w: Space, i: int, value: Any) -> None:
    """Compute ``w[i] += value``."""
    if w.bits[i]:
        w.value[i] = plus(w.value[i], value)
    else:
        w.bits[i] = 1
        w.value[i] = value
        w.list[w.n[0]] = i
        w.n[0] += 1


def space_clear(w: Space) -> None:
    """Reset all set indices."""
    for n in range(w.n[0]):
        w.bits[w.list[n]] = 0
    w.n[0] = 0


def space_sort(w: Space) -> None:
    """Sort the list of set indices."""
    w.list[: w.n[0]].sort()


def table_new(total: int, zero: AnyArray) -> Table:
    """Return an empty table of dense size `total`, with one slot per element if `total` is small, else hashed."""
    is_dense = total <= MAX_DENSE_SLOTS
    n = np.zeros(2, WideIndex)  # number of entries, and whether slots are dense
    n[1] = is_dense
    slot = np.zeros(total + 1 if is_dense else 1024, WideIndex)
    levels = np.zeros((1, 2), WideIndex)
    return Table(np.empty(16, WideIndex), np.empty(16, zero.dtype), slot, n, levels, levels, np.empty(16, zero.dtype))


def table_clear(w: Table) -> None:
    """Remove all entries."""
    w.slot[:] = 0
    w.n[0] = 0


def table_slot(w: Table, key: int) -> int:
    """Return the slot of `key`: its own, or the empty one where it belongs."""
    if w.n[1]:
        return key
    last = w.slot.size - 1
    at = (key ^ (key >> 17) ^ (key >> 31)) & last
    while w.slot[at] and w.key[w.slot[at] - 1] != key:
        at = (at + 1) & last
    return at


def table_find(w: Table, key: int) -> int:
    """Return the number of the entry with `key`, or -1."""
    return int(w.slot[table_slot(w, key)]) - 1


def table_add(w: Table, key: int, value: Any) -> Table:
    """Add to the entry with `key`, creating it if necessary; return the table, a larger one if it had to grow."""
    at = table_slot(w, key)
    if w.slot[at]:
        w.value[w.slot[at] - 1] = plus(w.value[w.slot[at] - 1], value)
        return w
    n = w.n[0]
    if n == w.key.size:
        grown = np.empty(2 * n, WideIndex)
        grown[:n] = w.key
        values = np.empty(2 * n, w.value.dtype)
        values[:n] = w.value
        slot = w.slot
        if not w.n[1] and 4 * n > slot.size:
            slot = np.zeros(4 * slot.size, WideIndex)
        w = Table(grown, values, slot, w.n, w.pos, w.crd, w.val)
        if not w.n[1]:
            slot[:] = 0
            for entry in range(n):
                slot[table_slot(w, w.key[entry])] = entry + 1
        at = table_slot(w, key)
    w.key[n] = key
    w.value[n] = value
    w.n[0] = n + 1
    w.slot[at] = n + 1
    return w


def table_freeze(w: Table, rank: int, extents: tuple[int, ...]) -> Table:
    """Return the table with its entries as a tree of levels, one per mode, sorted by key."""
    n = w.n[0]
    order = np.argsort(w.key[:n])
    pos = np.zeros((rank, n + 2), WideIndex)
    crd = np.zeros((rank, n + 1), WideIndex)
    count = np.zeros(rank, WideIndex)
    before = np.zeros(rank, WideIndex)
    at = np.zeros(rank, WideIndex)
    val = np.empty(n + 1, w.val.dtype)
    for k in range(n):
        key = w.key[order[k]]
        for m in range(rank - 1, -1, -1):
            at[m] = key % extents[m]
            key //= extents[m]
        is_new = k == 0
        for m in range(rank):
            is_new = is_new or at[m] != before[m] or m == rank - 1
            before[m] = at[m]
            if is_new:
                if m + 1 < rank:
                    pos[m + 1, count[m]] = count[m + 1]
                crd[m, count[m]] = at[m]
                count[m] += 1
        val[k] = w.value[order[k]]
    pos[0, 1] = count[0]
    for m in range(rank - 1):
        pos[m + 1, count[m]] = count[m + 1]
    return Table(w.key, w.value, w.slot, w.n, pos, crd, val)


def find_from(crd: AnyArray, first: int, last: int, i: int) -> int:
    """Return the first position from `first` on whose coordinate is at least `i`."""
    while first < last:
        middle = first + (last - first) // 2
        if crd[middle] < i:
            first = middle + 1
        else:
            last = middle
    return first


def find(crd: AnyArray, first: int, last: int, i: int) -> int:
    """Return the position of coordinate `i`, or -1."""
    at = find_from(crd, first, last, i)
    return at if at < last and crd[at] == i else -1


def gallop(crd: AnyArray, at: int, last: int, i: int) -> int:
    """Return the first position after `at` whose coordinate is at least `i`."""
    return find_from(crd, at + 1, last, i)
