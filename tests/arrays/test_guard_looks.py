"""Test of which arrays the guard looks at again before a product."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse


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
    n = 40_000  # large enough that products do not take the path of small matrices, which leaves `rows` unset
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
