"""Tests of sums over triangles: a symmetric matrix uses its strict lower part, others take the general path."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse.contraction.operands import prepare
from autosparse.contraction.routes.triangles import triangles
from autosparse.contraction.subscripts import read
from autosparse.explain import explain_einsum


def symmetric(dtype=np.float64, n=30):
    rng = np.random.default_rng(0)
    lower = np.tril(rng.integers(-4, 5, (n, n)) * (rng.random((n, n)) < 0.3)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        lower = lower * dtype(1 + 0.5j)
    lower[3, :3] = 0  # a row with nothing but its diagonal entry
    lower[4:, 3] = 0
    lower[3, 3] = 2
    return lower + np.tril(lower, -1).T


def halved(text, *matrices):
    subscripts = read(text, [one.shape for one in matrices])
    return triangles(prepare(matrices, subscripts, matrices[0].dtype), subscripts)


@pytest.mark.parametrize("dtype", [np.float64, np.complex64, np.int8])
@pytest.mark.filterwarnings("error")
def test_the_sum_is_numpys(dtype):
    array = symmetric(dtype)
    A = sps.csr_array(array)
    for text in ("ij,jk,ik->", "ab,bc,ca->", "ij,kj,ik->"):
        assert halved(text, A, A, A) is not None
        found = asp.einsum(text, A, A, A)
        np.testing.assert_allclose(found, np.einsum(text, array, array, array), rtol=1e-6)
        assert found.dtype == array.dtype


def test_only_one_matrix_equal_to_its_transpose_is_halved():
    array = symmetric()
    A = sps.csr_array(array)
    assert halved("ij,jk,ik->", A, A, A.copy()) is None
    assert halved("ij,jk,ik->i", A, A, A) is None
    assert halved("ij,jk,kj->", A, A, A) is None
    one_value = A.copy()
    one_value.data[5] += 1.0
    one_entry = array.copy()
    one_entry[tuple(np.argwhere(array == 0)[1])] = 1.0
    for other in (one_value, sps.csr_array(one_entry), sps.csr_array(array * np.where(array == 2, np.nan, 1.0))):
        assert halved("ij,jk,ik->", other, other, other) is None
        dense = other.toarray()
        np.testing.assert_allclose(asp.einsum("ij,jk,ik->", *[other] * 3), np.einsum("ij,jk,ik->", *[dense] * 3))


def test_a_value_written_later_is_seen():
    A = sps.csr_array(symmetric())
    asp.einsum("ij,jk,ik->", A, A, A)
    A.data[np.flatnonzero(A.data > 0)[0]] += 1.0
    array = A.toarray()
    np.testing.assert_allclose(asp.einsum("ij,jk,ik->", A, A, A), np.einsum("ij,jk,ik->", array, array, array))


@pytest.mark.usefixtures("kernels_at_once")
def test_infinite_values_are_in_the_terms_that_exist():
    array = np.zeros((4, 4))
    array[0, 0], array[1, 2], array[2, 1] = np.inf, 3.0, 3.0
    A = sps.csr_array(array)
    assert asp.einsum("ij,jk,ik->", A, A, A) == np.inf


@pytest.mark.usefixtures("kernels_at_once")
def test_the_symmetric_shortcut_is_explained():
    A = sps.csr_array(symmetric())
    assert "six times" in asp.einsum_path("ij,jk,ik->", A, A, A)
    assert "equal to its transpose" in str(explain_einsum("ij,jk,ik->", A, A, A))
