"""Tests of products of matrices whose rows have irregular lengths: the same bits as of parts of them.

Matrices of fewer rows or entries use other kernels (`MIN_LONGER_ROWS` in `irregular_rows.c`, `SAMPLED_ENTRIES` in
`dots_any.c`), whose results have the same bits.
"""

from __future__ import annotations

import numpy as np
import pytest
from autosparse._native import runtime_api
from autosparse._native.runtime_api import FLAG_ACCUMULATE

from tests.native.runtime_cases import forced, isas, needs_runtime

pytestmark = needs_runtime

N_ROWS, N_PART, N_COLUMNS = 40_000, 5_000, 300
RUNS = ((300, 64), (900, 1100), (4900, 333), (39_900, 100))
"""First rows and lengths of runs of rows of one entry, which `two_columns.c` computes together."""


def part_of(csr, first, n_rows):
    """Return the arrays of `n_rows` rows from `first` on."""
    indptr, indices, data = csr
    at = indptr[first : first + n_rows + 1]
    entries = slice(at[0], at[-1])
    return at - at[0], indices[entries].copy(), data[entries].copy()


def sampled(csr, X, Y):
    """Return the product of the stored values with the products of rows of X and Y."""
    indptr, indices, data = csr
    out, pointer = np.full_like(data, np.nan), runtime_api.pointer
    status = runtime_api.lib.asp_sddmm_scaled(
        runtime_api.DTYPE_CODES[data.dtype.name], runtime_api.INDEX_CODES[indices.dtype.name], len(X), len(Y),
        *map(pointer, (indptr, indices, X)), X.shape[1], pointer(Y), Y.shape[1], X.shape[1], pointer(data),
        pointer(out), 1, 0,
    )  # fmt: skip
    assert status == 0
    return out


def matrix(dtype, index_dtype, max_length):
    """Return arrays of a matrix with rows of 0 to `max_length` entries, some of them not finite, and of one entry."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, max_length + 1, N_ROWS)
    for first, n_rows in RUNS:
        lengths[first : first + n_rows] = 1
    return of_lengths(rng, lengths, dtype, index_dtype)


def of_lengths(rng, lengths, dtype, index_dtype="int32", n_infinite=50):
    """Return arrays of a matrix whose rows have these lengths; at most `n_infinite` values are infinite."""
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(index_dtype)
    data = rng.standard_normal(indptr[-1]).astype(dtype)
    data[rng.integers(0, data.size, n_infinite)] = np.inf
    return indptr, rng.integers(0, N_COLUMNS, indptr[-1]).astype(index_dtype), data


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
@pytest.mark.parametrize("max_length", [8, 40])
def test_irregular_rows_have_the_bits_of_their_parts(isa, dtype, index_dtype, max_length):
    csr = matrix(dtype, index_dtype, max_length)
    rng = np.random.default_rng(4)
    for columns in (2, 3, 4, 5, 8):
        B = rng.standard_normal((N_COLUMNS, columns)).astype(dtype)
        B[7], B[8, 0] = np.nan, -np.inf
        before = rng.standard_normal((N_ROWS, columns)).astype(dtype)
        for flags in (0, FLAG_ACCUMULATE):
            whole, parts = before.copy(), before.copy()
            with forced(isa), np.errstate(all="ignore"):
                runtime_api.matmul(csr, (N_ROWS, N_COLUMNS), B, whole, threads=2, flags=flags)
                for first in range(0, N_ROWS, N_PART):
                    part = part_of(csr, first, N_PART)
                    runtime_api.matmul(part, (N_PART, N_COLUMNS), B, parts[first : first + N_PART], flags=flags)
            np.testing.assert_array_equal(whole, parts, err_msg=f"{columns} {flags}")
            is_number = ~np.isnan(parts)
            assert 0 < is_number.sum() < parts.size
            assert whole[is_number].tobytes() == parts[is_number].tobytes(), "zeros have the same signs"


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_sampled_products_of_irregular_rows_have_the_bits_of_their_parts(isa, dtype, index_dtype):
    csr = matrix(dtype, index_dtype, 9)
    n_rows, n_part = 4000, 500
    csr, rng = part_of(csr, 0, n_rows), np.random.default_rng(5)
    for columns in (1, 2, 3, 7, 8, 9, 15, 17, 31):
        X = rng.standard_normal((n_rows, columns)).astype(dtype)
        Y = rng.standard_normal((N_COLUMNS, columns)).astype(dtype)
        Y[3] = np.inf
        with forced(isa), np.errstate(all="ignore"):
            whole = sampled(csr, X, Y)
            parts = [sampled(part_of(csr, at, n_part), X[at : at + n_part], Y) for at in range(0, n_rows, n_part)]
        np.testing.assert_array_equal(whole, np.concatenate(parts), err_msg=str(columns))
        rows = np.repeat(np.arange(n_rows), np.diff(csr[0]))
        with np.errstate(all="ignore"):
            wanted = csr[2] * np.einsum("ij,ij->i", X[rows].astype(float), Y[csr[1]].astype(float))
        np.testing.assert_allclose(whole, wanted, rtol=1e-3, atol=1e-3)
