"""Tests of libraries that accept SciPy's sparse arrays: our matrices give the same results, by our kernels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from scipy.sparse import csgraph, linalg

import autosparse
from autosparse.dispatch import executor
from tests.covering import in_turn

KINDS = ("csr_array", "csc_array", "csr_matrix", "csc_matrix")
N = 60


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, ...]]]:
    """Record the shapes of the dense operands of every product that reaches the executor."""
    seen: list[tuple[int, ...]] = []

    def counting(right: Callable[..., Any]) -> Callable[..., Any]:
        def product(operand: Any, B: Any, **arguments: Any) -> Any:
            C = right(operand, B, **arguments)
            if C is not None:
                seen.append(B.shape)
            return C

        return product

    for name in ("small_product", "matmul"):
        monkeypatch.setattr(executor, name, counting(getattr(executor, name)))
    return seen


def spd() -> Any:
    """Return a symmetric positive definite matrix of shape (N, N)."""
    m = sps.random(N, N, 0.1, format="csr", random_state=np.random.RandomState(0))
    return (m @ m.T + 5 * sps.eye(N)).tocsr()


def tall() -> Any:
    """Return a sparse matrix of shape (4 N, 20)."""
    return sps.random(4 * N, 20, 0.3, format="csr", random_state=np.random.RandomState(1))


def labels() -> Any:
    dense = tall().toarray()
    return (dense[:, 0] + dense[:, 3] > dense[:, 1] + 0.1).astype(int)


b = np.random.default_rng(0).random(N)

SCIPY: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "cg": (spd, lambda A: linalg.cg(A, b, rtol=1e-10)[0]),
    "gmres": (spd, lambda A: linalg.gmres(A, b, rtol=1e-10)[0]),
    "bicgstab": (spd, lambda A: linalg.bicgstab(A, b, rtol=1e-10)[0]),
    "minres": (spd, lambda A: linalg.minres(A, b, rtol=1e-10)[0]),
    "lsqr": (tall, lambda A: linalg.lsqr(A, np.ones(4 * N), atol=1e-12, btol=1e-12)[0]),
    "lsmr": (tall, lambda A: linalg.lsmr(A, np.ones(4 * N), atol=1e-12, btol=1e-12)[0]),
    "eigsh": (spd, lambda A: linalg.eigsh(A, 4, v0=b)[0]),
    "eigs": (spd, lambda A: np.sort(linalg.eigs(A, 4, v0=b)[0].real)),
    "svds": (tall, lambda A: np.sort(linalg.svds(A, 4, v0=np.ones(20))[1])),
    "lobpcg": (spd, lambda A: np.sort(linalg.lobpcg(A, np.eye(N, 3), tol=1e-8, maxiter=200)[0])),
    "LinearOperator": (spd, lambda A: (linalg.aslinearoperator(A) @ b, linalg.aslinearoperator(A).rmatvec(b))),
    "matmat of LinearOperator": (spd, lambda A: linalg.aslinearoperator(A).matmat(np.eye(N, 5))),
    "expm_multiply": (spd, lambda A: linalg.expm_multiply(-A, b)),
    "expm": (spd, lambda A: linalg.expm(-A.tocsc()).toarray()),
    "onenormest": (spd, lambda A: linalg.onenormest(A)),
    "norm and product": (spd, lambda A: (A @ (A @ b), linalg.norm(A))),
    "splu and product": (spd, lambda A: linalg.splu(A.tocsc()).solve(A @ b)),
    "spsolve and product": (spd, lambda A: linalg.spsolve(A.tocsc(), A @ b)),
    "inv": (spd, lambda A: linalg.inv(A.tocsc()) @ b),
    "laplacian and product": (spd, lambda A: (csgraph.laplacian(A).toarray(), A @ b)),
    "shortest path and product": (spd, lambda A: (csgraph.shortest_path(A, unweighted=True), A @ b)),
    "components and product": (spd, lambda A: (csgraph.connected_components(A)[0], A @ b)),
    "spanning tree and product": (spd, lambda A: (csgraph.minimum_spanning_tree(A).toarray(), A @ b)),
    "page rank by hand": (spd, lambda A: _power_iteration(A)),
}


def _power_iteration(A: Any) -> Any:
    x = np.ones(N)
    for _ in range(20):
        x = A.T @ x
        x /= x.sum()
    return x


def _same(ours: Any, theirs: Any) -> None:
    if isinstance(ours, tuple):
        for mine, expected in zip(ours, theirs, strict=True):
            _same(mine, expected)
    else:
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-5, atol=1e-7)


@in_turn("probe", "kind", first=SCIPY, second=KINDS)
def test_scipy(kind: str, probe: str, products: list[Any]) -> None:
    make, use = SCIPY[probe]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = use(getattr(sps, kind)(make()))
        assert not products
        _same(use(getattr(autosparse, kind)(make())), expected)
    assert products, "no product reached our kernels"


def _transform(model: Any, A: Any) -> Any:
    return np.abs(model.fit_transform(A))


def _predict(model: Any, A: Any) -> Any:
    return model.fit(A, labels()).predict(A)


def _sklearn() -> dict[str, Callable[[Any], Any]]:
    from sklearn.cluster import KMeans
    from sklearn.decomposition import NMF, PCA, TruncatedSVD
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.neighbors import NearestNeighbors
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler

    return {
        "LogisticRegression": lambda A: LogisticRegression().fit(A, labels()).coef_,
        "LogisticRegression predicts": lambda A: _predict(LogisticRegression(), A),
        "TruncatedSVD arpack": lambda A: _transform(TruncatedSVD(3, algorithm="arpack", random_state=0), A),
        "TruncatedSVD randomized": lambda A: _transform(TruncatedSVD(3, random_state=0), A),
        "PCA": lambda A: _transform(PCA(3, svd_solver="arpack", random_state=0), A),
        "KMeans": lambda A: KMeans(3, n_init=2, random_state=0).fit(A).inertia_,
        "NMF": lambda A: NMF(3, init="nndsvda", random_state=0, max_iter=30).fit_transform(A),
        "Ridge": lambda A: Ridge(solver="sparse_cg").fit(A, labels()).coef_,
        "MultinomialNB": lambda A: MultinomialNB().fit(A, labels()).predict_log_proba(A),
        "pipeline": lambda A: _predict(make_pipeline(MaxAbsScaler(), LogisticRegression()), A),
        "NearestNeighbors and product": lambda A: (NearestNeighbors().fit(A).kneighbors(A)[0], A @ np.ones(20)),
    }


SKLEARN = (
    "LogisticRegression", "LogisticRegression predicts", "TruncatedSVD arpack", "TruncatedSVD randomized", "PCA",
    "KMeans", "NMF", "Ridge", "MultinomialNB", "pipeline", "NearestNeighbors and product",
)  # fmt: skip


@in_turn("probe", "kind", first=SKLEARN, second=KINDS)
def test_scikit_learn(kind: str, probe: str, products: list[Any]) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    use = _sklearn()[probe]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = use(getattr(sps, kind)(tall()))
        products.clear()
        _same(use(getattr(autosparse, kind)(tall())), expected)
    assert products, "no product reached our kernels"


@pytest.mark.parametrize("kind", KINDS)
def test_pyamg(kind: str, products: list[Any]) -> None:
    pyamg = pytest.importorskip("pyamg", reason="pyamg is not installed")
    m = pyamg.gallery.poisson((30, 30), format="csr")
    rhs = np.random.default_rng(0).random(900)

    def solve(A: Any) -> Any:
        np.random.seed(0)  # noqa: NPY002 - pyamg draws from NumPy's global generator
        solver = pyamg.ruge_stuben_solver(A)
        return solver.solve(rhs, tol=1e-10), A @ rhs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = solve(getattr(sps, kind)(m))
        products.clear()
        _same(solve(getattr(autosparse, kind)(m)), expected)
    assert products


@pytest.mark.parametrize("kind", KINDS)
def test_networkx(kind: str, products: list[Any]) -> None:
    nx = pytest.importorskip("networkx", reason="networkx is not installed")
    m = getattr(sps, kind)(spd())
    ours = getattr(autosparse, kind)(m)
    graphs = [nx.from_scipy_sparse_array(A) for A in (ours, m)]
    assert nx.utils.graphs_equal(*graphs)
    adjacency = getattr(autosparse, kind)(nx.to_scipy_sparse_array(graphs[0]))
    _same(adjacency @ b, m @ b)
    assert products


@pytest.mark.parametrize("kind", KINDS)
def test_joblib_hands_read_only_memory_maps_to_its_workers(kind: str, products: list[Any]) -> None:
    joblib = pytest.importorskip("joblib", reason="joblib is not installed")
    A = getattr(autosparse, kind)(tall())
    x = np.ones(20)
    results = joblib.Parallel(n_jobs=2, max_nbytes=1)(joblib.delayed(_product_and_flags)(A, x) for _ in range(3))
    for product, class_name, writeable in results:
        _same(product, A.base @ x)
        assert class_name == kind
        assert not writeable
    assert joblib.hash(A) == joblib.hash(A.copy())


def _product_and_flags(A: Any, x: Any) -> tuple[Any, str, bool]:
    return A @ x, type(A).__name__, A.data.flags.writeable


def test_dump_and_load_with_joblib_and_memory_map(tmp_path: Any) -> None:
    joblib = pytest.importorskip("joblib", reason="joblib is not installed")
    A = autosparse.csr_array(tall())
    joblib.dump(A, tmp_path / "A.joblib")
    for mode in (None, "r", "c"):
        back = joblib.load(tmp_path / "A.joblib", mmap_mode=mode)
        _same(back @ np.ones(20), A @ np.ones(20))
        _same(back.T @ np.ones((4 * N, 3)), A.T @ np.ones((4 * N, 3)))
