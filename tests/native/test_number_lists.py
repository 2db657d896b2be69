"""Tests of lists of rows and columns in records: parsing needs no more memory than the pattern has rows or columns."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native.storage.parts import _takes_rows

from autosparse.core.composite import ColumnList, Numbers, RowList, selection_of
from autosparse.core.pattern import Pattern
from autosparse.errors import ScheduleError


def pattern() -> Pattern:
    m = sps.csr_array(np.eye(8))
    return Pattern(8, 8, m.indptr, m.indices)


@pytest.mark.parametrize("text", ["row_list(0-3,9)", "row_list(7)", "columns(1-2,5,8-9)"])
def test_a_list_prints_as_it_was_read(text: str) -> None:
    assert str(selection_of(text)) == text
    assert selection_of("row_list(0-3,9)") == RowList((0, 1, 2, 3, 9))
    assert selection_of("columns(4)") == ColumnList([4])
    assert Numbers.of([0, 1, 2, 9]).below(3) == [0, 1, 2]


@pytest.mark.parametrize("numbers", ["0-3999999999", "5,7-99999999999999999999999"])
def test_lists_of_numbers_are_bounded_by_the_pattern(numbers: str) -> None:
    tracemalloc.start()
    rows, columns = selection_of(f"row_list({numbers})"), selection_of(f"columns({numbers})")
    found = _takes_rows(rows, pattern(), np.arange(8))
    taken = np.isin(np.arange(8), columns.numbers.below(8))
    str(rows)
    hash(columns)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
    wanted = np.ones(8, bool) if numbers[0] == "0" else np.isin(np.arange(8), [5, 7])
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(taken, wanted)


@pytest.mark.parametrize("text", ["row_list(5-2)", "row_list(3,3)", "row_list(0-3,3-5)", "columns(4,1)", "columns()"])
def test_lists_that_do_not_ascend_are_refused(text: str) -> None:
    with pytest.raises(ScheduleError):
        selection_of(text)
