"""Conjugate gradients (Hestenes and Stiefel 1952) on the Laplacian of a grid that is larger than one worker's memory.

python examples/dask_cg.py                          two local workers of 1.5 GB, a matrix of 2.2 GB
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

SHIFT = 0.1
"""Of the diagonal: it makes the Laplacian positive definite, and 1 + 52 / SHIFT bounds its condition number."""


def laplacian(i: int, j: int, *, side: int, planes: tuple[int, ...]) -> sps.csr_array:
    """Block i of the Laplacian of a grid of side**3 points, each joined to the 26 around it, plus SHIFT."""
    first = sum(planes[:i])
    z, y, x = (one.ravel() for one in np.mgrid[first : first + planes[i], 0:side, 0:side])
    row, rows, columns = (z - first) * side**2 + y * side + x, [], []
    for dz, dy, dx in np.ndindex(3, 3, 3):
        inside = np.logical_and.reduce([(at >= 0) & (at < side) for at in (z + dz - 1, y + dy - 1, x + dx - 1)])
        rows.append(row[inside])
        columns.append((row + first * side**2 + (dz - 1) * side**2 + (dy - 1) * side + dx - 1)[inside])
    joined = np.concatenate(rows), np.concatenate(columns)
    A = sps.coo_array((np.full(joined[0].size, -1.0), joined), shape=(row.size, side**3)).tocsr()
    own = sps.coo_array((A.count_nonzero(axis=1) + SHIFT, (row, row + first * side**2)), shape=A.shape)
    return (A + own).tocsr()


def conjugate_gradients(A: da.Array, b: da.Array, *, tolerance: float = 1e-8, most: int = 500) -> tuple[da.Array, int]:
    """(x with ||b - A x|| <= tolerance ||b||, iterations) for a symmetric positive definite A cut by rows."""
    x, r = da.zeros_like(b), b
    p, rho = r, float((r @ r).compute())
    goal = tolerance**2 * rho
    for iteration in range(most):
        if rho <= goal:
            return x, iteration
        q = (A @ p).persist()
        alpha = rho / float((p @ q).compute())
        x, r = dask.persist(x + alpha * p, r - alpha * q)
        rho, old = float((r @ r).compute()), rho
        p = (r + rho / old * p).persist()
    raise ArithmeticError(f"no convergence in {most} iterations: ||r||^2 is {rho:.3g}, wanted {goal:.3g}")


def main(arguments: Sequence[str] | None = None) -> tuple[np.ndarray, int]:
    """(Solution for a source at every 97th point, iterations)."""
    chosen = options(__doc__, arguments, entries=135_000_000)
    side = max(2, round((chosen.entries / 27) ** (1 / 3)))
    planes = tuple(len(part) for part in np.array_split(np.arange(side), min(chosen.blocks, side)))
    with workers(chosen, "dask_cg.py"):
        make = partial(laplacian, side=side, planes=planes)
        made = asp.dask.from_blocks(make, ([n * side**2 for n in planes], [side**3]), dtype=np.float64)
        A = in_memory(made, chosen)
        b = (da.arange(side**3, chunks=(A.chunks[0],)) % 97 == 0).astype(np.float64).persist()  # sources here and there
        start = time.perf_counter()
        x, n_iterations = conjugate_gradients(A, b)
        print(f"{n_iterations} iterations in {time.perf_counter() - start:.1f} s")
        return x.compute(), n_iterations


if __name__ == "__main__":
    main()
