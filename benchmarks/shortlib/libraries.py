"""Short programs as written around other libraries: scikit-learn, networkx, scanpy, PyAMG and FiPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg as sla

from shortlib.inputs import convection, counts, digraph, graph, grid, scattered, vector
from shortlib.program import dense, is_ours, load, short


@short(lambda: {"A": convection(20, 20, 0.3), "b": vector(400)})
def gmres_easy_own(sp: Any, A: Any, b: Any) -> Any:
    """Solve a dominant system by gmres of the library's linalg."""
    return sp.linalg.gmres(load(sp, A) + 4 * sp.eye_array(400, format="csr"), b, rtol=1e-8)[0]


@short(lambda: {"A": grid(25, 25), "b": vector(625)})
def cg_watched_own(sp: Any, A: Any, b: Any) -> Any:
    """Solve by cg of the library's linalg with a callback that counts iterations."""
    steps: list[int] = []
    x, _ = sp.linalg.cg(load(sp, A), b, rtol=1e-8, callback=lambda _: steps.append(1))
    return x, np.array([len(steps) > 0])


@short(lambda: {"A": grid(25, 25), "b": vector(625)})
def cg_preconditioned_own(sp: Any, A: Any, b: Any) -> Any:
    """Solve by cg of the library's linalg with the inverse diagonal as preconditioner."""
    A = load(sp, A)
    return sp.linalg.cg(A, b, rtol=1e-8, M=sp.diags_array(1 / A.diagonal()))[0]


@short(lambda: {"A": convection(25, 25, 0.3), "b": vector(625)}, rtol=1e-5)
def bicgstab_ilu_own(sp: Any, A: Any, b: Any) -> Any:
    """Solve by bicgstab of the library's linalg with SuperLU's incomplete factors."""
    factors = sp.linalg.spilu(A.tocsc())
    return sp.linalg.bicgstab(load(sp, A), b, rtol=1e-9, M=sp.linalg.LinearOperator(A.shape, factors.solve))[0]


@short(lambda: {"A": grid(20, 20), "b": vector(400)})
def cg_operator_own(sp: Any, A: Any, b: Any) -> Any:
    """Solve with a LinearOperator by cg of the library's linalg."""
    A = load(sp, A)
    shifted = sp.linalg.LinearOperator(A.shape, matvec=lambda x: A @ x + 0.5 * x, dtype=A.dtype)
    return sp.linalg.cg(shifted, b, rtol=1e-8)[0]


@short(lambda: {"A": grid(20, 20), "X": vector(400, 3)}, rtol=1e-4)
def lobpcg_own(sp: Any, A: Any, X: Any) -> Any:
    """Compute the three largest eigenvalues by lobpcg of the library's linalg."""
    return np.sort(sp.linalg.lobpcg(load(sp, A), X, maxiter=40, tol=1e-6)[0])


@short(lambda: {"A": grid(30, 30), "b": vector(900)})
def installed_cg(sp: Any, A: Any, b: Any) -> Any:
    """Solve by SciPy's names, with the library installed under them."""
    if is_ours(sp):
        with sp.install():
            return sla.cg(scipy.sparse.csr_array(A), b, rtol=1e-8)[0]
    return sla.cg(sp.csr_array(A), b, rtol=1e-8)[0]


@short(lambda: {"A": grid(30, 30), "x": vector(900)})
def product_into(sp: Any, A: Any, x: Any) -> Any:
    """Multiply ten times into one array."""
    A, y = load(sp, A), np.empty(900)
    for _ in range(10):
        if is_ours(sp):
            sp.matmul(A, x, out=y)
        else:
            y[:] = A @ x
    return y


@short(lambda: {"A": grid(30, 30), "x": vector(900)})
def product_of_scipys(sp: Any, A: Any, x: Any) -> Any:
    """Multiply a matrix of SciPy's."""
    return sp.matmul(A, x) if is_ours(sp) else A @ x


@short(lambda: {"A": graph(500, 8.0), "x": vector(500)})
def shared_arrays(sp: Any, A: Any, x: Any) -> Any:
    """Change values through the arrays that the matrix shares."""
    m = A.copy()
    shared = sp.csr(m, copy=False) if is_ours(sp) else m
    first = shared @ x
    m.data *= 2
    return first, shared @ x


@short(lambda: {"A": counts(300, 500, 20)})
def vectoriser(sp: Any, A: Any) -> Any:
    """Make a matrix of counts without a shape, as vectorisers do, and weight it."""
    X = sp.csr_matrix((A.data, A.indices, A.indptr))
    X.sum_duplicates()
    idf = np.log(300 / (1 + np.bincount(X.indices, minlength=X.shape[1]))) + 1
    return (X @ sp.diags(idf)).toarray()


@short(lambda: {"A": counts(300, 200, 20, matrix=True)})
def one_hot(sp: Any, A: Any) -> Any:
    """Make columns of categories side by side, as encoders do."""
    codes = np.arange(300) % 7
    encoded = sp.csr_matrix((np.ones(300), codes, np.arange(301)), shape=(300, 7))
    return sp.hstack([load(sp, A), encoded], format="csr").sum(axis=0)


@short(lambda: {"A": counts(300, 200, 20, matrix=True)})
def cells(sp: Any, A: Any) -> Any:
    """Filter and normalise cells by genes, take logarithms, and find variable genes."""
    X = load(sp, A)
    X = X[np.asarray(X.sum(axis=1)).ravel() > 10]
    X = X[:, np.asarray((X > 0).sum(axis=0)).ravel() > 3]
    X = (sp.diags(1e4 / np.asarray(X.sum(axis=1)).ravel()) @ X).tocsr().log1p()
    mean = np.asarray(X.mean(axis=0)).ravel()
    return mean, np.asarray(X.multiply(X).mean(axis=0)).ravel() - mean**2


@short(lambda: {"A": graph(300, 6.0)})
def adjacency(sp: Any, A: Any) -> Any:
    """Make a Laplacian of a graph from lists of edges, as networkx does."""
    rows, cols = (part.tolist() for part in A.nonzero())
    adjacent = sp.coo_array(([1.0] * len(rows), (rows, cols)), shape=A.shape).asformat("csr")
    degrees = adjacent.sum(axis=1)
    return (sp.dia_array((degrees, 0), shape=A.shape).tocsr() - adjacent).toarray()


@short(lambda: {"A": digraph(300, 6.0)})
def google_matrix(sp: Any, A: Any) -> Any:
    """Rank nodes of a graph as networkx does."""
    A = load(sp, A)
    degrees = A.sum(axis=1)
    degrees[degrees != 0] = 1 / degrees[degrees != 0]
    A, x = (sp.dia_array((degrees, 0), shape=A.shape) @ A).tocsr(), np.full(300, 1 / 300)
    for _ in range(30):
        x = 0.85 * (x @ A + x[degrees == 0].sum() / 300) + 0.15 / 300
    return x


@short(lambda: {"A": grid(24, 24), "b": vector(576)})
def multigrid(sp: Any, A: Any, b: Any) -> Any:
    """Run cycles of two grids with aggregates of four points and a smoothed prolongation."""
    A = load(sp, A)
    P = sp.csr_array((np.ones(576), np.arange(576) // 4, np.arange(577)), shape=(576, 144))
    scaled = sp.diags_array(0.6 / A.diagonal()) @ A
    P = (P - scaled @ P).tocsr()
    coarse, d, x = sp.linalg.splu((P.T @ A @ P).tocsc()), A.diagonal(), np.zeros(576)
    for _ in range(12):
        x += 0.6 * (b - A @ x) / d
        x += P @ coarse.solve(P.T @ (b - A @ x))
        x += 0.6 * (b - A @ x) / d
    return x


@short(lambda: {"n": 40})
def finite_volumes(sp: Any, n: int) -> Any:
    """Assemble diffusion on cells from faces, and solve implicit steps."""
    cell = np.arange(n * n).reshape(n, n)
    left, right = (
        np.concatenate([cell[:, :-1].ravel(), cell[:-1].ravel()]),
        np.concatenate([cell[:, 1:].ravel(), cell[1:].ravel()]),
    )
    ones = np.ones(left.size)
    rows, cols = np.concatenate([left, right, left, right]), np.concatenate([right, left, left, right])
    L = sp.csr_matrix((np.concatenate([-ones, -ones, ones, ones]), (rows, cols)), shape=(n * n, n * n))
    x = np.zeros(n * n)
    x[n * n // 2] = 1.0
    lu = sp.linalg.splu((sp.identity(n * n, format="csc") + 0.1 * L).tocsc())
    for _ in range(3):
        x = lu.solve(x)
    return x, np.array([abs(L @ x).sum()])


@short(lambda: {"A": scattered(400, 300, 0.02), "B": scattered(400, 300, 0.02, seed=1)})
def einsum_elementwise(sp: Any, A: Any, B: Any) -> Any:
    """Multiply two matrices element by element."""
    A, B = load(sp, A), load(sp, B)
    return dense(sp.einsum("ij,ij->ij", A, B) if is_ours(sp) else A.multiply(B))


@short(lambda: {"A": scattered(400, 300, 0.02)})
def einsum_gram(sp: Any, A: Any) -> Any:
    """Multiply a matrix by its transpose."""
    A = load(sp, A)
    return dense(sp.einsum("ij,kj->ik", A, A) if is_ours(sp) else A @ A.T)


@short(lambda: {"A": graph(300, 6.0)})
def einsum_triangles(sp: Any, A: Any) -> Any:
    """Count triangles of a graph."""
    A = load(sp, A)
    return np.array([sp.einsum("ij,jk,ki->", A, A, A) if is_ours(sp) else (A @ A).multiply(A.T).sum()])
