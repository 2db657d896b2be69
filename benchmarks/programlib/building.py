"""Programs that build and combine matrices: sums, stacks, Gram matrices, changing systems, and SciPy's csgraph."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import scipy.sparse.csgraph

from programlib import inputs
from programlib.program import Inputs, csr
from programlib.written import links, pairs, poisson, tall


def steps(toy: bool) -> Inputs:
    n = 10 if toy else 120
    return {"A": inputs.laplacian(n, n), "u": np.random.default_rng(0).random(n * n), "steps": 2 if toy else 25}


def newton(sp: Any, A: Any, u: Any, steps: int) -> Any:
    """Solve a reaction-diffusion equation by Newton steps, whose systems differ in their diagonals, with cg."""
    A, b = csr(sp, A), u.copy()
    for _ in range(max(2, steps // 4)):
        J = A + sp.diags_array(1 + 3 * u**2)
        du, _ = sp.linalg.cg(J, b - A @ u - u - u**3, rtol=1e-5)
        u = u + du
    return u


def implicit_euler(sp: Any, A: Any, u: Any, steps: int) -> Any:
    """Step a heat equation by implicit Euler with one factorization."""
    A = csr(sp, A)
    dt = u.dtype.type(0.1)
    solve = sp.linalg.factorized((sp.eye_array(u.size, dtype=u.dtype, format="csr") + dt * A).tocsc())
    energies = []
    for _ in range(steps):
        u = solve(u + dt * np.sin(u))
        energies.append(u @ (A @ u))
    return u, np.array(energies)


def documents(toy: bool) -> Inputs:
    rng = np.random.default_rng(0)
    n, size = (40, 6) if toy else (4_000, 20)
    return {"parts": [rng.zipf(1.3, (20 if toy else 800, size)) % n for _ in range(3 if toy else 15)], "x": np.ones(n)}


def cooccurrence(sp: Any, parts: Any, x: Any) -> Any:
    """Count words that occur together: a coo matrix per part, duplicates summed, parts added."""
    n, dtype = x.size, x.dtype
    counts = sp.csr_array((n, n), dtype=dtype)
    for words in parts:
        rows, cols = np.repeat(words, words.shape[1], axis=1).ravel(), np.tile(words, words.shape[1]).ravel()
        part = sp.coo_array((np.ones(rows.size, dtype), (rows, cols)), shape=(n, n))
        part.sum_duplicates()
        counts = counts + part.tocsr()
    counts.setdiag(0)
    scale = sp.diags_array(1 / np.sqrt(np.maximum(np.asarray(counts.sum(axis=1)).ravel(), 1)).astype(dtype))
    for _ in range(20):
        x = scale @ (counts @ (scale @ x))
        x /= np.linalg.norm(x)
    return x


def ridge_by_gram(sp: Any, X: Any, omega: Any) -> Any:
    """Fit ridge regressions by a sparse Gram matrix and its Cholesky factor."""
    X = csr(sp, X)[:, :1000]
    G = (X.T @ X + sp.eye_array(X.shape[1], dtype=X.dtype, format="csr")).toarray()
    return np.linalg.solve(G, X.T @ (X @ omega[: X.shape[1]]))


def filters(toy: bool) -> Inputs:
    rng = np.random.default_rng(0)
    n = 12 if toy else 120
    F = inputs.canonical(scipy.sparse.eye_array(n) * 0.9 + scipy.sparse.diags_array(np.full(n - 1, 0.1), offsets=1))
    H = inputs.canonical(scipy.sparse.random_array((n // 4, n), density=0.05, rng=rng))
    return {"F": F, "H": H, "seen": rng.standard_normal((10 if toy else 600, n // 4))}


def kalman(sp: Any, F: Any, H: Any, seen: Any) -> Any:
    """Filter observations: small sparse matrices times dense covariances."""
    F, H = csr(sp, F), csr(sp, H)
    n, dtype = F.shape[0], seen.dtype
    x, P, noise = np.zeros(n, dtype), np.eye(n, dtype=dtype), np.eye(H.shape[0], dtype=dtype)
    for z in seen:
        x, P = F @ x, F @ P @ F.T + dtype.type(0.01) * np.eye(n, dtype=dtype)
        HP = H @ P
        K = np.linalg.solve(HP @ H.T + noise, HP).T
        x, P = x + K @ (z - H @ x), P - K @ HP
    return x, P


def spanning_tree(sp: Any, A: Any, starts: int) -> Any:
    """Smooth signals over minimum spanning trees of a graph with random weights."""
    A, rng = csr(sp, A), np.random.default_rng(0)
    x = rng.random(A.shape[0]).astype(A.dtype)
    for _ in range(max(1, starts // 4)):
        W = A.copy()
        W.data = 1 + rng.random(W.nnz).astype(A.dtype)
        tree = csr(sp, scipy.sparse.csgraph.minimum_spanning_tree(W).astype(A.dtype))
        tree = tree + tree.T
        degrees = np.maximum(np.asarray(tree.sum(axis=1)).ravel(), 1)
        for _ in range(30):
            x = (tree @ x) / degrees
    return x


def shortest_paths(sp: Any, A: Any, starts: int) -> Any:
    """Compute distances from several nodes by Dijkstra's algorithm, and their mean over neighbours."""
    A = csr(sp, A)
    far = scipy.sparse.csgraph.dijkstra(A, indices=np.arange(starts // 2), unweighted=False)
    far = np.where(np.isinf(far), 0, far).astype(A.dtype)
    return (A @ far.T) / np.maximum(np.asarray(A.sum(axis=1)).ravel(), 1)[:, None]


def saddle_points(sp: Any, A: Any, b: Any, steps: int) -> Any:
    """Stack a saddle-point system from blocks in each step, and take Richardson steps with it."""
    A, n = csr(sp, A), A.shape[0]
    for step in range(max(2, steps // 40)):
        D = csr(sp, A[step :: max(2, n // 400)])
        K = sp.vstack([sp.hstack([A, D.T]), sp.hstack([D, -sp.eye_array(D.shape[0], dtype=A.dtype)])]).tocsr()
        x = np.concatenate([b, np.zeros(D.shape[0], b.dtype)])
        for _ in range(10):
            x = x - b.dtype.type(0.01) * (K @ x)
        b = x[:n]
    return b


PROGRAMS: Final = pairs(
    (newton, "Newton steps with cg, A + D changes", steps),
    (implicit_euler, "implicit Euler by factorized", steps),
    (cooccurrence, "co-occurrence counts, sums of coo parts", documents),
    (ridge_by_gram, "ridge regression by X.T @ X", tall),
    (kalman, "Kalman filter with small matrices", filters),
    (spanning_tree, "spanning trees and products", links),
    (shortest_paths, "Dijkstra and neighbours' means", links),
    (saddle_points, "saddle-point systems by vstack and hstack", poisson),
)
