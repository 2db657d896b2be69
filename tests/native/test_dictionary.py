"""Tests of dictionary-encoded values: distinct by their bits, refused beyond the table's size, never stale."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse._native.kernels import slice_kernel
from autosparse._native.kernels.slice_names import Slices
from autosparse._native.storage import dictionary
from autosparse.tuner.space import spaces

from autosparse import _native
from autosparse.core.formats import DICTIONARY, Format
from autosparse.core.pattern import Pattern
from autosparse.core.problem import Problem
from autosparse.core.target import Target
from autosparse.errors import PackError, ScheduleError
from tests.native.runtime_cases import needs_runtime

pytestmark = needs_runtime
SLICES = Format.parse("i1:U,k1:D,i0:U | i=8 | values=numbered | bits=16")


@pytest.mark.parametrize("dtype", dictionary.DTYPES)
def test_kinds_are_told_apart_by_their_bits(dtype: str) -> None:
    kinds = np.array([-0.0, 0.0, np.nan, np.inf, -np.inf, 1.0, np.nextafter(np.dtype(dtype).type(1), 2)], dtype)
    values = np.random.default_rng(0).choice(kinds, 1000)
    numbers, table = dictionary.encoded(values, SLICES)
    assert table[numbers].tobytes() == values.tobytes()
    assert table[:1].tobytes() == np.zeros(1, dtype).tobytes()  # value of the padding


@pytest.mark.parametrize("dtype", dictionary.DTYPES)
def test_a_table_holds_fifteen_kinds_beside_zero(dtype: str) -> None:
    full = np.tile(np.arange(1, dictionary.TABLE), 200).astype(dtype)
    more = np.append(full, full.dtype.type(dictionary.TABLE))
    assert dictionary.has_few_kinds(full)
    assert dictionary.has_few_kinds(np.append(full, full.dtype.type(0)))
    assert not dictionary.has_few_kinds(more)  # the sixteenth distinct value is the last of many
    assert dictionary.has_few_kinds(full[:0])
    numbers, table = dictionary.encoded(full, SLICES)
    np.testing.assert_array_equal(table[numbers], full)
    with pytest.raises(PackError, match="more than 15 different values"):
        dictionary.encoded(more, SLICES)


def test_values_that_no_table_holds_leave_the_packed_copy_as_it_was() -> None:
    pattern = Pattern(40, 40, np.arange(41, dtype=np.int32), np.arange(40, dtype=np.int32))
    packed = _native.pack(pattern, np.ones(40), SLICES, transposed=False)
    before, table = packed.values.copy(), packed.crd["table"].copy()
    with pytest.raises(PackError, match="different values"):
        packed.refresh(np.arange(40.0))
    np.testing.assert_array_equal(packed.values, before)
    np.testing.assert_array_equal(packed.crd["table"], table)
    packed.refresh(np.full(40, 3.0))
    np.testing.assert_array_equal(packed.numbers[packed.values != 0], 3.0)


def test_packing_numbers_takes_no_copy_of_the_exact_values() -> None:
    m = sp.csr_array(sp.diags_array([1.0, 4.0, 1.0], offsets=[-300, 0, 300], shape=(100_000, 100_000)))
    packed = slice_kernel.laid_out(m.shape, m.indptr, m.indices, Slices(32, is_encoded=True))
    tracemalloc.start()
    try:
        assert packed.fill(m.indptr, m.indices, m.data)
        assert tracemalloc.get_traced_memory()[1] < m.data.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", ["i1:U,k1:D,i0:U", "i1:U,k1:S,i0:U"])
@pytest.mark.parametrize("is_repeated", [False, True])
def test_packed_numbers_are_the_values_and_the_sums_of_repeated_entries(text: str, is_repeated: bool) -> None:
    """Check slices with and without diagonals; with two entries of one row in the same column, too."""
    n = 64
    columns = np.array([np.arange(n), np.arange(n) if is_repeated else (np.arange(n) + 1) % n], np.int32).T.ravel()
    values, pattern = np.tile([1.0, -2.0], n), Pattern(n, n, np.arange(0, 2 * n + 1, 2, dtype=np.int32), columns)
    packed = _native.pack(pattern, values, Format.parse(f"{text} | i=8 | values=numbered | bits=16"), transposed=False)
    indptr, indices, data = packed.unpack()
    found = sp.csr_array((data, indices, indptr), shape=(n, n)).toarray()
    np.testing.assert_array_equal(found, sp.csr_array((values, columns, pattern.indptr), shape=(n, n)).toarray())


def test_slices_of_the_first_race_refuse_sums_of_repeated_entries() -> None:
    n = 64
    indptr, indices = np.arange(0, 2 * n + 1, 2, dtype=np.int32), np.repeat(np.arange(n, dtype=np.int32), 2)
    packed = slice_kernel.laid_out((n, n), indptr, indices, Slices(32, is_encoded=True))
    assert not packed.fill(indptr, indices, np.tile([1.0, -2.0], n))


def test_slices_alone_number_their_values() -> None:
    with pytest.raises(ScheduleError, match="no other format numbers them"):
        Format.parse("i1:U,k1:C | values=numbered")
    pattern = Pattern(1, 1, np.array([0, 1], np.int32), np.zeros(1, np.int32))
    with pytest.raises(PackError, match="complex128"):
        _native.pack(pattern, np.ones(1, complex), SLICES, transposed=False)


@pytest.mark.parametrize("storage", ["", DICTIONARY])
def test_a_space_numbers_values_of_slices_where_they_are_of_few_kinds(storage: str) -> None:
    A = sp.random_array((300, 400), density=0.05, format="csr", random_state=np.random.default_rng(0))
    problem = Problem(
        operation="matmul", pattern=Pattern(300, 400, A.indptr, A.indices), transposed=False, n_dense_cols=1,
        dtype="float64", threads=1, deterministic=False, target=Target.host(), storage=storage,
    )  # fmt: skip
    space = spaces.candidates(problem, _native.supports)
    assert {one.format.values for one in space} == {"", storage}
    assert {one.format.values for one in space if not one.format.is_sliced} == {""}
