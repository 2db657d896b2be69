"""Tests that memory and work of einsum are proportional to the number of entries, whatever the extents."""

from __future__ import annotations

import string
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from tests.einsum.test_structures import as_dense, call, matrix  # noqa: F401  a fixture

HUGE = 2**40
MAX_BYTES = 64 << 20


@pytest.fixture(autouse=True)
def little_memory():
    """Fail a test whose allocations exceed MAX_BYTES."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MAX_BYTES


def wide(seed, n_rows):
    rng = np.random.default_rng(seed)
    cols = rng.integers(0, HUGE, 20)[rng.integers(0, 20, 60)]
    return sps.coo_array((rng.random(60), (rng.integers(0, n_rows, 60), cols)), shape=(n_rows, HUGE))


def test_wide_matrices_are_joined_by_entries(call):  # noqa: F811
    A, B = wide(1, 9).tocsr(), wide(1, 7).tocsr()
    np.testing.assert_allclose(call("ij,kj->ik", A, B), _by_rows(A, B))
    np.testing.assert_allclose(call("ij,ij->i", A, A), A.multiply(A).sum(axis=1))
    assert asp.einsum("ij->ji", A, format="tensor").shape == (HUGE, 9)
    with pytest.raises(MemoryError, match="format='tensor'"):
        asp.einsum("ij->ji", A)


def _by_rows(A, B):
    """Return ``A @ B.T`` without an array as long as a row."""
    used = np.unique(np.concatenate([A.indices, B.indices]))
    narrow = [
        sps.csr_array((one.data, np.searchsorted(used, one.indices), one.indptr), shape=(one.shape[0], used.size))
        for one in (A, B)
    ]
    return (narrow[0] @ narrow[1].T).toarray()


@pytest.mark.parametrize("text", ["ij,jk->ik", "ij,kj->ik", "ij,ij->ij", "ij,jk->ki", "ij,ik,jk->ij"])
@pytest.mark.parametrize("format", ["tensor", "coo", "csf"])
def test_tensors_of_huge_extents(call, text, format):  # noqa: F811
    places = np.array([[1, HUGE - 1], [1, HUGE - 1]])
    T = asp.tensor(places, np.array([2.0, 3.0]), (HUGE, HUGE))
    letters = text.split("->")[0].split(",")
    found = asp.einsum(text, *[T] * len(letters), format=format)
    coords = np.stack(found.coords)
    values = found.values if format != "coo" else found.data
    order = np.argsort(coords[0])
    np.testing.assert_array_equal(coords[:, order], places)
    np.testing.assert_allclose(values[order], np.array([2.0, 3.0]) ** len(letters))


def test_five_operands_of_huge_extents():
    T = [asp.tensor(np.array([[1, HUGE - 1]] * 2), np.array([2.0, 3.0]), (HUGE, HUGE)) for _ in range(5)]
    got = asp.einsum("ab,bc,cd,de,ef->af", *T, format="tensor")
    np.testing.assert_allclose(got.values[np.argsort(got.coords[0])], [32.0, 243.0])
    assert asp.einsum("ab,bc,cd,de,ef->", *T) == 275.0


def test_a_product_with_no_terms_runs_over_no_extent(call):  # noqa: F811
    T = asp.tensor([[5], [7]], [1.0], (HUGE, HUGE))
    for _ in range(3):
        assert asp.einsum("ij,jk->ik", T, T, format="tensor").nnz == 0


def test_joins_of_booleans_take_memory_by_entries(call):  # noqa: F811
    rng = np.random.default_rng(0)
    a, b = rng.random((1000, 200)) < 0.25, rng.random((200, 200)) < 0.25
    found = asp.einsum("ij,jk->ik", sps.csr_array(a), sps.csr_array(b))
    np.testing.assert_array_equal(as_dense(found), a @ b)


def test_a_product_of_sparse_matrices_with_huge_extents():
    wanted_cols = 2**33
    rng = np.random.default_rng(0)
    B = sps.coo_array(
        (rng.random(500), (rng.integers(0, 30, 500), rng.integers(0, wanted_cols, 500))), (30, wanted_cols)
    )
    A, B = matrix(1), B.tocsr()
    product = asp.csr(A) @ asp.csr(B)
    used = np.unique(B.indices)
    narrow = sps.csr_array((B.data, np.searchsorted(used, B.indices), B.indptr), shape=(30, used.size))
    assert product.shape == (30, wanted_cols)
    found = sps.csr_array((product.data, np.searchsorted(used, product.indices), product.indptr), shape=(30, used.size))
    np.testing.assert_allclose(found.toarray(), (A @ narrow).toarray())


def test_tuning_a_matrix_of_huge_extents_ends():
    rng = np.random.default_rng(0)
    m = sps.coo_array((rng.random(500), (rng.integers(0, 30, 500), rng.integers(0, 2**33, 500))), (30, 2**33)).tocsr()
    A = asp.csr(m)
    for effort in ("estimate", "measure"):
        try:
            A.tune("matmul", columns=1, effort=effort, budget_s=0.5)
        except MemoryError:
            continue
    assert A.nnz == m.nnz


@pytest.mark.parametrize("n_operands", [4, pytest.param(5, marks=pytest.mark.full)])
def test_more_than_26_indices(call, n_operands):  # noqa: F811
    tracemalloc.stop()  # the planner's search is long, and twice as long when allocations are traced
    letters = [string.ascii_letters[7 * n : 7 * n + 7] for n in range(n_operands)]
    dense = [np.random.default_rng(n).integers(0, 2, (2,) * 7).astype(float) for n in range(n_operands)]
    tensors = [asp.tensor(np.stack(np.nonzero(one)), one[np.nonzero(one)], one.shape) for one in dense]
    outer = "".join(one[0] for one in letters)
    wanted = np.einsum(",".join(outer) + "->" + outer, *[one.sum(axis=tuple(range(1, 7))) for one in dense])
    np.testing.assert_allclose(call(",".join(letters) + "->" + outer, *tensors), wanted)


def test_half_precision_beside_integers_and_booleans(call):  # noqa: F811
    half = np.random.default_rng(0).integers(0, 3, (5, 5)).astype(np.float16)
    T = asp.tensor(np.stack(np.nonzero(half)), half[np.nonzero(half)], half.shape)
    for dtype in (np.int8, np.bool_, np.uint8):
        other = np.random.default_rng(1).integers(0, 2, (5, 5)).astype(dtype)
        for text in ("ij,jk->ik", "ij,ij->ij", "ij,ij->i", "ij,ij->"):
            for given in ((T, sps.csr_array(other)), (half, sps.csr_array(other)), (T, other)):
                found = asp.einsum(text, *given)
                found = np.asarray(found.todense() if hasattr(found, "todense") else found)
                wanted = np.einsum(text, half, other)
                assert found.dtype == wanted.dtype
                np.testing.assert_allclose(found, wanted)
