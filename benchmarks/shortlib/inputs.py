"""Inputs of short programs: graphs, grids, counts of words, chains, vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sps
from programlib.inputs import canonical, convection, heavy_rows, heavy_tails, laplacian

__all__ = ["chain", "convection", "coo", "counts", "digraph", "graph", "grid", "lower", "scattered", "vector"]


def vector(n: int, *columns: int, seed: int = 0, dtype: str = "float64") -> Any:
    """Return random numbers in [0, 1)."""
    return np.random.default_rng(seed).random((n, *columns)).astype(dtype)


def grid(*extents: int, matrix: bool = False) -> Any:
    """Return the Laplacian of a grid plus a small diagonal: a csr_array, or a csr_matrix."""
    found = canonical(laplacian(*extents) + 0.1 * sps.eye_array(int(np.prod(extents))))
    return sps.csr_matrix(found) if matrix else found


def digraph(n: int, degree: float, *, matrix: bool = False) -> Any:
    """Return a directed graph with heavy tails and weights in [1, 2)."""
    found = canonical(heavy_tails(n, degree))
    found.data[:] = 1 + np.random.default_rng(1).random(found.nnz)
    return sps.csr_matrix(found) if matrix else found


def graph(n: int, degree: float, *, matrix: bool = False) -> Any:
    """Return an undirected graph with heavy tails and weights 1."""
    m = digraph(n, degree / 2)
    both = sps.csr_array(m + m.T)
    both.setdiag(0)
    both.eliminate_zeros()
    both.data[:] = 1.0
    return sps.csr_matrix(both) if matrix else canonical(both)


def chain(n: int, degree: int) -> Any:
    """Return a row-stochastic matrix of a Markov chain with `degree` successors of each state."""
    rng = np.random.default_rng(0)
    rows, cols = np.repeat(np.arange(n), degree), rng.integers(0, n, n * degree)
    P = canonical(sps.coo_array((rng.random(n * degree) + 0.1, (rows, cols)), shape=(n, n)))
    P.data /= np.repeat(P.sum(axis=1), np.diff(P.indptr))
    return P


def counts(n: int, words: int, per_row: int, *, matrix: bool = False, dtype: str = "float64") -> Any:
    """Return counts of words in documents."""
    X = heavy_rows(n, words, per_row)
    X.data = np.random.default_rng(0).integers(1, 6, X.nnz).astype(dtype)
    return sps.csr_matrix(X) if matrix else X


def scattered(
    n: int, n_cols: int, density: float, *, dtype: str = "float64", matrix: bool = False, seed: int = 0
) -> Any:
    """Return random entries in [0, 1), or up to 9 in integers."""
    m = sps.random_array((n, n_cols), density=density, rng=np.random.default_rng(seed), format="csr")
    m.data = m.data * (10 if np.dtype(dtype).kind == "i" else 1)
    return sps.csr_matrix(m.astype(dtype)) if matrix else m.astype(dtype)


def lower(n: int, per_row: int) -> Any:
    """Return a lower triangular matrix with a dominant diagonal."""
    m = scattered(n, n, per_row / n)
    return canonical(sps.tril(m, -1) + per_row * sps.eye_array(n))


def coo(n: int, n_cols: int, n_entries: int) -> tuple[Any, Any, Any]:
    """Return (values, rows, columns) of random entries, some of them double."""
    rng = np.random.default_rng(0)
    return rng.random(n_entries), rng.integers(0, n, n_entries), rng.integers(0, n_cols, n_entries)
