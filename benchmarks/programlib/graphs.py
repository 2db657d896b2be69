"""Programs on graphs: walks, embeddings, labels, transport."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from programlib import inputs
from programlib.program import Inputs, Program, csr


def web(toy: bool) -> Inputs:
    A = inputs.real_or("NotreDame_www", lambda: inputs.heavy_tails(80 if toy else 325_000, 3.0), toy=toy)
    A.data[:] = 1.0
    return {"A": A}


def pagerank(sp: Any, A: Any) -> Any:
    n = A.shape[0]
    degree = np.asarray(A.sum(axis=1)).ravel()
    dangling = degree == 0
    A = csr(sp, A)
    walk = csr(sp, (sp.diags_array(1.0 / np.maximum(degree, 1.0)) @ A).T.tocsr())
    ranks = []
    for damping in (0.85, 0.9, 0.95, 0.99):
        rank = np.full(n, 1.0 / n)
        for _ in range(200):
            new = damping * (walk @ rank + rank[dangling].sum() / n) + (1.0 - damping) / n
            error, rank = np.abs(new - rank).sum(), new
            if error < 1e-10:
                break
        ranks.append(rank)
    return np.array(ranks)


def chain(toy: bool) -> Inputs:
    A = inputs.graph("soc-brightkite", n=56_000, degree=3.8, toy=toy)
    rng = np.random.default_rng(0)
    start = np.zeros((8, A.shape[0]))
    start[np.arange(8), rng.integers(0, A.shape[0], 8)] = 1.0
    return {"A": A, "start": start, "steps": 10 if toy else 100}


def markov_powers(sp: Any, A: Any, start: Any, steps: int) -> Any:
    """Compute distributions after many steps of a walk, as rows: pi P P P ..."""
    degree = np.asarray(A.sum(axis=1)).ravel()
    P = csr(sp, sp.diags_array(1.0 / np.maximum(degree, 1.0)) @ csr(sp, A))
    norms = []
    for _ in range(steps):
        start = start @ P
        norms.append(np.linalg.norm(start, axis=1))
    return start, np.array(norms)


def neighbours(toy: bool) -> Inputs:
    from sklearn.datasets import make_blobs
    from sklearn.neighbors import kneighbors_graph

    n, columns = (120, 4) if toy else (40_000, 64)
    X, labels = make_blobs(n, n_features=6, centers=8, cluster_std=3.0, random_state=0)
    W = inputs.canonical(kneighbors_graph(X, 6 if toy else 12, mode="connectivity"))
    rng = np.random.default_rng(0)
    return {"W": inputs.canonical((W + W.T) * 0.5), "labels": labels, "X": rng.standard_normal((n, columns))}


def spectral_embedding(sp: Any, W: Any, **_: Any) -> Any:
    """Compute coordinates from the Laplacian's lowest eigenvectors; return absolute values of the first coordinate."""
    from sklearn.manifold import spectral_embedding as embed

    W = csr(sp, W)
    found = embed(W, n_components=4, eigen_solver="lobpcg", random_state=0)
    return np.abs(found[:, 0])


def label_propagation(sp: Any, W: Any, labels: Any, X: Any) -> Any:
    """Propagate labels by F <- a S F + (1 - a) Y (Zhou et al. 2003)."""
    W = csr(sp, W)
    scale = sp.diags_array(1.0 / np.sqrt(np.maximum(np.asarray(W.sum(axis=1)).ravel(), 1e-12)))
    S = csr(sp, scale @ W @ scale)
    known = np.random.default_rng(1).random(labels.size) < 0.02
    Y = np.zeros((labels.size, labels.max() + 1))
    Y[known, labels[known]] = 1.0
    F = Y.copy()
    for _ in range(150):
        new = 0.99 * (S @ F) + 0.01 * Y
        change, F = np.abs(new - F).max(), new
        if change < 1e-9:
            break
    return F


def knn_smoothing(sp: Any, W: Any, labels: Any, X: Any) -> Any:
    """Average features over neighbours repeatedly, as simple graph convolutions do."""
    W = csr(sp, W)
    walk = csr(sp, sp.diags_array(1.0 / np.maximum(np.asarray(W.sum(axis=1)).ravel(), 1e-12)) @ W)
    for _ in range(12):
        X = 0.5 * X + 0.5 * (walk @ X)
        X = X / np.linalg.norm(X, axis=0)
    return X


def transport(toy: bool) -> Inputs:
    from sklearn.neighbors import NearestNeighbors

    n, k = (60, 8) if toy else (12_000, 24)
    rng = np.random.default_rng(0)
    source, target = rng.standard_normal((n, 2)), rng.standard_normal((n, 2)) * 0.9 + 0.1
    K = NearestNeighbors(n_neighbors=k).fit(target).kneighbors_graph(source, mode="distance")
    K.data = np.exp(-((K.data / K.data.mean()) ** 2))
    return {"K": inputs.canonical(K), "steps": 20 if toy else 600}


def sinkhorn(sp: Any, K: Any, steps: int) -> Any:
    """Compute unbalanced transport between two point clouds with a sparse kernel (Chizat et al. 2018)."""
    K = csr(sp, K)
    m, n = K.shape
    u, v = np.ones(m), np.ones(n)
    for _ in range(steps):
        u = ((1.0 / m) / (K @ v + 1e-12)) ** 0.9
        v = ((1.0 / n) / (K.T @ u + 1e-12)) ** 0.9
        if np.linalg.norm(u * (K @ v) - 1.0 / m, ord=1) < 1e-12:
            break
    return u, v


def network(toy: bool) -> Inputs:
    import networkx as nx

    A = inputs.graph("soc-brightkite", n=20_000, degree=4.0, toy=toy)
    return {"G": nx.from_scipy_sparse_array(A)}


def networkx_centrality(sp: Any, G: Any) -> Any:
    """Compute Katz centrality by its series from a networkx graph, and PageRank by networkx, which uses SciPy."""
    import networkx as nx

    A = csr(sp, nx.to_scipy_sparse_array(G, dtype=float))
    alpha = 0.5 / np.sqrt((A @ A.sum(axis=1)).max())
    score = np.ones(A.shape[0])
    for _ in range(300):
        new = alpha * (A @ score) + 1.0
        error, score = np.linalg.norm(new - score), new
        if error < 1e-10 * np.linalg.norm(score):
            break
    ranks = nx.pagerank(G, tol=1e-10, max_iter=300)
    return score / np.linalg.norm(score), np.array(list(ranks.values()))


def signals(toy: bool) -> Inputs:
    n = 10 if toy else 200
    X = np.random.default_rng(0).standard_normal((8, n * n))
    return {"L": inputs.laplacian(n, n), "X": X, "steps": 5 if toy else 400}


def diffuse(L: Any, x: Any, steps: int) -> Any:
    """Run steps of diffusion on one signal."""
    for _ in range(steps):
        x = x - 0.1 * (L @ x)
        x /= np.linalg.norm(x)
    return x


def joblib_threads(sp: Any, L: Any, X: Any, steps: int) -> Any:
    from joblib import Parallel, delayed

    L = csr(sp, L)
    return np.array(Parallel(n_jobs=2, prefer="threads")(delayed(diffuse)(L, x, steps) for x in X))


def joblib_processes(sp: Any, L: Any, X: Any, steps: int) -> Any:
    from joblib import Parallel, delayed

    L = csr(sp, L)
    return np.array(Parallel(n_jobs=2)(delayed(diffuse)(L, x, steps) for x in X))


PROGRAMS: Final = (
    Program(name="pagerank", what="PageRank, links of a web site", prepare=web, run=pagerank),
    Program(name="markov_powers", what="steps of a Markov chain, rows times P", prepare=chain, run=markov_powers),
    Program(
        name="spectral_embedding",
        what="spectral embedding of scikit-learn",
        prepare=neighbours,
        run=spectral_embedding,
        rtol=1e-1,
        modules=("sklearn.manifold",),
        made_with=("sklearn",),
    ),
    Program(
        name="label_propagation",
        what="labels on neighbours",
        prepare=neighbours,
        run=label_propagation,
        made_with=("sklearn",),
    ),
    Program(
        name="knn_smoothing",
        what="features over neighbours",
        prepare=neighbours,
        run=knn_smoothing,
        made_with=("sklearn",),
    ),
    Program(
        name="sinkhorn",
        what="Sinkhorn, sparse kernel",
        prepare=transport,
        run=sinkhorn,
        rtol=1e-4,
        made_with=("sklearn",),
    ),
    Program(
        name="networkx_centrality",
        what="centralities of a networkx graph",
        prepare=network,
        run=networkx_centrality,
        modules=("networkx",),
    ),
    Program(name="joblib_threads", what="joblib, threads", prepare=signals, run=joblib_threads, modules=("joblib",)),
    Program(
        name="joblib_processes", what="joblib, processes", prepare=signals, run=joblib_processes, modules=("joblib",)
    ),
)
