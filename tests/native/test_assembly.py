"""Tests that the native assembly of levels from coordinates equals NumPy's sort, for any order and width of keys."""

from __future__ import annotations

import numpy as np
import pytest
from autosparse._native.storage.assembly import Assembled, Types, assemble, n_sorted
from hypothesis import given
from hypothesis import strategies as st

from autosparse.core.formats import Format, LevelKind
from autosparse.errors import PackError

FORMATS = [
    "i1:C,k1:C",
    "k1:U,i1:C",
    "i1:U,k1:C,i0:U,k0:U | i=3,k=4",
    "k0:U,i1:C,k1:U,i0:C | i=3,k=8",
    "i1:U,k1:U",
    "i1:N,k1:Q",
    "i1:U,k1:N,l1:Q",
    "k1:C,l1:N,i1:Q,i0:Q | i=2",
    "i1:C,k1:C,l1:C",
    "l1:C,i1:U,k1:C",
    "i1:C,k1:C,l1:C,l0:U | l=5 | bits=16",
    "l1:U,i1:C,i0:C,k1:U,k0:U | i=2,k=3 | bits=64",
    "m1:C,k1:C,l1:C,i1:C",
]


def same(one: Assembled, other: Assembled) -> None:
    """Check that two results have the same bits and dtypes."""
    assert one.n_positions == other.n_positions
    for mine, theirs in ((one.pos, other.pos), (one.crd, other.crd)):
        assert mine.keys() == theirs.keys()
        for name in mine:
            np.testing.assert_array_equal(mine[name], theirs[name])
            assert mine[name].dtype == theirs[name].dtype
    for first, second in ((one.order, other.order), (one.positions, other.positions)):
        assert (first is None) == (second is None)
        if first is not None:
            np.testing.assert_array_equal(first, second)


def by_numpy(fmt: Format, entries: dict[str, np.ndarray], sizes: dict[str, int], types: Types) -> Assembled:
    """Assemble levels by NumPy's stable sort, level by level."""
    split = {name: fmt.split(name[:-1]) for name in fmt.order}
    coordinates = {
        name: (entries[name[:-1]] // n if name.endswith("1") else entries[name[:-1]] % n).astype(np.int64)
        for name, n in split.items()
    }
    keys, nnz = [coordinates[name] for name in fmt.order[: n_sorted(fmt)]], next(iter(coordinates.values())).size
    order = np.lexsort(keys[::-1]) if keys else np.arange(nnz)
    extents, pos, crd = fmt.extents(sizes), {}, {}
    above, n_above = np.zeros(nnz, np.int64), 1
    for level in fmt.levels:
        name, column = level.coordinate, coordinates[level.coordinate][order]
        if level.kind is LevelKind.UNCOMPRESSED:
            above, n_above = above * extents[name] + column, n_above * extents[name]
        elif level.kind is LevelKind.SINGLETON:
            crd[name] = column.astype(types.crd)
        else:
            starts = np.ones(nnz, bool)
            if level.kind is LevelKind.COMPRESSED and level is not fmt.levels[-1]:  # equal neighbours share a position
                starts[1:] = (above[1:] != above[:-1]) | (column[1:] != column[:-1])
            counts = np.bincount(above[starts], minlength=n_above)
            pos[name] = np.concatenate([[0], np.cumsum(counts)]).astype(types.pos)
            crd[name] = column[starts].astype(types.crd)
            above, n_above = np.cumsum(starts) - 1, int(starts.sum())
    is_in_order = bool((order[1:] > order[:-1]).all())
    positions = above if fmt.has_padding else None
    return Assembled(pos, crd, n_above, None if is_in_order else order.astype(types.pos), positions, types.pos)


def types_of(fmt: Format, index_dtype: str) -> Types:
    return Types(np.dtype(index_dtype), np.dtype({16: "uint16", 32: "int32", 64: "int64"}[fmt.index_bits]))


@pytest.mark.parametrize("text", FORMATS)
@given(data=st.data(), index_dtype=st.sampled_from(["int32", "int64"]), seed=st.integers(0, 999))
def test_native_assembly_equals_numpys(text: str, data: st.DataObject, index_dtype: str, seed: int) -> None:
    fmt = Format.parse(text)
    rng = np.random.default_rng(seed)
    sizes = {index: data.draw(st.integers(1, 9)) for index in sorted({name[0] for name in fmt.order})}
    nnz = data.draw(st.integers(0, 60))
    entries = {index: rng.integers(0, size, nnz).astype(index_dtype) for index, size in sizes.items()}
    if data.draw(st.booleans()):  # already sorted
        order = np.lexsort([entries[name[0]] for name in reversed(fmt.order)])
        entries = {index: np.ascontiguousarray(column[order]) for index, column in entries.items()}
    types = types_of(fmt, index_dtype)
    same(assemble(fmt, entries, sizes, types), by_numpy(fmt, entries, sizes, types))


@pytest.mark.parametrize("extent", [1 << 20, (1 << 31) - 1, 1 << 40])
@pytest.mark.parametrize("text", ["i1:C,k1:C,l1:C | bits=64", "k1:C,i1:C,l1:C | bits=64"])
def test_large_extents_need_wider_keys(text: str, extent: int) -> None:
    """Check keys of 60, 93 and 120 bits, with enough entries for several blocks of the sort."""
    fmt = Format.parse(text)
    rng = np.random.default_rng(1)
    entries = {index: rng.integers(0, extent, 100_000) for index in "ikl"}
    entries["k"][::2] = entries["k"][1::2]
    sizes = dict.fromkeys("ikl", extent)
    types = types_of(fmt, "int64")
    same(assemble(fmt, entries, sizes, types), by_numpy(fmt, entries, sizes, types))


def test_a_format_that_would_explode_is_refused() -> None:
    entries = {index: np.zeros(1, np.int64) for index in "ikl"}
    sizes = dict.fromkeys("ikl", 1 << 30)
    with pytest.raises(PackError, match="positions"):
        assemble(Format.parse("i1:U,k1:U,l1:U"), entries, sizes, Types(np.dtype("int64"), np.dtype("int32")))


def test_longer_coordinates_than_a_key_holds_are_refused() -> None:
    entries = {index: np.zeros(1, np.int64) for index in "ikl"}
    sizes = dict.fromkeys("ikl", 1 << 43)
    with pytest.raises(PackError, match="longer coordinates"):
        assemble(Format.parse("i1:C,k1:C,l1:C | bits=64"), entries, sizes, Types(np.dtype("int64"), np.dtype("int64")))
