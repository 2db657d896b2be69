"""Short programs with factorizations, eigenvalues, exponentials and linear operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse.linalg as sla

from shortlib.inputs import convection, graph, grid, lower, scattered, vector
from shortlib.program import load, short


@short(lambda: {"A": grid(40, 40), "b": vector(1600)})
def spsolve_once(sp: Any, A: Any, b: Any) -> Any:
    """Solve a grid by spsolve."""
    A = load(sp, A)
    return sla.spsolve(A.tocsc(), b)


@short(lambda: {"A": grid(20, 20), "b": vector(400)})
def spsolve_own(sp: Any, A: Any, b: Any) -> Any:
    """Solve a grid of 400 points by spsolve of the library's linalg."""
    A = load(sp, A)
    x = sp.linalg.spsolve(A, b)
    return x, np.linalg.norm(A @ x - b) < 1e-6


@short(lambda: {"A": grid(20, 20), "b": vector(400)})
def splu_steps(sp: Any, A: Any, b: Any) -> Any:
    """Factor once and solve twenty implicit steps."""
    A = load(sp, A)
    lu, u = sla.splu((sp.eye_array(b.size) + 0.1 * A).tocsc()), b
    for _ in range(20):
        u = lu.solve(u)
    return u


@short(lambda: {"A": grid(20, 20, matrix=True), "b": vector(400)})
def splu_own(sp: Any, A: Any, b: Any) -> Any:
    """Factor by splu of the library's linalg and refine the solution."""
    A = load(sp, A)
    lu = sp.linalg.splu(A.tocsc())
    x = lu.solve(b)
    return x + lu.solve(b - A @ x)


@short(lambda: {"A": grid(30, 30), "b": vector(900)})
def factorized_source(sp: Any, A: Any, b: Any) -> Any:
    """Solve with a function that factorized returns."""
    solve = sla.factorized(load(sp, A).tocsc())
    return solve(b), solve(b**2)


@short(lambda: {"L": lower(2000, 6), "b": vector(2000)})
def triangular(sp: Any, L: Any, b: Any) -> Any:
    """Solve with a triangular matrix and its transpose."""
    L = load(sp, L)
    return sla.spsolve_triangular(L, b), sla.spsolve_triangular(L.T.tocsr(), b, lower=False)


@short(lambda: {"L": lower(2000, 6), "b": vector(2000)})
def triangular_own(sp: Any, L: Any, b: Any) -> Any:
    """Solve with a triangular matrix by the library's linalg."""
    return sp.linalg.spsolve_triangular(load(sp, L), b)


@short(lambda: {"A": grid(30, 30), "v": vector(900)})
def eigsh_largest(sp: Any, A: Any, v: Any) -> Any:
    """Compute four largest eigenvalues by SciPy's eigsh."""
    return np.sort(sla.eigsh(load(sp, A), k=4, v0=v, return_eigenvectors=False))


@short(lambda: {"A": grid(16, 16), "v": vector(256)})
def eigsh_own(sp: Any, A: Any, v: Any) -> Any:
    """Compute three largest eigenvalues by eigsh of the library's linalg."""
    return np.sort(sp.linalg.eigsh(load(sp, A), k=3, v0=v, return_eigenvectors=False))


@short(lambda: {"A": grid(24, 24), "v": vector(576)})
def eigsh_shifted(sp: Any, A: Any, v: Any) -> Any:
    """Compute smallest eigenvalues with shift and inversion."""
    return np.sort(sla.eigsh(load(sp, A).tocsc(), k=3, sigma=0, v0=v, return_eigenvectors=False))


@short(lambda: {"A": graph(600, 6.0), "v": vector(600)})
def fiedler(sp: Any, A: Any, v: Any) -> Any:
    """Split a graph by the second eigenvector of its normalised Laplacian."""
    A = load(sp, A)
    d = np.maximum(np.asarray(A.sum(axis=1)).ravel(), 1)
    S = sp.diags_array(1 / np.sqrt(d))
    L = sp.eye_array(d.size) - S @ A @ S
    return np.sort(sla.eigsh(2 * sp.eye_array(d.size) - L, k=2, v0=v, return_eigenvectors=False))


@short(lambda: {"A": convection(20, 20, 0.3), "v": vector(400)})
def eigs_few(sp: Any, A: Any, v: Any) -> Any:
    """Compute eigenvalues of an unsymmetric matrix."""
    return np.sort(np.abs(sla.eigs(load(sp, A), k=4, v0=v, return_eigenvectors=False)))


@short(lambda: {"A": scattered(600, 300, 0.03), "v": vector(300)})
def svds_few(sp: Any, A: Any, v: Any) -> Any:
    """Compute five singular values by SciPy's svds."""
    return np.sort(sla.svds(load(sp, A), k=5, v0=v, return_singular_vectors=False))


@short(lambda: {"A": scattered(600, 300, 0.03), "v": vector(300)})
def svds_own(sp: Any, A: Any, v: Any) -> Any:
    """Compute five singular values by svds of the library's linalg."""
    return np.sort(sp.linalg.svds(load(sp, A), k=5, v0=v, return_singular_vectors=False))


@short(lambda: {"A": scattered(2000, 800, 0.01), "omega": vector(800, 12)})
def randomized_svd(sp: Any, A: Any, omega: Any) -> Any:
    """Compute singular values from a random range."""
    A = load(sp, A)
    Q, _ = np.linalg.qr(A @ omega)
    for _ in range(2):
        Q, _ = np.linalg.qr(A @ (A.T @ Q))
    return np.linalg.svd((A.T @ Q).T, compute_uv=False)[:5]


@short(lambda: {"A": grid(40, 40), "x": vector(1600)})
def power_iteration(sp: Any, A: Any, x: Any) -> Any:
    """Run sixty power iterations with Rayleigh quotients."""
    A, found = load(sp, A), []
    for _ in range(60):
        y = A @ x
        found.append(x @ y / (x @ x))
        x = y / np.linalg.norm(y)
    return np.array(found)


@short(lambda: {"A": grid(40, 40), "q": vector(1600)})
def lanczos(sp: Any, A: Any, q: Any) -> Any:
    """Run thirty Lanczos steps without orthogonalization."""
    A, q = load(sp, A), q / np.linalg.norm(q)
    old, beta, alphas, betas = np.zeros_like(q), 0.0, [], []
    for _ in range(30):
        w = A @ q - beta * old
        alphas.append(w @ q)
        w -= alphas[-1] * q
        beta = np.linalg.norm(w)
        betas.append(beta)
        old, q = q, w / beta
    T = np.diag(alphas) + np.diag(betas[:-1], 1) + np.diag(betas[:-1], -1)
    return np.linalg.eigvalsh(T)[-3:]


@short(lambda: {"A": convection(30, 30, 0.3), "q": vector(900)})
def arnoldi(sp: Any, A: Any, q: Any) -> Any:
    """Run twenty Arnoldi steps with modified Gram-Schmidt."""
    A, k = load(sp, A), 20
    Q, H = np.zeros((q.size, k + 1)), np.zeros((k + 1, k))
    Q[:, 0] = q / np.linalg.norm(q)
    for j in range(k):
        w = A @ Q[:, j]
        for i in range(j + 1):
            H[i, j] = Q[:, i] @ w
            w = w - H[i, j] * Q[:, i]
        H[j + 1, j] = np.linalg.norm(w)
        Q[:, j + 1] = w / H[j + 1, j]
    return H


@short(lambda: {"A": grid(20, 20), "u": vector(400)})
def expm_multiply_heat(sp: Any, A: Any, u: Any) -> Any:
    """Solve the heat equation by expm_multiply."""
    return sla.expm_multiply(-0.5 * load(sp, A), u)


@short(lambda: {"A": grid(20, 20), "u": vector(400)})
def expm_multiply_own(sp: Any, A: Any, u: Any) -> Any:
    """Solve the heat equation by expm_multiply of the library's linalg."""
    return sp.linalg.expm_multiply(-0.5 * load(sp, A), u)


@short(lambda: {"A": grid(6, 6)})
def expm_dense(sp: Any, A: Any) -> Any:
    """Compute the exponential of a small matrix."""
    return sla.expm(-0.1 * load(sp, A).tocsc()).toarray()


@short(lambda: {"A": scattered(1000, 600, 0.01), "x": vector(600)})
def operator_gram(sp: Any, A: Any, x: Any) -> Any:
    """Multiply by A.T A through linear operators."""
    op = sla.aslinearoperator(load(sp, A))
    gram = op.H @ op
    for _ in range(30):
        x = gram @ x
        x = x / np.linalg.norm(x)
    return x


@short(lambda: {"A": grid(30, 30), "b": vector(900)})
def operator_shifted(sp: Any, A: Any, b: Any) -> Any:
    """Solve with a LinearOperator whose function multiplies and shifts."""
    A = load(sp, A)
    op = sla.LinearOperator(A.shape, matvec=lambda x: A @ x + 0.5 * x, dtype=A.dtype)
    return sla.cg(op, b, rtol=1e-8)[0]


@short(lambda: {"A": grid(30, 30), "X": vector(900, 3)}, rtol=1e-3)
def lobpcg_largest(sp: Any, A: Any, X: Any) -> Any:
    """Compute two largest eigenvalues by lobpcg."""
    return np.sort(sla.lobpcg(load(sp, A), X, largest=True, maxiter=20, tol=1e-5)[0])[-2:]


@short(lambda: {"A": scattered(400, 400, 0.02)})
def norms(sp: Any, A: Any) -> Any:
    """Compute norms by SciPy's linalg."""
    A = load(sp, A)
    return np.array([sla.norm(A), sla.norm(A, 1), sla.norm(A, np.inf)]), sla.norm(A, axis=1)


@short(lambda: {"A": grid(30, 30)})
def condition(sp: Any, A: Any) -> Any:
    """Estimate norms of a matrix and of its inverse."""
    A = load(sp, A).tocsc()
    inverse = sla.LinearOperator(A.shape, matvec=(lu := sla.splu(A)).solve, rmatvec=lambda x: lu.solve(x, "T"))
    return np.array([sla.onenormest(A), sla.onenormest(inverse)])
