"""Alternating least squares for ratings that are larger than one worker's memory, by sddmm.

W (users, k) and H (items, k) minimise the sum over stored ratings of (r - w h)^2 plus PENALTY (|W|^2 + |H|^2). With H
fixed each row of W solves a system of k equations; all of them at once by conjugate gradients whose product is
``(M o (P H^T)) H + PENALTY P``, with M the pattern of the ratings: an sddmm, then an SpMM (Bharadwaj, Buluc and Demmel
2022). Neither makes a k x k matrix for each user.

python examples/dask_als.py                          two local workers of 1.5 GB, ratings of 1.6 GB
python examples/dask_als.py --scheduler ADDRESS      a cluster: see dask_cluster.py for what changes
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sps
from dask_cluster import in_memory, options, workers

import autosparse as asp

K = 8
PENALTY = np.float32(0.1)
RATED = 100
"""Items of each user."""


def ratings(i: int, j: int, *, users: int, items: int) -> sps.csr_array:
    """Block i: RATED items of each user, popular ones more often; values from K hidden tastes, with noise."""
    tastes = np.random.default_rng(0).standard_normal((items, K)).astype(np.float32)
    rng = np.random.default_rng(i + 1)
    own = rng.standard_normal((users, K)).astype(np.float32) / np.float32(K**0.5)
    stride = rng.integers(1, max(2, items // RATED), users)
    first = (items * rng.random(users) ** 2).astype(np.int64)
    columns = np.sort((first[:, None] + stride[:, None] * np.arange(RATED)) % items, axis=1).astype(np.int32)
    starts = np.arange(0, columns.size + 1, RATED, dtype=np.int32)
    values = np.einsum("uk,urk->ur", own, tastes[columns]) + 0.1 * rng.standard_normal(columns.shape)
    return sps.csr_array((values.astype(np.float32).ravel(), columns.ravel(), starts), shape=(users, items))


def ones_of(block: asp.csr_array) -> asp.csr_array:
    """The pattern of a block over the same indices."""
    return asp.dask.block(sps.csr_array((np.ones_like(block.data), block.indices, block.indptr), shape=block.shape))


def solved(product: Callable[[da.Array], da.Array], B: da.Array, X: da.Array, *, n_steps: int = 5) -> da.Array:
    """X after some steps of conjugate gradients for each row of product(X) = B by itself."""
    R = B - product(X)
    P, rho = R, (R * R).sum(axis=1, keepdims=True)
    for _ in range(n_steps):
        Q = product(P)
        alpha = rho / da.maximum((P * Q).sum(axis=1, keepdims=True), np.float32(1e-30))
        X, R = X + alpha * P, R - alpha * Q
        rho, old = (R * R).sum(axis=1, keepdims=True), rho
        P = R + rho / da.maximum(old, np.float32(1e-30)) * P
        X, R, P, rho = dask.persist(X, R, P, rho)
    return X


def users_product(M: da.Array, H: da.Array, P: da.Array) -> da.Array:
    """(M o (P H^T)) H + PENALTY P, in blocks of users: nothing but H travels."""
    return asp.dask.sddmm(M, P, H.T) @ H + PENALTY * P


def items_product(M: da.Array, W: da.Array, P: da.Array) -> da.Array:
    """(M o (W P^T))^T W + PENALTY P: each block of users adds its part of it."""
    return asp.dask.sddmm(M, W, P.T).T @ W + PENALTY * P


def als(R: da.Array, *, n_rounds: int = 4) -> tuple[da.Array, da.Array, list[float]]:
    """(W, H, root of the mean squared error at the stored ratings before the first round and after each)."""
    M = R.map_blocks(ones_of, dtype=R.dtype).persist()
    nnz = int(M.sum().compute())
    rng = da.random.default_rng(0)
    W = (rng.standard_normal((R.shape[0], K), chunks=(R.chunks[0], K), dtype=np.float32) / 10).persist()
    H = (rng.standard_normal((R.shape[1], K), chunks=-1, dtype=np.float32) / 10).persist()

    def error() -> float:
        apart = R - asp.dask.sddmm(M, W, H.T)
        return float(np.sqrt((apart * apart).sum().compute() / nnz))

    errors = [error()]
    for _ in range(n_rounds):
        W = solved(partial(users_product, M, H), R @ H, W)
        H = solved(partial(items_product, M, W), R.T @ W, H)
        errors.append(error())
    return W, H, errors


def main(arguments: Sequence[str] | None = None) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """(W, H, errors)."""
    chosen = options(__doc__, arguments, entries=200_000_000)
    users = max(1, chosen.entries // RATED // chosen.blocks)
    items = max(2 * RATED, users // 10)
    with workers(chosen, "dask_als.py"):
        make = partial(ratings, users=users, items=items)
        made = asp.dask.from_blocks(make, ([users] * chosen.blocks, [items]), dtype=np.float32)
        R = in_memory(made, chosen)
        start = time.perf_counter()
        W, H, errors = als(R)
        print(f"{time.perf_counter() - start:.1f} s; errors {', '.join(f'{one:.3f}' for one in errors)}")
        return W.compute(), H.compute(), errors


if __name__ == "__main__":
    main()
