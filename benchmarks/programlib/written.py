"""Programs as people write them: NumPy between the products, slices, changed values, in float32 and float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from programlib import inputs
from programlib.program import Inputs, Program, csr


def words(toy: bool) -> Inputs:
    X = inputs.heavy_rows(60, 40, 6) if toy else inputs.heavy_rows(8_000, 12_000, 60)
    rng = np.random.default_rng(0)
    X.data = rng.integers(1, 5, X.nnz).astype(float)
    return {"X": X, "k": 5 if toy else 20}


def kmeans_tfidf(sp: Any, X: Any, k: int) -> Any:
    """Cluster documents by k-means on rows of a tf-idf matrix."""
    X, n = csr(sp, X), X.shape[0]
    frequency = np.bincount(X.indices, minlength=X.shape[1])
    idf = np.log((1 + n) / (1 + frequency)) + 1
    X = X @ sp.diags_array(idf.astype(X.dtype))
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1))).ravel()
    X = (sp.diags_array((1 / norms).astype(X.dtype)) @ X).tocsr()
    centres = X[:k].toarray()
    for _ in range(15):
        labels = np.argmax(X @ centres.T, axis=1)
        ones = np.ones(n, X.dtype)
        member = sp.csr_array((ones, (labels, np.arange(n))), shape=(k, n))
        centres = (member @ X).toarray()
        centres /= np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12)
    return centres


def poisson(toy: bool) -> Inputs:
    n = 10 if toy else 200
    rng = np.random.default_rng(0)
    return {"A": inputs.laplacian(n, n), "b": rng.standard_normal(n * n), "steps": 5 if toy else 1_000}


def jacobi(sp: Any, A: Any, b: Any, steps: int) -> Any:
    """Smooth by damped Jacobi steps, and record residuals."""
    A = csr(sp, A)
    inverse = (0.8 / A.diagonal()).astype(b.dtype)
    x, residuals = np.zeros_like(b), []
    for _ in range(steps):
        r = b - A @ x
        x = x + inverse * r
        residuals.append(np.linalg.norm(r))
    return x, np.array(residuals)


def gauss_seidel(sp: Any, A: Any, b: Any, steps: int) -> Any:
    """Smooth by symmetric Gauss-Seidel steps with triangular solves."""
    A = csr(sp, A)
    lower, upper = sp.tril(A).tocsr(), sp.triu(A).tocsr()
    x = np.zeros_like(b)
    for _ in range(max(2, steps // 40)):
        x = x + sp.linalg.spsolve_triangular(lower, b - A @ x)
        x = x + sp.linalg.spsolve_triangular(upper, b - A @ x, lower=False)
    return x


def tall(toy: bool) -> Inputs:
    X = inputs.heavy_rows(50, 30, 5) if toy else inputs.heavy_rows(20_000, 6_000, 30)
    omega = np.random.default_rng(0).standard_normal((X.shape[1], 4 if toy else 24))
    return {"X": X, "omega": omega}


def randomized_svd(sp: Any, X: Any, omega: Any) -> Any:
    """Compute singular values from a random range with power steps (Halko et al. 2011)."""
    X = csr(sp, X)
    Q, _ = np.linalg.qr(X @ omega)
    for _ in range(8):
        Z, _ = np.linalg.qr(X.T @ Q)
        Q, _ = np.linalg.qr(X @ Z)
    return np.linalg.svd(Q.T @ X, compute_uv=False)[:8]


def ratings(toy: bool) -> Inputs:
    R = inputs.heavy_rows(40, 30, 5) if toy else inputs.heavy_rows(3_000, 2_000, 40)
    rng = np.random.default_rng(0)
    R.data = rng.integers(1, 6, R.nnz).astype(float)
    return {"R": R, "factors": rng.standard_normal((R.shape[1], 8)) * 0.1, "steps": 2}


def als_by_rows(sp: Any, R: Any, factors: Any, steps: int) -> Any:
    """Factor ratings by alternating least squares, a small system per row, read through indptr and indices."""
    R = csr(sp, R)
    right = factors
    eye = np.eye(right.shape[1], dtype=right.dtype) * right.dtype.type(0.1)
    for _ in range(steps):
        for M in (R, R.T.tocsr()):
            left = np.empty((M.shape[0], right.shape[1]), right.dtype)
            for row in range(M.shape[0]):
                at = slice(M.indptr[row], M.indptr[row + 1])
                F = right[M.indices[at]]
                left[row] = np.linalg.solve(F.T @ F + eye, F.T @ M.data[at])
            right = left
    return right


def small_chain(toy: bool) -> Inputs:
    return {"A": inputs.graph("none", n=60 if toy else 10_000, degree=3.0, toy=toy), "steps": 3 if toy else 8}


def markov_cluster(sp: Any, A: Any, steps: int) -> Any:
    """Cluster a graph by squares of a Markov chain, inflation and pruning (van Dongen 2000)."""
    one = A.dtype.type(1)
    A = csr(sp, A) + sp.eye_array(A.shape[0], dtype=A.dtype, format="csr")
    P = A @ sp.diags_array(one / np.asarray(A.sum(axis=0)).ravel())
    for _ in range(steps):
        P = (P @ P).tocsr()
        P.data **= 2
        P.data[P.data < 1e-4] = 0
        P.eliminate_zeros()
        P = P @ sp.diags_array(one / np.maximum(np.asarray(P.sum(axis=0)).ravel(), 1e-12).astype(P.dtype))
    return np.asarray(P.sum(axis=1)).ravel(), P.diagonal()


def rod(toy: bool) -> Inputs:
    n = 10 if toy else 180
    rng = np.random.default_rng(0)
    return {"A": inputs.laplacian(n, n), "u": rng.random(n * n), "steps": 5 if toy else 1_500}


def heat_nonlinear(sp: Any, A: Any, u: Any, steps: int) -> Any:
    """Step a heat equation whose conductivity depends on the temperature: A.data is written in each step."""
    A = csr(sp, A)
    base, rows = A.data.copy(), np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    for _ in range(steps):
        A.data[:] = base * (1 + 0.1 * u[rows])
        u = u - u.dtype.type(0.05) * (A @ u)
    return u


def heat_scaled(sp: Any, A: Any, u: Any, steps: int) -> Any:
    """Step a heat equation whose conductivity decays with time: A.data is scaled in each step."""
    A = csr(sp, A)
    A.data *= 0.1
    for _ in range(steps):
        A.data *= 0.999
        u = u - A @ u
    return u


def links(toy: bool) -> Inputs:
    A = inputs.graph("none", n=80 if toy else 60_000, degree=4.0, toy=toy)
    return {"A": A, "starts": 2 if toy else 12}


def bfs(sp: Any, A: Any, starts: int) -> Any:
    """Compute distances from several nodes by boolean products."""
    A = csr(sp, A.astype(bool))
    n = A.shape[0]
    found = []
    for start in range(starts):
        distance, front = np.full(n, -1), np.zeros(n, bool)
        front[start] = True
        for step in range(30):
            if not front.any():
                break
            distance[front] = step
            front = (A @ front) & (distance < 0)
        found.append(distance)
    return np.array(found)


def spectral_lobpcg(sp: Any, A: Any, starts: int) -> Any:
    """Compute the lowest eigenvalues of a normalised Laplacian by lobpcg."""
    A = csr(sp, A)
    n, degree = A.shape[0], np.asarray(A.sum(axis=1)).ravel()
    scale = sp.diags_array((1 / np.sqrt(np.maximum(degree, 1))).astype(A.dtype))
    L = sp.eye_array(n, dtype=A.dtype, format="csr") - scale @ A @ scale
    X = np.random.default_rng(0).standard_normal((n, 4)).astype(A.dtype)
    values, _ = scipy.sparse.linalg.lobpcg(L, X, largest=True, maxiter=20, tol=1e-3)
    return np.sort(values)


def hits(sp: Any, A: Any, starts: int) -> Any:
    """Compute hubs and authorities."""
    A = csr(sp, A)
    hubs = np.ones(A.shape[0], A.dtype)
    for _ in range(20 * starts):
        authorities = A.T @ hubs
        authorities /= np.linalg.norm(authorities)
        hubs = A @ authorities
        hubs /= np.linalg.norm(hubs)
    return hubs, authorities


def subgraphs(sp: Any, A: Any, starts: int) -> Any:
    """Take parts of a graph by masks, symmetrise them, and count triangles."""
    A, rng, counts = csr(sp, A), np.random.default_rng(0), []
    for _ in range(starts):
        kept = rng.random(A.shape[0]) < 0.3
        S = A[kept][:, kept]
        S = S.maximum(S.T).tocsr()
        S.setdiag(0)
        S.eliminate_zeros()
        counts.append((S @ S).multiply(S).sum() / 6)
    return np.array(counts)


def labelled(toy: bool) -> Inputs:
    X = inputs.heavy_rows(60, 20, 4) if toy else inputs.heavy_rows(30_000, 2_000, 15)
    rng = np.random.default_rng(0)
    y = (X @ rng.standard_normal(X.shape[1]) > 0).astype(float)
    return {"X": X, "y": y, "steps": 3 if toy else 600}


def logistic_by_hand(sp: Any, X: Any, y: Any, steps: int) -> Any:
    """Fit a logistic regression by gradient descent with momentum."""
    X = csr(sp, X)
    w, velocity = np.zeros(X.shape[1], X.dtype), np.zeros(X.shape[1], X.dtype)
    for _ in range(steps):
        p = 1 / (1 + np.exp(-(X @ w)))
        velocity = 0.9 * velocity - (X.T @ (p - y)) / X.shape[0]
        w = w + velocity
    return w


def mini_batches(sp: Any, X: Any, y: Any, steps: int) -> Any:
    """Fit it by steps on slices of 500 rows."""
    X = csr(sp, X)
    w = np.zeros(X.shape[1], X.dtype)
    for epoch in range(max(1, steps // 30)):
        for i in range(0, X.shape[0], 500):
            part = X[i : i + 500]
            p = 1 / (1 + np.exp(-(part @ w)))
            w = w - 0.1 / (1 + epoch) * (part.T @ (p - y[i : i + 500])) / part.shape[0]
    return w


def shuffled_batches(sp: Any, X: Any, y: Any, steps: int) -> Any:
    """Fit it by steps on 256 random rows."""
    X, rng = csr(sp, X), np.random.default_rng(0)
    w = np.zeros(X.shape[1], X.dtype)
    for _ in range(4 * steps):
        rows = rng.integers(0, X.shape[0], 256)
        part = X[rows]
        p = 1 / (1 + np.exp(-(part @ w)))
        w = w - 0.1 * (part.T @ (p - y[rows])) / 256
    return w


def sliding_window(sp: Any, X: Any, y: Any, steps: int) -> Any:
    """Compute energies of windows of rows that overlap."""
    X = csr(sp, X)
    x, n = np.ones(X.shape[1], X.dtype), X.shape[0] // 30
    return np.array([np.linalg.norm(X[i : i + n] @ x) for i in range(0, X.shape[0] - n, max(1, 3 * n // steps))])


def nearest_texts(sp: Any, X: Any, k: int) -> Any:
    """Find the most similar document of each one, by blocks of similarities."""
    X = csr(sp, X)
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1))).ravel()
    X = sp.diags_array((1 / norms).astype(X.dtype)) @ X
    best = []
    for i in range(0, min(X.shape[0], 1000), 200):
        S = (X[i : i + 200] @ X.T).toarray()
        S[np.arange(S.shape[0]), np.arange(i, i + S.shape[0])] = 0
        best.append(S.max(axis=1))
    return np.concatenate(best)


def elements(toy: bool) -> Inputs:
    n = 8 if toy else 100
    at = np.arange(n * n).reshape(n, n)
    corners = np.stack([at[:-1, :-1], at[1:, :-1], at[1:, 1:], at[:-1, 1:]], axis=-1).reshape(-1, 4)
    return {"corners": corners, "u": np.random.default_rng(0).random(n * n), "steps": 2 if toy else 100}


def assembly(sp: Any, corners: Any, u: Any, steps: int) -> Any:
    """Assemble a stiffness matrix from elements in each step, as nonlinear solvers do, and compute a residual."""
    local = np.array([[4, -1, -2, -1], [-1, 4, -1, -2], [-2, -1, 4, -1], [-1, -2, -1, 4]], u.dtype) / 6
    rows, cols = np.repeat(corners, 4, axis=1).ravel(), np.tile(corners, 4).ravel()
    for _ in range(steps):
        weight = 1 + u[corners].mean(axis=1) ** 2
        values = (weight[:, None, None] * local).ravel()
        K = sp.coo_array((values, (rows, cols)), shape=(u.size, u.size)).tocsr()
        for _ in range(3):
            u = u - u.dtype.type(0.1) * (K @ u)
    return u


def small_systems(toy: bool) -> Inputs:
    rng = np.random.default_rng(0)
    made = [scipy.sparse.random_array((60, 60), density=0.1, rng=rng) for _ in range(5 if toy else 100)]
    return {"systems": list(map(inputs.canonical, made)), "steps": 5 if toy else 500}


def many_small(sp: Any, systems: Any, steps: int) -> Any:
    """Run power iterations on many small matrices."""
    norms = []
    for m in systems:
        A = csr(sp, m)
        x = np.ones(A.shape[1], A.dtype)
        for _ in range(steps):
            x = A @ x
            x = x / max(np.linalg.norm(x), 1e-12)
        norms.append(np.linalg.norm(A @ x))
    return np.array(norms)


def _single(found: Any) -> Any:
    """Return the input with its floats in float32."""
    if isinstance(found, list):
        return [_single(one) for one in found]
    dtype = getattr(found, "dtype", None)
    return found.astype(np.float32) if dtype == np.float64 else found


@dataclass(frozen=True, slots=True)
class InSingle:
    """Function `prepare` of a program whose floats are float32."""

    prepare: Callable[[bool], Inputs]

    def __call__(self, toy: bool) -> Inputs:
        """Return the inputs of the program in float32."""
        return {name: _single(found) for name, found in self.prepare(toy).items()}


def pairs(*rows: tuple[Callable[..., Any], str, Callable[[bool], Inputs]]) -> tuple[Program, ...]:
    """Return a program in float32 and one in float64 for each (function, description, `prepare`)."""
    return tuple(
        Program(
            name=f"{run.__name__}_{dtype}", what=f"{what}, {dtype}", run=run,
            prepare=InSingle(prepare) if dtype == "float32" else prepare, rtol=1e-2 if dtype == "float32" else 1e-6,
        )
        for run, what, prepare in rows
        for dtype in ("float32", "float64")
    )  # fmt: skip


_ROWS: Final = (
    (kmeans_tfidf, "k-means on tf-idf rows", words),
    (nearest_texts, "most similar documents, by blocks", words),
    (jacobi, "damped Jacobi steps", poisson),
    (gauss_seidel, "Gauss-Seidel by triangular solves", poisson),
    (randomized_svd, "randomized SVD", tall),
    (als_by_rows, "ALS, a system per row", ratings),
    (markov_cluster, "Markov clustering, P @ P and pruning", small_chain),
    (heat_nonlinear, "heat equation, A.data[:] = ... per step", rod),
    (heat_scaled, "heat equation, A.data *= c per step", rod),
    (bfs, "BFS by boolean products", links),
    (spectral_lobpcg, "lobpcg on a normalised Laplacian", links),
    (hits, "hubs and authorities", links),
    (subgraphs, "parts of a graph, triangles", links),
    (logistic_by_hand, "logistic regression by hand", labelled),
    (mini_batches, "logistic regression, slices of rows", labelled),
    (shuffled_batches, "logistic regression, random rows", labelled),
    (sliding_window, "overlapping windows of rows", labelled),
    (assembly, "assembly per step", elements),
    (many_small, "many small matrices", small_systems),
)
PROGRAMS: Final = pairs(*_ROWS)
