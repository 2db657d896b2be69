"""Tests of products of matrices with few entries per row: the same bits as by tiles, SciPy's values.

Products that are added to their result use tiles (`spmm_tile_body.h`), as do parts of few rows if most rows are empty.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api
from autosparse._native.runtime_api import FLAG_ACCUMULATE

from tests.native.runtime_cases import forced, isas, needs_runtime
from tests.native.test_irregular_rows import N_COLUMNS, of_lengths, part_of

pytestmark = needs_runtime

N_ROWS, N_PART = 9_001, 3_001


def matrix(dtype, index_dtype, n_rows=N_ROWS):
    """Return arrays of a matrix of which three rows in four are empty; some values are not finite."""
    rng = np.random.default_rng(3)
    lengths = np.where(rng.random(n_rows) < 0.25, rng.choice([1, 1, 1, 1, 2, 3, 4, 9], n_rows), 0)
    lengths[-1] = 1
    return of_lengths(rng, lengths, dtype, index_dtype, n_infinite=20)


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
@pytest.mark.parametrize("columns", [2, 3, 4, 5, 7, 8, 13, 16])
def test_mostly_empty_rows_have_the_bits_of_their_parts(isa, dtype, index_dtype, columns):
    csr = matrix(dtype, index_dtype)
    rng = np.random.default_rng(4)
    B = rng.standard_normal((N_COLUMNS, columns)).astype(dtype)
    B[7], B[8, 0] = np.nan, -np.inf
    before = rng.standard_normal((N_ROWS, columns)).astype(dtype)
    for flags in (0, FLAG_ACCUMULATE):
        whole, parts = before.copy(), before.copy()
        with forced(isa), np.errstate(all="ignore"):
            runtime_api.matmul(csr, (N_ROWS, N_COLUMNS), B, whole, threads=2, flags=flags)
            for first in range(0, N_ROWS, N_PART):
                n_rows = min(N_PART, N_ROWS - first)
                part = part_of(csr, first, n_rows)
                runtime_api.matmul(part, (n_rows, N_COLUMNS), B, parts[first : first + n_rows], flags=flags)
        is_number = ~np.isnan(parts)
        np.testing.assert_array_equal(whole, parts)
        assert whole[is_number].tobytes() == parts[is_number].tobytes(), "zeros have the same signs"


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("width", [4, 6])
def test_a_long_row_and_windows_of_wider_results(threads, width):
    indptr, indices, data = matrix("float64", "int32", n_rows=120_000)
    data[np.isinf(data)] = 1.0
    at, n_long = 7, 20_000
    rng = np.random.default_rng(5)
    indices = np.concatenate([indices[: indptr[at]], rng.integers(0, N_COLUMNS, n_long), indices[indptr[at] :]])
    data = np.concatenate([data[: indptr[at]], rng.random(n_long), data[indptr[at] :]])
    indptr[at + 1 :] += n_long
    m = sps.csr_array((data, indices.astype(np.int32), indptr), shape=(120_000, N_COLUMNS))
    B, out = rng.random((N_COLUMNS, 4)), np.full((120_000, width), 9.0)
    csr = m.indptr, m.indices, m.data
    runtime_api.matmul(csr, m.shape, B, out[:, :4], threads=threads)
    np.testing.assert_allclose(out[:, :4], m @ B, rtol=1e-12)
    assert (out[:, 4:] == 9.0).all()


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mean", [1, 3, 5])
@pytest.mark.parametrize("threads", [1, 3])
def test_short_rows_have_the_bits_of_tiles_and_write_nothing_else(isa, dtype, mean, threads):
    rng = np.random.default_rng(mean)
    n_rows = 2_003
    csr, shape = of_lengths(rng, rng.integers(0, 2 * mean, n_rows), dtype, n_infinite=5), (n_rows, N_COLUMNS)
    for columns in (2, 3, 4, 6, 7, 8, 11, 16):
        B = rng.standard_normal((N_COLUMNS, columns)).astype(dtype)
        B[7] = np.nan
        out, behind = np.full((2, n_rows, columns), 9.0, dtype)
        by_tiles = np.zeros_like(out)
        with forced(isa), np.errstate(all="ignore"):
            runtime_api.matmul(csr, shape, B, out, threads=threads)
            runtime_api.matmul(csr, shape, B, by_tiles, threads=threads, flags=FLAG_ACCUMULATE)
        np.testing.assert_array_equal(out, by_tiles)
        assert (behind == 9.0).all()
