"""Tests of packing: native equals generic equals the matrix, sizes are predicted, refresh equals packing again."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse._native.storage import packers as native_packers
from autosparse._native.storage import packing
from hypothesis import given, settings
from hypothesis import strategies as st

from autosparse import _native
from autosparse.core.formats import Format
from autosparse.errors import PackError
from tests.native import cases

NATIVE = [
    "i1:U,k1:C | bits=16",
    "i1:U,k1:C,i0:U,k0:U | i=4,k=4",
    "i1:U,k1:C,k0:U,i0:U | i=3,k=5 | bits=16",
    "i1:U,k1:C,i0:U | i=8",
    "i1:U,k1:C,k0:U | k=3 | bits=64",
    "k1:U,i1:U,k0:C | k=7 | bits=16",
    "k1:U,i1:U,k0:C | k=16",
]
GENERIC = [
    "i1:C,k1:C",
    "k1:U,i1:C",
    "k1:C,i1:C",
    "i1:U,k1:U",
    "i1:C,k1:C,i0:C,k0:C | i=2,k=3",
    "k0:U,i1:C,k1:U,i0:C | i=3,k=4",
    "i1:U,i0:U,k1:C,k0:U | i=4,k=4",
    "i1:N,k1:Q",
    "i1:U,k1:N,k0:Q | k=3 | bits=16",
]
DTYPES = ["float32", "float64", "complex64", "complex128"]


def as_matrix(packed: _native.PackedOperand) -> sp.csr_array:
    indptr, indices, data = packed.unpack()
    return sp.csr_array((data, indices, indptr), shape=(packed.sizes["i"], packed.sizes["k"]))


@pytest.mark.parametrize("text", ["i1:U,k1:C", *NATIVE, *GENERIC])
@settings(max_examples=25)
@given(
    data=st.data(),
    transposed=st.booleans(),
    dtype=st.sampled_from(DTYPES),
    index_dtype=st.sampled_from(["int32", "int64"]),
)
def test_unpack_inverts_pack(text: str, data: st.DataObject, transposed: bool, dtype: str, index_dtype: str) -> None:
    fmt = Format.parse(text)
    taken = data.draw(cases.samples(dtype=dtype, index_dtype=index_dtype))
    packed = _native.pack(taken.pattern, taken.data, fmt, transposed=transposed)
    expected = taken.matrix.T if transposed else taken.matrix
    np.testing.assert_array_equal(as_matrix(packed).toarray(), expected.toarray())
    if not fmt.has_padding:
        assert packed.values.size == taken.pattern.nnz  # repeated entries and zeros are kept
    bound = _native.packed_bytes(taken.pattern, fmt, taken.data.itemsize, transposed=transposed)
    assert packed.nbytes <= bound
    if text in NATIVE:
        assert packed.nbytes == bound


@pytest.mark.parametrize("text", NATIVE)
@settings(max_examples=25)
@given(data=st.data(), transposed=st.booleans(), dtype=st.sampled_from(DTYPES))
def test_native_packers_equal_the_generic_one(text: str, data: st.DataObject, transposed: bool, dtype: str) -> None:
    fmt = Format.parse(text)
    taken = data.draw(cases.samples(dtype=dtype, index_dtype="int32"))
    native = native_packers.pack(taken.pattern, taken.data, fmt, transposed=transposed)
    assert native is not None
    generic = packing.pack_generic(taken.pattern, taken.data, fmt, transposed=transposed)
    for mine, theirs in zip(native[:2], generic[:2], strict=True):
        assert mine.keys() == theirs.keys()
        for name in mine:
            np.testing.assert_array_equal(mine[name], theirs[name])
            assert mine[name].dtype == theirs[name].dtype
    np.testing.assert_array_equal(native[2], generic[2])


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("text", ["i1:U,k1:C", *NATIVE, *GENERIC])
def test_refresh_equals_packing_again(text: str, transposed: bool) -> None:
    fmt = Format.parse(text)
    taken = cases.sample(23, 19, [3] * 23, seed=3)
    packed = _native.pack(taken.pattern, taken.data, fmt, transposed=transposed)
    where = packed.values.ctypes.data
    fresh = np.arange(1, taken.data.size + 1, dtype=np.float32)
    packed.refresh(fresh)
    again = _native.pack(taken.pattern, fresh, fmt, transposed=transposed)
    np.testing.assert_array_equal(packed.values, again.values)
    assert packed.live or packed.values.ctypes.data == where  # bound kernels keep reading the same memory


def test_order_of_entries_inside_a_row_is_the_users() -> None:
    indptr, indices = np.array([0, 4], np.int32), np.array([5, 0, 5, 1], np.int32)
    taken = cases.Sample(cases.Pattern(1, 6, indptr, indices), np.arange(1, 5, dtype=np.float32))
    for text in ("i1:U,k1:C | bits=16", "k1:U,i1:U,k0:C | k=8", "i1:C,k1:C"):
        packed = _native.pack(taken.pattern, taken.data, Format.parse(text), transposed=False)
        np.testing.assert_array_equal(packed.values, taken.data)
    assert not packed.is_sorted("k1")


def test_live_operands_take_no_memory_and_share_the_arrays() -> None:
    taken = cases.sample(5, 5, [2] * 5, seed=0)
    packed = _native.pack(taken.pattern, taken.data, Format.parse("i1:U,k1:C"), transposed=False)
    assert packed.values is taken.data
    assert packed.crd["k1"] is taken.pattern.indices
    assert packed.nbytes == _native.packed_bytes(taken.pattern, packed.fmt, 4, transposed=False) == 0


def test_capacity_beyond_nnz_is_not_read() -> None:
    taken = cases.sample(6, 40, [3] * 6, seed=0)
    indices = np.concatenate([taken.pattern.indices, np.full(9, 10**6, np.int32)])
    data = np.concatenate([taken.data, np.full(9, np.nan, np.float32)])
    pattern = cases.Pattern(6, 40, taken.pattern.indptr, indices)
    for text in [*NATIVE, *GENERIC]:
        for transposed in (False, True):
            packed = _native.pack(pattern, data, Format.parse(text), transposed=transposed)
            expected = taken.matrix.T if transposed else taken.matrix
            np.testing.assert_array_equal(as_matrix(packed).toarray(), expected.toarray())


def test_too_many_coordinates_for_the_index_width_are_refused() -> None:
    indptr, indices = np.array([0, 1], np.int32), np.array([70_000], np.int32)
    pattern, data = cases.Pattern(1, 70_001, indptr, indices), np.ones(1, np.float32)
    with pytest.raises(PackError, match="16 bits"):
        _native.pack(pattern, data, Format.parse("i1:U,k1:C | bits=16"), transposed=False)
    split = Format.parse("k1:U,i1:U,k0:C | k=32768 | bits=16")
    packed = _native.pack(pattern, data, split, transposed=False)
    assert packed.crd["k0"].tolist() == [70_000 % 32768]


def test_a_format_that_would_explode_is_known_before() -> None:
    n = 1 << 20
    pattern = cases.Pattern(n, n, np.zeros(n + 1, np.int64), np.zeros(0, np.int64))
    assert _native.packed_bytes(pattern, Format.parse("i1:U,k1:U"), 8, transposed=False) == 8 * n * n


@pytest.mark.parametrize("c", [3, 5, 7, 4096, 12345, 32767])
def test_division_by_any_split_is_exact(c: int) -> None:
    edges = np.unique(np.concatenate([[0, 2**24 - 2], *(np.arange(1, 60) * c + off for off in (-1, 0, 1))]))
    pattern = cases.Pattern(1, 2**24 - 1, np.array([0, edges.size], np.int32), edges.astype(np.int32))
    assert native_packers.count_blocks(pattern, 1, c, transposed=False) == np.unique(edges // c).size


@pytest.mark.parametrize(("text", "transposed"), [("i1:U,k1:C | rows=degree", False), ("i1:U,k1:C", True)])
def test_rows_that_were_made_for_packing_are_not_copied(text: str, transposed: bool) -> None:
    A = sp.random_array((900, 900), density=0.3, format="csr", random_state=np.random.default_rng(0))
    pattern = cases.Pattern(*A.shape, A.indptr.astype(np.int32), A.indices.astype(np.int32))
    tracemalloc.start()
    try:
        packed = _native.pack(pattern, A.data, Format.parse(text), transposed=transposed)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert packed.nbytes > 12 * A.nnz
    assert peak_bytes < 1.7 * packed.nbytes
