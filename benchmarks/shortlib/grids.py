"""Short programs of finite differences and time steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse.linalg as sla

from shortlib.inputs import convection, grid, vector
from shortlib.program import load, short


def second(sp: Any, n: int) -> Any:
    """Return the second difference on n points as a matrix of the library."""
    return sp.diags([1.0, -2.0, 1.0], [-1, 0, 1], shape=(n, n), format="csr")


@short(lambda: {"u": vector(2000)})
def heat_explicit(sp: Any, u: Any) -> Any:
    """Step the heat equation on a rod explicitly."""
    D = load(sp, second(sp, u.size))
    for _ in range(80):
        u = u + 0.25 * (D @ u)
    return u


@short(lambda: {"u": vector(400)})
def heat_implicit(sp: Any, u: Any) -> Any:
    """Step the heat equation implicitly, solving a system in each step."""
    A = (sp.eye(u.size) - 0.5 * second(sp, u.size)).tocsc()
    for _ in range(10):
        u = sla.spsolve(A, u)
    return u


@short(lambda: {"u": vector(900)})
def crank_nicolson(sp: Any, u: Any) -> Any:
    """Step a plate by Crank and Nicolson's method with one factorization."""
    n = 30
    D, eye = second(sp, n), sp.eye_array(n)
    L = sp.kron(D, eye) + sp.kron(eye, D)
    whole = sp.eye_array(n * n)
    lu, right = sla.splu((whole - 0.1 * L).tocsc()), load(sp, (whole + 0.1 * L).tocsr())
    for _ in range(20):
        u = lu.solve(right @ u)
    return u


@short(lambda: {"u": vector(2500)})
def wave(sp: Any, u: Any) -> Any:
    """Step the wave equation on a plate of 50 x 50 points by leapfrog."""
    n = 50
    D = second(sp, n)
    L = load(sp, sp.kronsum(D, D, format="csr"))
    old = u.copy()
    for _ in range(60):
        u, old = 2 * u - old + 0.1 * (L @ u), u
    return u


@short(lambda: {"A": grid(50, 50, matrix=True), "u": vector(2500)})
def diffusion_matrix(sp: Any, A: Any, u: Any) -> Any:
    """Step a diffusion with a csr_matrix and `A.dot`."""
    A = load(sp, A)
    for _ in range(50):
        u = u - 0.1 * A.dot(u)
    return u


@short(lambda: {"A": grid(150, 150), "u": vector(22500)})
def diffusion_large(sp: Any, A: Any, u: Any) -> Any:
    """Step a diffusion on a grid of 112,000 entries."""
    A = load(sp, A)
    for _ in range(40):
        u = u - 0.1 * (A @ u)
    return u


@short(lambda: {"A": grid(200, 200), "u": vector(40000)})
def residual_once(sp: Any, A: Any, u: Any) -> Any:
    """Compute one residual of a grid of 200,000 entries."""
    return np.linalg.norm(load(sp, A) @ u - 1)


@short(lambda: {"A": convection(60, 60, 0.3), "u": vector(3600)})
def runge_kutta(sp: Any, A: Any, u: Any) -> Any:
    """Step an advection by the classical method of Runge and Kutta."""
    A, h = load(sp, A), 0.05

    def f(u: Any) -> Any:
        return -(A @ u)

    for _ in range(20):
        k1 = f(u)
        k2 = f(u + h / 2 * k1)
        k3 = f(u + h / 2 * k2)
        u = u + h / 6 * (k1 + 2 * k2 + 2 * k3 + f(u + h * k3))
    return u


@short(lambda: {"A": grid(12, 12), "u": vector(144)})
def solve_ivp_heat(sp: Any, A: Any, u: Any) -> Any:
    """Integrate the heat equation by solve_ivp."""
    from scipy.integrate import solve_ivp

    A = load(sp, A)
    return solve_ivp(lambda _t, u: -(A @ u), (0, 0.5), u, t_eval=[0.25, 0.5]).y


@short(lambda: {"n": 40})
def poisson_kron(sp: Any, n: int) -> Any:
    """Build Poisson's equation by Kronecker products and solve it."""
    D = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    A = sp.kron(D, sp.eye_array(n)) + sp.kron(sp.eye_array(n), D)
    return sla.spsolve(A.tocsr(), np.ones(n * n))


@short(lambda: {"n": 30})
def poisson_lil(sp: Any, n: int) -> Any:
    """Build Poisson's equation entry by entry in a LIL matrix."""
    A = sp.lil_matrix((n * n, n * n))
    for i in range(n):
        for j in range(n):
            k = i * n + j
            A[k, k] = 4
            if i:
                A[k, k - n] = A[k - n, k] = -1
            if j:
                A[k, k - 1] = A[k - 1, k] = -1
    return load(sp, A.tocsr()) @ np.ones(n * n)


@short(lambda: {"u": vector(1000)})
def burgers(sp: Any, u: Any) -> Any:
    """Step Burgers' equation with two difference matrices."""
    n = u.size
    D1 = load(sp, sp.diags([-0.5, 0.5], [-1, 1], shape=(n, n), format="csr"))
    D2 = load(sp, second(sp, n))
    for _ in range(50):
        u = u + 0.1 * (0.5 * (D2 @ u) - u * (D1 @ u))
    return u


@short(lambda: {"u": vector(900), "v": vector(900, seed=1)})
def gray_scott(sp: Any, u: Any, v: Any) -> Any:
    """Step a reaction and diffusion of two substances."""
    D = second(sp, 30)
    L = load(sp, sp.kronsum(D, D, format="csr"))
    for _ in range(40):
        reaction = u * v * v
        u, v = u + 0.16 * (L @ u) - reaction + 0.035 * (1 - u), v + 0.08 * (L @ v) + reaction - 0.095 * v
    return u, v


@short(lambda: {"psi": vector(400) + 0j})
def schroedinger(sp: Any, psi: Any) -> Any:
    """Step Schroedinger's equation with a complex matrix."""
    n = psi.size
    H = load(sp, (-0.5 * second(sp, n) + sp.diags(np.linspace(0, 1, n), format="csr")).astype(complex))
    psi = psi / np.linalg.norm(psi)
    for _ in range(40):
        psi = psi - 0.05j * (H @ psi)
        psi /= np.linalg.norm(psi)
    return np.abs(psi) ** 2


@short(lambda: {"A": grid(40, 40), "b": vector(1600)})
def two_grids(sp: Any, A: Any, b: Any) -> Any:
    """Solve by cycles of smoothing and a coarse correction."""
    n = 40
    P1 = sp.csr_array((np.ones(n), (np.arange(n), np.arange(n) // 2)), shape=(n, n // 2))
    P = load(sp, sp.kron(P1, P1, format="csr"))
    A, x = load(sp, A), np.zeros_like(b)
    coarse = sla.splu((P.T @ A @ P).tocsc())
    for _ in range(6):
        for _ in range(3):
            x = x + 0.12 * (b - A @ x)
        x = x + P @ coarse.solve(P.T @ (b - A @ x))
    return x


@short(lambda: {"points": vector(300, 2)})
def elements(sp: Any, points: Any) -> Any:
    """Assemble springs between near points, fix some nodes and solve."""
    at = np.argsort(points[:, 0])
    i, j = np.concatenate([at[:-1], at[:-2]]), np.concatenate([at[1:], at[2:]])
    k = 1 / np.linalg.norm(points[i] - points[j], axis=1)
    n = len(points)
    rows, cols = np.concatenate([i, j, i, j]), np.concatenate([i, j, j, i])
    K = load(sp, sp.coo_matrix((np.concatenate([k, k, -k, -k]), (rows, cols)), shape=(n, n)).tocsr())
    free = np.setdiff1d(np.arange(n), at[:2])
    x = np.zeros(n)
    x[free] = sla.spsolve(K[free][:, free].tocsc(), np.ones(free.size))
    return x, K @ x


@short(lambda: {"signal": vector(600)})
def smooth_signal(sp: Any, signal: Any) -> Any:
    """Smooth a signal by a penalty on second differences."""
    n = signal.size
    D = sp.diags([1, -2, 1], [0, 1, 2], shape=(n - 2, n))
    return sla.spsolve((sp.eye(n) + 10 * D.T @ D).tocsc(), signal)


@short(lambda: {"image": vector(40, 40)})
def tomography(sp: Any, image: Any) -> Any:
    """Make a matrix of line integrals and reconstruct an image by ten steps."""
    n = image.shape[0]
    i, j = np.divmod(np.arange(n * n), n)
    lines = np.concatenate([i, n + j, 2 * n + i + j])
    A = load(sp, sp.csr_matrix((np.ones(3 * n * n), (lines, np.tile(np.arange(n * n), 3)))))
    b, x = A @ image.ravel(), np.zeros(n * n)
    for _ in range(10):
        x += 0.01 * A.T @ (b - A @ x)
    return x
