"""Tests that refreshing the values of a packed copy gives what a new copy has, in every format."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from autosparse._native.storage.packers import ValuePositions
from autosparse._native.storage.rows import packing_threads
from hypothesis import given, settings
from hypothesis import strategies as st

import autosparse
from autosparse import _native
from autosparse.core.formats import STORED_VALUES, Format
from tests.covering import covering
from tests.native import cases
from tests.native.test_pack import DTYPES, GENERIC, NATIVE
from tests.native.test_slices import FORMATS, held_by, matrices

ORDERED = ["i1:U,k1:C | rows=first", "i1:U,k1:C | rows=rcm", "i1:U,k1:C,i0:U | i=4 | rows=degree"]
HALVES = [f"{levels} | values={kind}" for kind in STORED_VALUES for levels in ("i1:U,k1:C", "i1:U,k1:C,i0:U | i=4")]
ALL = [*NATIVE, *GENERIC, *ORDERED, *HALVES, *map(str, FORMATS)]


INDEX_TYPES = st.sampled_from(["int32", "int64"])


def same(packed: _native.PackedOperand, again: _native.PackedOperand) -> None:
    np.testing.assert_array_equal(packed.values, again.values)
    assert packed.crd.keys() == again.crd.keys()
    for name, array in packed.crd.items():
        np.testing.assert_array_equal(array, again.crd[name], err_msg=name)


@pytest.mark.parametrize("text", ALL)
@settings(max_examples=12)
@given(
    data=st.data(), transposed=st.booleans(), dtype=st.sampled_from(DTYPES), index=st.sampled_from(["int32", "int64"])
)
def test_refreshed_twice_is_packed_anew(
    text: str, data: st.DataObject, transposed: bool, dtype: str, index: str
) -> None:
    fmt = Format.parse(text)
    if fmt.values in STORED_VALUES:
        dtype = "float32"
    elif fmt.values:
        dtype = f"float{8 * np.dtype(dtype).alignment}"
    taken = held_by(fmt, data.draw(matrices(dtype=dtype, index_dtype=index)))
    packed = _native.pack(taken.pattern, taken.data, fmt, transposed=transposed)
    before, where = packed.nbytes, packed.values.ctypes.data
    for factor in (2, 3):
        fresh = held_by(fmt, dataclasses.replace(taken, data=(taken.data * factor + 1).astype(dtype))).data
        packed.refresh(fresh)
        same(packed, _native.pack(taken.pattern, fresh, fmt, transposed=transposed))
    assert packed.values.ctypes.data == where, "bound kernels keep reading the same memory"
    places = packed.places()
    assert packed.nbytes == before + (places.nbytes if places is not None else 0)


@pytest.mark.parametrize("text", [*NATIVE, *GENERIC, *ORDERED])
@settings(max_examples=12)
@given(data=st.data(), transposed=st.booleans())
def test_ranges_of_entries_are_refreshed_alone(text: str, data: st.DataObject, transposed: bool) -> None:
    taken = data.draw(matrices(dtype="float64", index_dtype="int32"))
    packed = _native.pack(taken.pattern, taken.data, Format.parse(text), transposed=transposed)
    nnz = taken.pattern.nnz
    cuts = sorted(data.draw(st.lists(st.integers(0, nnz), min_size=4, max_size=4)))
    ranges = [(cuts[0], cuts[1]), (cuts[2], cuts[3] + 5)]  # chunks may end after the last entry
    fresh = taken.data.copy()
    for begin, end in ranges:
        fresh[begin:end] += 7
    packed.refresh(fresh, ranges)
    same(packed, _native.pack(taken.pattern, fresh, Format.parse(text), transposed=transposed))


def once_each() -> cases.Sample:
    """Return a matrix without repeated entries."""
    indices = np.array([np.random.default_rng(row).permutation(40)[:3] for row in range(40)], np.int32).ravel()
    return cases.Sample(cases.Pattern(40, 40, np.arange(0, 121, 3, dtype=np.int32), indices), np.arange(1.0, 121))


def test_refresh_reads_only_the_changed_ranges() -> None:
    taken = once_each()
    packed = _native.pack(taken.pattern, taken.data, Format.parse("i1:U,k1:C,i0:U | i=4"), transposed=False)
    before = packed.values.copy()
    packed.refresh(taken.data + 100, [(10, 12)])
    assert np.count_nonzero(packed.values != before) == 2


def test_entries_that_share_a_place_are_added_up() -> None:
    pattern = cases.Pattern(2, 4, np.array([0, 3, 4], np.int32), np.array([1, 1, 2, 0], np.int32))
    packed = _native.pack(pattern, np.arange(1.0, 5), Format.parse("i1:U,k1:C,i0:U | i=2"), transposed=False)
    assert packed.places() is None
    packed.refresh(np.array([10.0, 5, 1, 2]), [(0, 1)])
    assert packed.values.max() == 15


def test_refresh_works_without_memory_for_positions() -> None:
    taken = once_each()
    fmt = Format.parse("i1:U,k1:C,i0:U | i=4")
    packed = _native.pack(taken.pattern, taken.data, fmt, transposed=False)
    before = packed.nbytes
    packed.refresh(taken.data * 2, room_bytes=4 * taken.pattern.nnz - 1)
    assert packed.nbytes == before
    same(packed, _native.pack(taken.pattern, taken.data * 2, fmt, transposed=False))
    packed.refresh(taken.data * 3, room_bytes=4 * taken.pattern.nnz)
    assert packed.nbytes == before + 4 * taken.pattern.nnz


@covering(
    threads=[1, 3],
    origin=[None, "int32", "int64"],
    to=[None, "int32", "int64"],
    dtype=["uint8", "uint16", *DTYPES],
)
def test_every_type_of_value_and_index(dtype: str, to: str | None, origin: str | None, threads: int) -> None:
    rng = np.random.default_rng(0)
    n = 50_000
    indices = [None if kind is None else rng.permutation(n).astype(kind) for kind in (to, origin)]
    values, packed = rng.integers(0, 200, n).astype(dtype), np.zeros(n, dtype)
    with autosparse.options(threads=threads):
        assert packing_threads() == threads
        ValuePositions(n, *indices).fill(values, packed)
    wanted = np.zeros(n, dtype)
    wanted[slice(None) if indices[0] is None else indices[0]] = values if indices[1] is None else values[indices[1]]
    np.testing.assert_array_equal(packed, wanted)
