"""Tests of ``for row in A``: rows, dtypes and errors are SciPy's, and no row passes through SciPy's constructor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from scipy.sparse._compressed import _cs_matrix

import autosparse as asp

CLASSES = ("csr_array", "csr_matrix", "csc_array", "csc_matrix")


def plain(name: str, shape: tuple[int, int], dtype: str, index: str) -> Any:
    m = sps.random_array(shape, density=0.3, random_state=np.random.default_rng(0), format="csr")
    m.data = (m.data * 5).astype(dtype)
    m = getattr(sps, name)(m)
    m.indices, m.indptr = m.indices.astype(index), m.indptr.astype(index)
    return m


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["float64", "complex64", "bool", "int8"])
@pytest.mark.parametrize("shape", [(7, 5), (0, 5), (4, 0), (1, 9)])
@pytest.mark.parametrize("name", CLASSES)
def test_rows_are_scipys(name: str, shape: tuple[int, int], dtype: str, index: str) -> None:
    m = plain(name, shape, dtype, index)
    A = getattr(asp, name)(m)
    theirs, ours = list(m), list(A)
    assert len(theirs) == len(ours) == shape[0]
    for mine, row in zip(ours, theirs, strict=True):
        assert type(mine) is getattr(asp, type(row).__name__)
        assert (mine.shape, mine.dtype, mine.nnz) == (row.shape, row.dtype, row.nnz)
        for field in ("indptr", "indices", "data"):
            mine_array, array = getattr(mine, field), getattr(row, field)
            assert mine_array.dtype == array.dtype
            np.testing.assert_array_equal(mine_array, array)
        np.testing.assert_array_equal(mine.toarray(), row.toarray())
        assert not mine.nnz or not np.shares_memory(mine.data, A.data)


def test_a_row_is_an_operand_like_others() -> None:
    m = plain("csr_array", (6, 5), "float64", "int32")
    x, X = np.arange(5.0), np.arange(10.0).reshape(5, 2)
    for mine, row in zip(asp.csr(m), m, strict=True):
        assert float(mine @ x) == pytest.approx(float(row @ x))
        np.testing.assert_allclose(mine @ X, row @ X)
        mine.data[:] = 1.0
        assert mine.sum() == row.nnz
        mine *= 2
        assert mine.max() == (2 if row.nnz else 0)


def test_a_write_between_rows_is_seen_as_in_scipy() -> None:
    m = sps.csr_array(np.ones((3, 4)))
    A = asp.csr(m)
    for M in (m, A):
        rows = iter(M)
        next(rows)
        M.data[:] = 5.0
        assert next(rows).sum() == 20.0


def test_rows_of_a_subclass_are_made_by_its_constructor() -> None:
    class Mine(asp.csr_array):  # type: ignore[misc,name-defined]
        pass

    assert {type(row) for row in Mine(np.eye(3))} == {Mine}


@pytest.mark.parametrize("name", ["csr_array", "csr_matrix"])
def test_no_row_passes_through_scipys_constructor(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    A = getattr(asp, name)(plain(name, (50, 40), "float64", "int32"))
    made = []
    monkeypatch.setattr(_cs_matrix, "__init__", lambda *_, **__: made.append(1))
    assert len(list(A)) == 50
    assert not made
