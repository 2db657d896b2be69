"""Test of which arrays the guard looks at again before a product."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse
from autosparse.operands.csr import INDICES

N: Final = 40_000
"""Rows of matrices whose products do not take the path of small ones, which leaves `rows` unset."""


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "own"])
@pytest.mark.parametrize(
    "product",
    [
        lambda K, x, B: K @ x,
        lambda K, x, B: K @ B,
        lambda K, x, B: x @ K,
        lambda K, x, B: K.T @ x,
        lambda K, x, B: autosparse.matmul(K, x, out=np.empty_like(x)),
        lambda K, x, B: K @ K,
    ],
    ids=["vector", "matrix", "from the left", "transposed", "out", "sparse"],
)
def test_a_structure_that_was_only_looked_at_is_checked_once(product, shared):
    """Arrays that SciPy reads by `K.indptr` are exported but not kept, so one look must suffice."""
    n = N
    M = sps.random_array((n, n), density=5e-5, format="csr", random_state=np.random.default_rng(0))
    K, x, B = autosparse.csr(M if shared else M.copy()), np.ones(n), np.ones((n, 4))
    product(K, x, B)
    for look in (lambda: K.indices.max(), lambda: K.indptr.sum(), lambda: K.max(axis=1)):
        look()
        assert K._cell.rows is None
        product(K, x, B)
        assert K._cell.rows is not None
    kept = K.indices
    for _ in range(2):
        product(K, x, B)
        assert K._cell.rows is None, "somebody may write to it"
    del kept
    product(K, x, B)
    assert K._cell.rows is not None


@pytest.mark.parametrize(
    "product",
    [
        lambda A, x: A @ x,
        lambda A, x: A @ np.stack([x, x], axis=1),
        lambda A, x: x @ A,
        lambda A, x: np.stack([x, x]) @ A,
        lambda A, x: A.T @ x,
        lambda A, x: A.dot(x),
        lambda A, x: A * x,
        lambda A, x: A @ x.astype(np.float32),
        lambda A, x: autosparse.matmul(A, x, out=np.empty_like(x)),
    ],
    ids=["vector", "matrix", "from the left", "matrix from the left", "transposed", "dot", "*", "float32", "out"],
)
def test_a_product_checks_a_held_structure_once(product):
    """The executor must not repeat the check by which its caller knows that the dtypes agree."""
    M = sps.random_array((N, N), density=5e-5, format="csr", random_state=np.random.default_rng(0))
    A, x = autosparse.csr_matrix(M), np.ones(N)
    kept = A.base
    with autosparse.options(effort="off"):  # a step of tuning looks too
        for _ in range(3):
            product(A, x)
        before = A._cell.n_invalidated, A._cell.n_looks
        product(A, x)
    assert (A._cell.n_invalidated, A._cell.n_looks) == (before[0] + 1, before[1] + 1)
    assert np.shares_memory(kept.indices, A._cell.peek(INDICES))


def with_zeros(share: float) -> Any:
    """Return a matrix, alone with its arrays, of whose entries this share are zeros."""
    M = sps.random_array((N, N), density=5e-4, format="csr", random_state=np.random.default_rng(0))
    M.data[M.data < share] = 0.0
    return autosparse.csr_array(M)


def with_duplicates(share: float) -> Any:
    """Return a matrix, alone with its arrays, of whose entries this share have the place of another one."""
    rows = np.repeat(np.arange(N), 8)
    columns = np.arange(rows.size) % N
    columns[: int(share * rows.size)] = 0
    indptr = np.arange(0, rows.size + 1, 8, dtype=np.int32)
    return autosparse.csr_array((np.ones(rows.size), columns.astype(np.int32), indptr), shape=(N, N))


@pytest.mark.parametrize("share", [0.03, 0.8], ids=["views of the arrays", "copies"])
@pytest.mark.parametrize("name", ["eliminate_zeros", "sum_duplicates"])
def test_a_matrix_whose_entries_were_dropped_is_checked_once(name, share):
    """SciPy's methods fetch the structure and then replace it by its beginning, without keeping it."""
    K, x = (with_zeros if name == "eliminate_zeros" else with_duplicates)(share), np.ones(N)
    before = K.nnz
    getattr(K, name)()
    assert K.nnz < before
    K @ x
    checks = K._cell.n_invalidated
    for _ in range(3):
        K @ x
    assert K._cell.n_invalidated == checks
    kept = K.indices
    for _ in range(2):
        K @ x
        assert K._cell.rows is None, "somebody may write to it"
    del kept
