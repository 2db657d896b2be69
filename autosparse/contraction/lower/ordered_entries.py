"""A tensor's entries in the order of its modes, each place once, and their trees in any order, kept by the tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autosparse import config
from autosparse.operands.unfolding import TensorEntries

AnyArray = NDArray[Any]  # any dtype that NumPy multiplies


@dataclass(frozen=True, eq=False, slots=True)
class EntryLevels:
    """Level n lists the children of node p at ``crd[n][pos[n][p]:pos[n][p + 1]]``.

    The first level has no `pos`; it has no `crd` either where it is dense: then node i is coordinate i.
    """

    pos: tuple[AnyArray, ...]  # of levels 1, 2, ...
    crd: tuple[AnyArray | None, ...]
    values: AnyArray

    @property
    def structure_bytes(self) -> int:
        """Of all but the values."""
        return sum(one.nbytes for one in (*self.pos, *self.crd) if one is not None)


class Kept(NamedTuple):
    """A tree, where its values stand among the tensor's (None: in the same order), and of which writes they are."""

    tree: EntryLevels
    places: AnyArray | None
    version: int
    n_bytes: int


class OrderedEntries:
    """Distinct entries of a tensor sorted by its modes, and the trees of them that somebody wants kept.

    Coordinates of a tensor never change; kept values are those of `TensorEntries.values_version`. All that is kept
    takes at
    most `extra_memory` times the bytes of the tensor: what does not fit is made for each call.
    """

    __slots__ = ("_entries", "_kept", "_place", "_starts", "nnz")

    def __init__(self, entries: TensorEntries) -> None:
        self._entries = entries
        self._place: AnyArray | None = None  # the tensor's entry at each place of the order; None: as they stand
        self._starts: AnyArray | None = None  # of runs at one place; None: no place repeats
        self._kept: dict[Hashable, Kept] = {}
        self.nnz = entries.nnz
        key = keys(entries.coords, entries.shape)
        if (key[1:] > key[:-1]).all():
            return
        order = np.argsort(key, kind="stable")
        key = key[order]
        self._place = order.astype(np.int32) if order.size < 2**31 else order
        starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
        if starts.size < order.size:
            self._starts, self.nnz = starts, int(starts.size)

    @classmethod
    def of(cls, entries: TensorEntries) -> OrderedEntries:
        """Those of a tensor, made at the first use."""
        found = entries.ordered
        if found is None:
            found = entries.ordered = cls(entries)
        assert isinstance(found, cls)
        return found

    @property
    def hash(self) -> str:
        """Of shape and coordinates."""
        return self._entries.pattern.sparsity_hash

    @property
    def coords(self) -> AnyArray:
        """Coordinates, (modes, entries); made anew unless they are the tensor's."""
        if self._place is None:
            return self._entries.coords
        return self._entries.coords[:, self._place if self._starts is None else self._place[self._starts]]

    def values(self, dtype: np.dtype[Any]) -> AnyArray:
        """As they are now."""
        values = np.ascontiguousarray(self._entries.peek(), dtype=dtype)
        if self._place is None:
            return values
        values = values.take(self._place)
        return values if self._starts is None else added(values, self._starts)

    def tree(self, key: Hashable, make: Callable[[], EntryLevels], dtype: np.dtype[Any], *, keep: bool) -> EntryLevels:
        """The tree named `key` with the values as they are now; `make`: with the numbers of entries for values."""
        kept = self._kept.get(key)
        if kept is not None and kept.tree.values is self._entries.peek() and kept.tree.values.dtype == dtype:
            return kept.tree
        self._entries.refresh()
        version = self._entries.values_version
        if kept is None:
            made = make()
            places = self._places(made.values)
            tree = replace(made, values=self._at(places, dtype))
            is_own = tree.values is not self._entries.peek()
            fresh = tree.values.nbytes + (0 if places is None else places.nbytes) if is_own else 0
            kept = Kept(tree, places, version, made.structure_bytes + fresh)
        elif kept.version != version or kept.tree.values.dtype != dtype:
            tree = replace(kept.tree, values=self._at(kept.places, dtype))
            kept = kept._replace(tree=tree, version=version)
        else:
            return kept.tree
        if keep:
            self._keep(key, kept)
        return kept.tree

    def fits(self, n_trees: int) -> bool:
        """About whether so many trees in other orders can be kept."""
        # Two arrays a level, but for the last one's positions and for the first level, which has few nodes; places.
        n_arrays = max(2, 2 * len(self._entries.shape) - 2)
        one = self.nnz * (n_arrays * self._entries.coords.itemsize + self._entries.dtype.itemsize)
        return n_trees * one <= self._limit

    @property
    def _limit(self) -> float:
        entries = self._entries
        own = 0 if self._place is None else self._place.nbytes
        return config.get_options().extra_memory * (entries.coords.nbytes + entries.nnz * entries.dtype.itemsize) - own

    def _keep(self, key: Hashable, kept: Kept) -> None:
        """As memory allows; the last that was asked for stays."""
        others = {name: one for name, one in self._kept.items() if name != key}
        if kept.n_bytes + sum(one.n_bytes for one in others.values()) > self._limit:
            others = {}
        if kept.n_bytes <= self._limit:
            others[key] = kept
        self._kept = others

    def _places(self, numbers: AnyArray) -> AnyArray | None:
        """Where `_at` finds the entries of these numbers; None for the order of the modes."""
        if (numbers[1:] > numbers[:-1]).all():
            return None
        narrow = numbers.astype(np.int32) if self._entries.nnz < 2**31 else numbers
        return narrow if self._place is None or self._starts is not None else self._place[narrow]

    def _at(self, places: AnyArray | None, dtype: np.dtype[Any]) -> AnyArray:
        """Values at `places`, which are of distinct entries where some repeat, else of the tensor's."""
        if places is None:
            return self.values(dtype)
        if self._starts is not None:
            return self.values(dtype).take(places)
        return self._entries.peek().take(places).astype(dtype, copy=False)


def keys(coords: AnyArray, shape: Sequence[int]) -> AnyArray:
    """Entries numbered in the row-major order of `shape`; ranks among those present where that exceeds 64 bits."""
    if math.prod(max(1, extent) for extent in shape) < 2**62:
        found = np.zeros(coords.shape[1], dtype=np.int64)
        for row, extent in zip(coords, shape, strict=True):
            found *= extent
            found += row
        return found
    if not coords.shape[1]:
        return np.zeros(0, dtype=np.int64)
    return np.asarray(np.unique(coords, axis=1, return_inverse=True)[1], dtype=np.int64).reshape(-1)


def added(values: AnyArray, starts: AnyArray) -> AnyArray:
    """Sums of runs; of booleans, whether one is true."""
    how: np.ufunc = np.logical_or if values.dtype == bool else np.add
    return np.asarray(how.reduceat(values, starts), dtype=values.dtype)
