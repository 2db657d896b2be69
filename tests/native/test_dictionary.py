"""Tests of dictionary-encoded values: distinct by their bits, refused beyond the table's size, never stale."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
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
