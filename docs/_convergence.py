"""Draw the convergence plot of the page on solvers: true residuals over products with the matrix.

python docs/_convergence.py FILE.png
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse as sps

import autosparse as asp

N: Final = 60
"""Number of grid points along each side."""
MAX_PRODUCTS: Final = 300
"""Maximum number of products in the plot."""
PRODUCTS: Final = {"cg": 1, "minres": 1, "gmres": 1, "bicgstab": 2}
"""Number of products in one iteration, by solver."""


def systems() -> dict[str, tuple[Any, tuple[str, ...]]]:
    """Return the matrix and its solvers, by the title of the plot."""
    eye = sps.eye_array(N)
    line = sps.diags_array([-np.ones(N - 1), 2 * np.ones(N), -np.ones(N - 1)], offsets=[-1, 0, 1])
    wind = sps.diags_array([-0.4 * np.ones(N - 1), 0.4 * np.ones(N - 1)], offsets=[-1, 1])
    diffusion = sps.kron(line, eye) + sps.kron(eye, line)
    moved = diffusion + sps.kron(eye, wind)
    return {
        "diffusion: symmetric, positive definite": (diffusion, ("cg", "minres", "gmres")),
        "convection and diffusion: unsymmetric": (moved, ("gmres", "bicgstab")),
    }


def residuals(solver: str, A: Any, b: Any) -> list[float]:
    """Return |b - A x| / |b| after each iteration, computed from the solver's x."""
    found = [1.0]

    def note(x: Any) -> None:
        found.append(float(np.linalg.norm(b - A @ x) / np.linalg.norm(b)))

    if solver == "gmres":  # shows x at restarts only, the norm of the residual in every iteration
        asp.linalg.gmres(
            A, b, rtol=1e-10, restart=20, maxiter=MAX_PRODUCTS // 20, callback=found.append, callback_type="pr_norm"
        )
    else:
        getattr(asp.linalg, solver)(A, b, rtol=1e-10, maxiter=MAX_PRODUCTS // PRODUCTS[solver], callback=note)
    return found


def draw(path: Path) -> None:
    """Write the plot."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    b = np.random.default_rng(0).random(N * N)
    for ax, (title, (m, solvers)) in zip(axes, systems().items(), strict=True):
        A = asp.csr(sps.csr_array(m))
        for solver in solvers:
            found = residuals(solver, A, b)
            ax.semilogy(PRODUCTS[solver] * np.arange(len(found)), found, label=solver)
        ax.set(title=title, xlabel="products with A", xlim=(0, MAX_PRODUCTS), ylim=(1e-10, 1e2))
        ax.legend(frameon=False)
    axes[0].set_ylabel("|b - A x| / |b|")
    figure.savefig(path, dpi=160)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
