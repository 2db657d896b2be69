"""Tests of products with few columns and a matrix whose rows have irregular lengths: the same bits as of parts of it.

Matrices of fewer rows use other kernels (`MIN_LONGER_ROWS` in `irregular_rows.c`), whose results have the same bits.
"""

from __future__ import annotations

import numpy as np
import pytest
from autosparse._native import runtime_api
from autosparse._native.runtime_api import FLAG_ACCUMULATE

from tests.native.runtime_cases import forced, isas, needs_runtime

pytestmark = needs_runtime

N_ROWS, N_PART, N_COLUMNS = 40_000, 5_000, 300


def matrix(dtype, index_dtype, max_length):
    """Return arrays of a matrix with rows of 0 to `max_length` entries, some of them not finite."""
    rng = np.random.default_rng(3)
    indptr = np.concatenate([[0], np.cumsum(rng.integers(0, max_length + 1, N_ROWS))]).astype(index_dtype)
    data = rng.standard_normal(indptr[-1]).astype(dtype)
    data[rng.integers(0, data.size, 50)] = np.inf
    return indptr, rng.integers(0, N_COLUMNS, indptr[-1]).astype(index_dtype), data


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
@pytest.mark.parametrize("max_length", [8, 40])
def test_irregular_rows_have_the_bits_of_their_parts(isa, dtype, index_dtype, max_length):
    indptr, indices, data = matrix(dtype, index_dtype, max_length)
    rng = np.random.default_rng(4)
    for columns in (2, 3, 4, 5, 8):
        B = rng.standard_normal((N_COLUMNS, columns)).astype(dtype)
        B[7], B[8, 0] = np.nan, -np.inf
        before = rng.standard_normal((N_ROWS, columns)).astype(dtype)
        for flags in (0, FLAG_ACCUMULATE):
            whole, parts = before.copy(), before.copy()
            with forced(isa), np.errstate(all="ignore"):
                runtime_api.matmul((indptr, indices, data), (N_ROWS, N_COLUMNS), B, whole, threads=2, flags=flags)
                for first in range(0, N_ROWS, N_PART):
                    at = indptr[first : first + N_PART + 1]
                    entries = slice(at[0], at[-1])
                    part = at - at[0], indices[entries].copy(), data[entries].copy()
                    runtime_api.matmul(part, (N_PART, N_COLUMNS), B, parts[first : first + N_PART], flags=flags)
            np.testing.assert_array_equal(whole, parts, err_msg=f"{columns} {flags}")
            is_number = ~np.isnan(parts)
            assert 0 < is_number.sum() < parts.size
            assert whole[is_number].tobytes() == parts[is_number].tobytes(), "zeros have the same signs"
