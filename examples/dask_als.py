"""Alternating least squares for ratings that exceed the memory of one worker, with an sddmm in each block.

W (users, k) and H (items, k) minimise the sum over stored ratings of (r - w h)^2 plus PENALTY (|W|^2 + |H|^2). With H
fixed, each row of W solves a system of k equations. Conjugate gradients solve all of these systems at once; their
product is ``(M o (P H^T)) H + PENALTY P``, with M the pattern of the ratings: an sddmm, then an SpMM (Bharadwaj, Buluc
and Demmel 2022). No k x k matrix is formed for each user. A block of users needs H but no other block, so one task
computes its rows of W. All users contribute to H, so each step for H sums the contributions of the blocks.

    python examples/dask_als.py                          two local workers of 1.5 GB, ratings of 1.6 GB
    python examples/dask_als.py --scheduler ADDRESS      a cluster: see dask_cluster.py for what changes
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import dask.array as da
import numpy as np
import scipy.sparse as sps
from dask_cluster import in_memory, options, workers

import autosparse as asp

K = 8
PENALTY = np.float32(0.1)
RATED = 200
"""Number of rated items per user."""
STRIP = 5_000
"""Number of users whose ratings are made at once."""


def ratings(i: int, j: int, *, users: int, items: int) -> sps.csr_array:
    """Make block i of the ratings: RATED items per user, popular items more often, values of rank K with noise."""
    tastes = np.random.default_rng(0).standard_normal((items, K), np.float32)
    rng = np.random.default_rng(i + 1)
    columns, values = np.empty((users, RATED), np.int32), np.empty((users, RATED), np.float32)
    for first in range(0, users, STRIP):  # strips keep temporaries small: a worker has little memory beyond its blocks
        n = min(STRIP, users - first)
        own = rng.standard_normal((n, K), np.float32) / np.float32(K**0.5)
        stride = rng.integers(1, max(2, items // RATED), (n, 1))
        start = (items * rng.random((n, 1)) ** 2).astype(np.int64)
        rated = np.sort((start + stride * np.arange(RATED)) % items, axis=1)
        noise = rng.standard_normal((n, RATED), np.float32) / 10
        columns[first : first + n] = rated
        values[first : first + n] = np.einsum("uk,urk->ur", own, tastes[rated]) + noise
    starts = np.arange(0, columns.size + 1, RATED, dtype=np.int32)
    return sps.csr_array((values.ravel(), columns.ravel(), starts), shape=(users, items))


def ones_of(block: asp.csr_array) -> asp.csr_array:
    """Return the pattern of `block` with all values 1, sharing its indices."""
    return asp.dask.block(sps.csr_array((np.ones_like(block.data), block.indices, block.indptr), shape=block.shape))


def product(R: asp.csr_array, W: np.ndarray, H: np.ndarray) -> asp.csr_array:
    """Return M o (W H^T), with M the pattern of R. M is made anew in each call: it is half as large as R."""
    return asp.sddmm(ones_of(R), W, H.T)


def users_of(R: asp.csr_array, W: np.ndarray, H: np.ndarray) -> np.ndarray:
    """Solve for the rows of W of one block of users."""
    return solved(lambda P: product(R, P, H) @ H + PENALTY * P, R @ H, W)


def items_part(R: asp.csr_array, W: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Return the contribution of one block of users to (M o (W P^T))^T W, of shape (1, items, K)."""
    return (product(R, W, P).T @ W)[None]


def ratings_part(R: asp.csr_array, W: np.ndarray) -> np.ndarray:
    """Return the contribution of one block of users to R^T W, of shape (1, items, K)."""
    return (R.T @ W)[None]


def squares(R: asp.csr_array, W: np.ndarray, H: np.ndarray) -> np.ndarray:
    """Return the sum of (r - w h)^2 over the stored ratings of a block, of shape (1, 1)."""
    return np.array([[np.square(R.data - product(R, W, H).data).sum(dtype=np.float64)]])


def solved(apply: Callable[[np.ndarray], np.ndarray], B: np.ndarray, X: np.ndarray, *, n_steps: int = 5) -> np.ndarray:
    """Solve apply(X) = B approximately by `n_steps` steps of conjugate gradients, separately for each row."""
    R = B - apply(X)
    P, rho = R, (R * R).sum(axis=1, keepdims=True)
    for _ in range(n_steps):
        Q = apply(P)
        alpha = rho / np.maximum((P * Q).sum(axis=1, keepdims=True), np.float32(1e-30))
        X, R = X + alpha * P, R - alpha * Q
        rho, old = (R * R).sum(axis=1, keepdims=True), rho
        P = R + rho / np.maximum(old, np.float32(1e-30)) * P
    return X


def als(R: da.Array, *, n_rounds: int = 4) -> tuple[da.Array, np.ndarray, list[float]]:
    """Return W, H and the root mean squared errors at the stored ratings, before the first round and after each.

    W has one block per block of users. H is small: the client holds it and sends it to the workers in each step.
    """
    users, items = R.shape
    W = da.random.default_rng(0).standard_normal((users, K), chunks=(R.chunks[0], K), dtype=np.float32)
    W = (W / 10).persist()
    H = np.random.default_rng(1).standard_normal((items, K), np.float32) / 10
    by_block = {"chunks": ((1,) * R.numblocks[0], (items,), (K,)), "new_axis": [2], "dtype": np.float32}

    def error() -> float:
        return float(
            np.sqrt(da.map_blocks(squares, R, W, H=H, chunks=(1, 1), dtype=float).sum().compute() / (users * RATED))
        )

    def of_items(P: np.ndarray) -> np.ndarray:
        parts = da.map_blocks(items_part, R, W, P=P, **by_block)
        return parts.sum(axis=0).compute() + PENALTY * P

    errors = [error()]
    for _ in range(n_rounds):
        W = da.map_blocks(users_of, R, W, H=H, chunks=W.chunks, dtype=np.float32).persist()
        H = solved(of_items, da.map_blocks(ratings_part, R, W, **by_block).sum(axis=0).compute(), H)
        errors.append(error())
    return W, H, errors


def main(arguments: Sequence[str] | None = None) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Run the example; return W, H and the errors."""
    chosen = options(__doc__, arguments, entries=200_000_000, blocks=32)
    users = max(1, chosen.entries // RATED // chosen.blocks)
    items = max(2 * RATED, users // 10)
    with workers(chosen, "dask_als.py"):
        make = partial(ratings, users=users, items=items)
        made = asp.dask.from_blocks(make, ([users] * chosen.blocks, [items]), dtype=np.float32)
        R = in_memory(made, chosen)
        start = time.perf_counter()
        W, H, errors = als(R)
        print(f"{time.perf_counter() - start:.1f} s; errors {', '.join(f'{one:.3f}' for one in errors)}")
        return W.compute(), H, errors


if __name__ == "__main__":
    main()
