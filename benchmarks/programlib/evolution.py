"""Programs of time evolution: SciPy's integrators, explicit steps, exponentials."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import scipy.integrate
import scipy.sparse.linalg

from programlib import inputs
from programlib.program import Inputs, Program, csr


def reaction(toy: bool) -> Inputs:
    n = 8 if toy else 150
    rng = np.random.default_rng(0)
    return {
        "L": -inputs.laplacian(n, n) * 0.5,
        "y0": 0.5 + 0.1 * rng.standard_normal(n * n),
        "end": 2.0 if toy else 300.0,
    }


def solve_ivp_explicit(sp: Any, L: Any, y0: Any, end: float) -> Any:
    """Solve the reaction-diffusion equation u' = L u + u (1 - u) by a Runge-Kutta method."""
    L = csr(sp, L)
    found = scipy.integrate.solve_ivp(lambda t, y: L @ y + y * (1.0 - y), (0.0, end), y0, method="RK45", rtol=1e-5)
    return found.y[:, -1]


def stiff_reaction(toy: bool) -> Inputs:
    n = 6 if toy else 90
    rng = np.random.default_rng(0)
    return {"L": -inputs.laplacian(n, n) * 20.0, "y0": 0.5 + 0.1 * rng.standard_normal(n * n), "end": 1.0}


def solve_ivp_sparse_jacobian(sp: Any, L: Any, y0: Any, end: float) -> Any:
    """Solve a stiff reaction-diffusion equation by backward differences with a sparse Jacobian."""
    L = csr(sp, L)
    found = scipy.integrate.solve_ivp(
        lambda t, y: L @ y + y * (1.0 - y),
        (0.0, end),
        y0,
        method="BDF",
        jac=lambda t, y: L + sp.diags_array(1.0 - 2.0 * y),
        rtol=1e-6,
    )
    return found.y[:, -1]


def drum(toy: bool) -> Inputs:
    n = 10 if toy else 250
    at = np.linspace(-1.0, 1.0, n)
    bump = np.exp(-20.0 * (at[:, None] ** 2 + (at[None, :] - 0.2) ** 2)).ravel()
    return {"L": inputs.laplacian(n, n), "u": bump, "steps": 20 if toy else 1500}


def wave_steps(sp: Any, L: Any, u: Any, steps: int) -> Any:
    """Integrate the wave equation by leapfrog and record its energy."""
    L = csr(sp, L)
    before, energy = u.copy(), []
    for step in range(steps):
        u, before = 2.0 * u - before - 0.2 * (L @ u), u
        if step % 10 == 0:
            energy.append(np.linalg.norm(u - before))
    return u, np.array(energy)


def heat_kernel(toy: bool) -> Inputs:
    A = inputs.graph("soc-brightkite", n=56_000, degree=3.8, toy=toy)
    degree = np.asarray(A.sum(axis=1)).ravel()
    rng = np.random.default_rng(0)
    start = np.zeros((A.shape[0], 4))
    start[rng.integers(0, A.shape[0], 4), np.arange(4)] = 1.0
    return {"A": A, "degree": degree, "start": start}


def expm_multiply(sp: Any, A: Any, degree: Any, start: Any) -> Any:
    """Compute heat diffusion on a graph from four nodes, exp(-t L) B with the random walk's Laplacian."""
    A = csr(sp, A)
    walk = sp.diags_array(1.0 / np.maximum(degree, 1.0)) @ A
    generator = csr(sp, (walk - sp.eye_array(A.shape[0])) * 4.0)
    return scipy.sparse.linalg.expm_multiply(generator, start)


PROGRAMS: Final = (
    Program(
        name="solve_ivp_explicit",
        what="solve_ivp (RK45), reaction and diffusion",
        prepare=reaction,
        run=solve_ivp_explicit,
        rtol=1e-4,
    ),
    Program(
        name="solve_ivp_sparse_jacobian",
        what="solve_ivp (BDF), sparse Jacobian",
        prepare=stiff_reaction,
        run=solve_ivp_sparse_jacobian,
        rtol=1e-4,
    ),
    Program(name="wave_steps", what="wave equation, leapfrog", prepare=drum, run=wave_steps),
    Program(
        name="expm_multiply",
        what="expm_multiply, heat on a social graph",
        prepare=heat_kernel,
        run=expm_multiply,
    ),
)
