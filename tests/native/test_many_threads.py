"""Test that products on more threads than cores equal SciPy's: `threads` is a number of threads, not of cores."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from tests.native.hooks import on_several_threads
from tests.native.runtime_cases import needs_runtime

pytestmark = needs_runtime


@pytest.fixture(autouse=True)
def helpers():
    with on_several_threads():
        yield


def matrix(rng: np.random.Generator, dtype: str) -> sps.csr_array:
    """Return a matrix with empty rows, a row of a third of all entries, and rows of a few."""
    lengths = np.where(rng.random(700) < 0.1, 0, rng.integers(1, 9, 700))
    lengths[350] = 1500
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    m = sps.csr_array((rng.integers(-3, 4, indptr[-1]), rng.integers(0, 600, indptr[-1]), indptr), shape=(700, 600))
    m.sum_duplicates()
    return m.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("threads", [3, 16, 64])
def test_products_equal_scipy(threads: int, dtype: str) -> None:
    """Values are small integers, so that every order of summation gives the same bits."""
    rng = np.random.default_rng(threads)
    m = matrix(rng, dtype)
    with asp.options(threads=threads, effort="off"):
        A = asp.csr(m)
        for columns in (1, 3, 32, 256):
            B = rng.integers(-4, 5, (600, columns) if columns > 1 else 600).astype(dtype)
            C = rng.integers(-4, 5, (700, columns) if columns > 1 else 700).astype(dtype)
            np.testing.assert_array_equal(A @ B, m @ B)
            np.testing.assert_array_equal(A.T @ C, m.T @ C)


@pytest.mark.parametrize("threads", [3, 16, 64])
def test_sampled_and_tensor_products_equal_numpy(threads: int) -> None:
    rng = np.random.default_rng(threads)
    m = matrix(rng, "float64")
    rows, columns = m.tocoo().coords
    coords = np.stack([rng.integers(0, n, 4000) for n in (60, 50, 40)])
    values = rng.integers(-3, 4, 4000).astype(float)
    dense = np.zeros((60, 50, 40))
    np.add.at(dense, tuple(coords), values)
    with asp.options(threads=threads, effort="off"):
        for K in (1, 16, 50):
            X, Y = (rng.integers(-4, 5, (n, K)).astype(float) for n in m.shape)
            np.testing.assert_array_equal(asp.sddmm(asp.csr(m), X, Y.T).data, m.data * (X[rows] * Y[columns]).sum(1))
        T = asp.tensor(coords, values, dense.shape)
        factors = [rng.integers(-4, 5, (n, 16)).astype(float) for n in dense.shape]
        got = asp.mttkrp(T, factors, 0)
        np.testing.assert_array_equal(got, np.einsum("abc,bz,cz->az", dense, factors[1], factors[2]))
