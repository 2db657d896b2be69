"""Conjugate gradients (Hestenes and Stiefel 1952) on the Laplacian of a grid that exceeds the memory of one worker.

python examples/dask_cg.py                          two local workers of 1.5 GB, a matrix of 1.6 GB
python examples/dask_cg.py --scheduler ADDRESS      a cluster: see dask_cluster.py for what changes
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sps
from dask_cluster import in_memory, options, workers

import autosparse as asp

SHIFT = 0.5
"""Value added to the diagonal.

It makes the Laplacian positive definite; its condition number is at most 1 + 52 / SHIFT.
"""


def laplacian(i: int, j: int, *, side: int, planes: tuple[int, ...]) -> sps.csr_array:
    """Make block i of SHIFT plus the Laplacian of a grid of side**3 points, each joined to its 26 neighbours."""
    n, first = side**3, sum(planes[:i])
    y, x = (at[:, None] for at in np.divmod(np.arange(side**2), side))
    dz, dy, dx = np.indices((3, 3, 3)).reshape(3, 27) - 1
    inside = (y + dy >= 0) & (y + dy < side) & (x + dx >= 0) & (x + dx < side)
    columns = ((dz * side + y + dy) * side + x + dx).astype(sps.get_index_dtype(maxval=n))  # for plane z = 0
    joined, degrees = [], []
    for z in range(first, first + planes[i]):
        here = inside & (z + dz >= 0) & (z + dz < side)
        joined.append(columns[here] + columns.dtype.type(z * side**2))
        degrees.append(here.sum(axis=1))
    indices, n_joined = np.concatenate(joined), np.concatenate(degrees)
    own = np.repeat(np.arange(n_joined.size, dtype=indices.dtype) + indices.dtype.type(first * side**2), n_joined)
    values = np.full(indices.size, -1.0)
    values[indices == own] = n_joined - 1 + SHIFT
    starts = np.concatenate(([0], np.cumsum(n_joined))).astype(indices.dtype)
    return sps.csr_array((values, indices, starts), shape=(n_joined.size, n))


def conjugate_gradients(A: da.Array, b: da.Array, *, tolerance: float = 1e-8, most: int = 500) -> tuple[da.Array, int]:
    """Solve A x = b for a symmetric positive definite A that is partitioned by rows.

    Return x with ||b - A x|| <= tolerance ||b||, and the number of iterations. Each iteration is one graph; only
    ||r||^2 returns to the client.
    """
    x, r, p, rho = dask.persist(da.zeros_like(b), b, b, b @ b)
    goal = tolerance**2 * float(rho.compute())
    for iteration in range(most):
        if (found := float(rho.compute())) <= goal:
            return x, iteration
        q = A @ p
        alpha = rho / (p @ q)
        x, r, old = x + alpha * p, r - alpha * q, rho
        rho = r @ r
        x, r, p, rho = dask.persist(x, r, r + rho / old * p, rho)
    raise ArithmeticError(f"no convergence in {most} iterations: ||r||^2 is {found:.3g}, wanted {goal:.3g}")


def main(arguments: Sequence[str] | None = None) -> tuple[np.ndarray, int]:
    """Solve for a source at every 97th point; return the solution and the number of iterations."""
    chosen = options(__doc__, arguments, entries=135_000_000, blocks=16)
    side = max(2, round((chosen.entries / 27) ** (1 / 3)))
    planes = tuple(len(part) for part in np.array_split(np.arange(side), min(chosen.blocks, side)))
    with workers(chosen, "dask_cg.py"):
        make = partial(laplacian, side=side, planes=planes)
        made = asp.dask.from_blocks(make, ([n * side**2 for n in planes], [side**3]), dtype=np.float64)
        A = in_memory(made, chosen)
        b = (da.arange(side**3, chunks=(A.chunks[0],)) % 97 == 0).astype(np.float64).persist()
        start = time.perf_counter()
        x, n_iterations = conjugate_gradients(A, b)
        print(f"{n_iterations} iterations in {time.perf_counter() - start:.1f} s")
        return x.compute(), n_iterations


if __name__ == "__main__":
    main()
