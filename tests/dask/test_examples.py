"""Tests of the Dask examples: on two workers they give SciPy's results for the whole matrix."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest
import scipy.sparse as sps

pytest.importorskip("distributed", reason="distributed is not installed")

from tests.conftest import REPOSITORY

EXAMPLES = REPOSITORY / "examples"

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not EXAMPLES.is_dir(), reason="needs the sources: this is an installed copy"),
]


@pytest.fixture
def example(monkeypatch):
    """Return a function that imports an example as a module that workers can import too."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield importlib.import_module
    for name in [name for name in sys.modules if name.startswith("dask_")]:
        del sys.modules[name]


def test_pagerank(example):
    program = example("dask_pagerank")
    ranks = program.main(["--entries", "80000", "--blocks", "4"])
    A = sps.vstack([program.links(i, 0, rows=400, n=1600) for i in range(4)])
    wanted = np.full(1600, 1 / 1600)
    for _ in range(20):
        wanted = 0.85 * (A @ wanted) + 0.15 / 1600
    np.testing.assert_allclose(ranks, wanted, rtol=1e-4)


def test_conjugate_gradients(example):
    program = example("dask_cg")
    x, n_iterations = program.main(["--entries", "27000", "--blocks", "4"])
    A = sps.vstack([program.laplacian(i, 0, side=10, planes=(3, 3, 2, 2)) for i in range(4)]).tocsr()
    assert abs(A - A.T).max() == 0
    assert 1 < n_iterations < 200
    np.testing.assert_allclose(A @ x, np.arange(1000) % 97 == 0, atol=1e-6)


def test_alternating_least_squares(example):
    program = example("dask_als")
    W, H, errors = program.main(["--entries", "160000", "--blocks", "4"])
    R = sps.vstack([program.ratings(i, 0, users=200, items=400) for i in range(4)]).tocoo()
    left = R.data - np.einsum("ek,ek->e", W[R.row], H[R.col])
    assert np.sqrt(np.mean(left**2)) == pytest.approx(errors[-1], rel=1e-3)
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.2 * errors[0], "eight tastes explain all but the noise"
