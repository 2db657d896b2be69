"""Short programs with sums, extremes, comparisons and elementwise operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from shortlib.inputs import counts, graph, scattered, vector
from shortlib.program import dense, load, short


@short(lambda: {"A": scattered(1000, 800, 0.01)})
def sums(sp: Any, A: Any) -> Any:
    """Compute sums and means along both axes."""
    A = load(sp, A)
    return A.sum(), A.sum(axis=0), A.sum(axis=1), A.mean(), A.mean(axis=0)


@short(lambda: {"A": scattered(200, 100, 0.05, matrix=True)})
def one_sum(sp: Any, A: Any) -> Any:
    """Compute one sum of a small matrix."""
    return load(sp, A).sum(axis=1)


@short(lambda: {"A": scattered(1000, 800, 0.01)})
def extremes(sp: Any, A: Any) -> Any:
    """Compute largest and smallest elements and their places."""
    A = load(sp, A)
    return A.max(), A.min(), dense(A.max(axis=0)), dense(A.min(axis=1)), A.argmax(axis=1), A.argmin()


@short(lambda: {"A": scattered(1000, 800, 0.01), "B": scattered(1000, 800, 0.01, seed=1)})
def comparisons(sp: Any, A: Any, B: Any) -> Any:
    """Compare matrices with each other and with numbers."""
    A, B = load(sp, A), load(sp, B)
    return (A > B).sum(), (A != B).nnz, (A > 0.5).sum(axis=0), (A < B).nnz


@short(lambda: {"A": scattered(600, 600, 0.02)})
def is_symmetric(sp: Any, A: Any) -> Any:
    """Test whether a matrix is symmetric before and after averaging."""
    A = load(sp, A)
    S = (A + A.T) / 2
    return (A != A.T).nnz == 0, abs(S - S.T).max()


@short(lambda: {"A": scattered(800, 600, 0.02), "B": scattered(800, 600, 0.02, seed=1)})
def arithmetic(sp: Any, A: Any, B: Any) -> Any:
    """Add, subtract and multiply elementwise."""
    A, B = load(sp, A), load(sp, B)
    C = 2 * A + B.multiply(A) - 0.5 * B
    return C.sum(axis=0), (-C).min(), (A * 3 - B / 2).nnz


@short(lambda: {"A": scattered(800, 600, 0.02)})
def functions(sp: Any, A: Any) -> Any:
    """Apply functions to the values."""
    A = load(sp, A)
    return A.sqrt().sum(), A.log1p().sum(axis=0), abs(-A).max(), A.power(2).sum(), np.expm1(A).sum()


@short(lambda: {"A": scattered(500, 400, 0.02), "B": scattered(500, 400, 0.02, seed=1)})
def maxima(sp: Any, A: Any, B: Any) -> Any:
    """Compute elementwise maxima and minima."""
    A, B = load(sp, A), load(sp, B)
    return A.maximum(B).sum(axis=0), A.minimum(B).sum(axis=0)


@short(lambda: {"A": graph(1000, 6.0, matrix=True)})
def degrees(sp: Any, A: Any) -> Any:
    """Count degrees in three ways."""
    A = load(sp, A)
    return A.getnnz(axis=1), np.diff(A.indptr), A.astype(bool).sum(axis=0), A.count_nonzero()


@short(lambda: {"A": scattered(600, 400, 0.03), "d": vector(600), "e": vector(400)})
def scaling(sp: Any, A: Any, d: Any, e: Any) -> Any:
    """Scale rows and columns, by diagonals and by broadcasts."""
    A = load(sp, A)
    B = sp.diags(d) @ A @ sp.diags(e)
    C = A.multiply(d[:, None]).multiply(e)
    return abs(B - C).max() < 1e-12, B.sum(axis=0)


@short(lambda: {"A": scattered(500, 500, 0.02)})
def normalise_rows(sp: Any, A: Any) -> Any:
    """Divide rows by their sums through np.repeat."""
    A = load(sp, A).copy()
    sums = np.maximum(np.asarray(A.sum(axis=1)).ravel(), 1e-12)
    A.data /= np.repeat(sums, np.diff(A.indptr))
    return A @ np.ones(500), A.T @ np.ones(500)


@short(lambda: {"A": scattered(400, 400, 0.02)})
def sinkhorn(sp: Any, A: Any) -> Any:
    """Balance rows and columns by Sinkhorn's iteration."""
    A, r, c = load(sp, A), np.ones(400), np.ones(400)
    for _ in range(25):
        r = 1 / np.maximum(A @ c, 1e-9)
        c = 1 / np.maximum(A.T @ r, 1e-9)
    return r, c


@short(lambda: {"X": counts(500, 300, 15)})
def correlations(sp: Any, X: Any) -> Any:
    """Compute correlations of columns."""
    X = load(sp, X)
    n, mean = X.shape[0], np.asarray(X.mean(axis=0)).ravel()
    C = dense(X.T @ X) / n - np.outer(mean, mean)
    s = np.sqrt(np.diag(C) + 1e-12)
    return C / np.outer(s, s)


@short(lambda: {"X": counts(300, 200, 10), "Y": vector(300, 1)})
def column_vectors(sp: Any, X: Any, Y: Any) -> Any:
    """Compute with column vectors and with X.T @ Y."""
    X = load(sp, X)
    return X.T @ Y, X @ (X.T @ Y), (Y.T @ X).ravel()


@short(lambda: {"A": scattered(300, 300, 0.03)})
def dense_mixture(sp: Any, A: Any) -> Any:
    """Add dense arrays and convert to dense ones."""
    A = load(sp, A)
    return A + np.eye(300), A.toarray().T @ np.ones(300), np.asarray(A.todense())


@short(lambda: {"A": scattered(400, 400, 0.02)})
def diagonals(sp: Any, A: Any) -> Any:
    """Read diagonals and the trace."""
    A = load(sp, A)
    return A.diagonal(), A.diagonal(k=2), A.trace(), (A @ A).diagonal()
