"""Tests of docs/differences.md on overflow: results are finite and near where the sum of magnitudes is finite.

Beyond that range, a documented call computes SciPy's answer.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp

EDGE = {"float32": 1e38, "float64": 1e308}


def alternating(dtype: str, n: int = 16) -> sps.csr_array:
    """Return a matrix whose row sums stay finite from left to right, but may overflow in another order."""
    row = np.array([EDGE[dtype], -EDGE[dtype]] * (n // 2), dtype)
    return sps.csr_array(np.tile(row, (40, 1)))


@pytest.mark.parametrize("dtype", EDGE)
@pytest.mark.parametrize("columns", [0, 1, 8])
def test_to_scipy_gives_scipys_result_where_sums_overflow(dtype: str, columns: int) -> None:
    m = alternating(dtype)
    B = np.ones((16, columns) if columns else 16, dtype)
    wanted = m @ B
    assert not wanted.any()
    A = asp.csr(m.copy())
    np.testing.assert_array_equal(A.to_scipy() @ B, wanted)
    np.testing.assert_array_equal((A * dtype_number(dtype, 2.0**-8)) @ B * dtype_number(dtype, 2.0**8), wanted)


def dtype_number(dtype: str, value: float) -> np.generic:
    return np.dtype(dtype).type(value)


@pytest.mark.parametrize("dtype", EDGE)
@pytest.mark.parametrize("columns", [0, 1, 5, 32])
@pytest.mark.parametrize("fmt", ["csr", "csc"])
def test_results_are_finite_and_near_wherever_the_sum_of_magnitudes_is(dtype: str, columns: int, fmt: str) -> None:
    rng = np.random.default_rng(0)
    m = sps.random_array((200, 64), density=0.3, random_state=rng, dtype=dtype, format=fmt)
    m.data = (rng.standard_normal(m.nnz) * (EDGE[dtype] / 1e3)).astype(dtype)
    B = rng.uniform(-1, 1, (64, columns) if columns else 64).astype(dtype)
    got = asp.csr(m.copy()) @ B
    magnitudes = abs(m) @ abs(B)
    assert np.isfinite(magnitudes).all()
    assert np.isfinite(got).all()
    eps = np.finfo(dtype).eps
    assert (np.abs(got / 2 - (m @ B) / 2) <= 64 * eps * magnitudes).all()
