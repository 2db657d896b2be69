"""Distinct entries of a tensor sorted by its modes, and trees of them in other orders, kept with the tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autosparse import config
from autosparse.core.dtypes import NarrowIndex, WideIndex
from autosparse.operands.unfolding import TensorEntries

AnyArray = NDArray[Any]  # any dtype that NumPy multiplies


@dataclass(frozen=True, eq=False, slots=True)
class EntryLevels:
    """Tree of levels: the children of node p at level n are ``crd[n][pos[n - 1][p]:pos[n - 1][p + 1]]``.

    The first level has no positions. It has no coordinates either if it is dense: node i is then coordinate i.
    """

    pos: tuple[AnyArray, ...]  # positions of levels 1, 2, ...
    crd: tuple[AnyArray | None, ...]
    values: AnyArray

    @property
    def structure_bytes(self) -> int:
        """Number of bytes of all arrays but the values."""
        return sum(one.nbytes for one in (*self.pos, *self.crd) if one is not None)


class Kept(NamedTuple):
    """Kept tree with the tensor's positions of its values (None: same order), the values' version, and its bytes."""

    tree: EntryLevels
    places: AnyArray | None
    version: int
    n_bytes: int


class OrderedEntries:
    """Distinct entries of a tensor sorted by its modes, and kept trees of them.

    Coordinates of a tensor never change. Kept values belong to one `TensorEntries.values_version` and are refreshed
    after writes. Kept data take at most `extra_memory` times the bytes of the tensor; trees beyond this limit are
    rebuilt for each call.
    """

    __slots__ = ("_entries", "_kept", "_place", "_starts", "nnz")

    def __init__(self, entries: TensorEntries) -> None:
        self._entries = entries
        self._place: AnyArray | None = None  # the tensor's entry at each sorted position; None: already sorted
        self._starts: AnyArray | None = None  # first position of each run of duplicates; None: no duplicates
        self._kept: dict[Hashable, Kept] = {}
        self.nnz = entries.nnz
        key = keys(entries.coords, entries.shape)
        if (key[1:] > key[:-1]).all():
            return
        order = np.argsort(key, kind="stable")
        key = key[order]
        self._place = order.astype(NarrowIndex) if order.size < 2**31 else order
        starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
        if starts.size < order.size:
            self._starts, self.nnz = starts, int(starts.size)

    @classmethod
    def of(cls, entries: TensorEntries) -> OrderedEntries:
        """Return the `OrderedEntries` of a tensor, created on first use and kept with the tensor."""
        found = entries.ordered
        if found is None:
            found = entries.ordered = cls(entries)
        assert isinstance(found, cls)
        return found

    @property
    def hash(self) -> str:
        """Hash of shape and coordinates."""
        return self._entries.pattern.sparsity_hash

    @property
    def coords(self) -> AnyArray:
        """Coordinates, an array of shape (modes, entries); a copy unless the tensor's are sorted and distinct."""
        if self._place is None:
            return self._entries.coords
        return self._entries.coords[:, self._place if self._starts is None else self._place[self._starts]]

    def values(self, dtype: np.dtype[Any]) -> AnyArray:
        """Return the current values in sorted order, duplicates added up."""
        values = np.ascontiguousarray(self._entries.peek(), dtype=dtype)
        if self._place is None:
            return values
        values = values.take(self._place)
        return values if self._starts is None else added(values, self._starts)

    def tree(self, key: Hashable, make: Callable[[], EntryLevels], dtype: np.dtype[Any], *, keep: bool) -> EntryLevels:
        """Return the tree named `key` with current values in `dtype`, kept if `keep`.

        On first use, `make` builds it with entry numbers in place of values.
        """
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
        """Return whether about `n_trees` trees of the tensor in other orders fit into the memory limit."""
        # Two arrays per level, except for the last level's positions and the short first level, plus the value
        # positions.
        n_arrays = max(2, 2 * len(self._entries.shape) - 2)
        one = self.nnz * (n_arrays * self._entries.coords.itemsize + self._entries.dtype.itemsize)
        return n_trees * one <= self._limit

    @property
    def _limit(self) -> float:
        entries = self._entries
        own = 0 if self._place is None else self._place.nbytes
        return config.get_options().extra_memory * (entries.coords.nbytes + entries.nnz * entries.dtype.itemsize) - own

    def _keep(self, key: Hashable, kept: Kept) -> None:
        """Keep a tree if it fits the memory limit, dropping the other trees if necessary."""
        others = {name: one for name, one in self._kept.items() if name != key}
        if kept.n_bytes + sum(one.n_bytes for one in others.values()) > self._limit:
            others = {}
        if kept.n_bytes <= self._limit:
            others[key] = kept
        self._kept = others

    def _places(self, numbers: AnyArray) -> AnyArray | None:
        """Return the positions at which `_at` reads the values of these entry numbers; None if they ascend."""
        if (numbers[1:] > numbers[:-1]).all():
            return None
        narrow = numbers.astype(NarrowIndex) if self._entries.nnz < 2**31 else numbers
        return narrow if self._place is None or self._starts is not None else self._place[narrow]

    def _at(self, places: AnyArray | None, dtype: np.dtype[Any]) -> AnyArray:
        """Return the values at `places` in `dtype`; all values in sorted order if `places` is None.

        Positions refer to distinct sorted entries if there are duplicates, else to the tensor's arrays.
        """
        if places is None:
            return self.values(dtype)
        if self._starts is not None:
            return self.values(dtype).take(places)
        return self._entries.peek().take(places).astype(dtype, copy=False)


def keys(coords: AnyArray, shape: Sequence[int]) -> AnyArray:
    """Return the row-major number of each entry, which sorts as its coordinates do; a rank if 64 bits are too few."""
    if math.prod(max(1, extent) for extent in shape) < 2**62:
        if not len(coords):
            return np.zeros(coords.shape[1], dtype=WideIndex)
        found: AnyArray = coords[0].astype(WideIndex)
        for row, extent in zip(coords[1:], shape[1:], strict=True):
            found *= extent
            found += row
        return found
    if not coords.shape[1]:
        return np.zeros(0, dtype=WideIndex)
    return np.asarray(np.unique(coords, axis=1, return_inverse=True)[1], dtype=WideIndex).reshape(-1)


def added(values: AnyArray, starts: AnyArray) -> AnyArray:
    """Return the sum of each run of values that begins at one of `starts`; for booleans, whether any is true."""
    how: np.ufunc = np.logical_or if values.dtype == bool else np.add
    return np.asarray(how.reduceat(values, starts), dtype=values.dtype)
