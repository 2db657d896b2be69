"""Short programs on texts, ratings and design matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import norm

from shortlib.inputs import counts, vector
from shortlib.program import dense, load, short


@short(lambda: {"X": counts(1000, 2000, 30)})
def tfidf(sp: Any, X: Any) -> Any:
    """Weight counts by tf-idf and normalise rows."""
    X = load(sp, X)
    df = np.bincount(X.indices, minlength=X.shape[1])
    idf = np.log((1 + X.shape[0]) / (1 + df)) + 1
    T = X @ sp.diags(idf)
    T = sp.diags(1 / np.sqrt(np.asarray(T.multiply(T).sum(axis=1)).ravel())) @ T
    return T.sum(axis=0)


@short(lambda: {"X": counts(1000, 2000, 30, matrix=True)})
def tfidf_matrix(sp: Any, X: Any) -> Any:
    """Weight counts by tf-idf with csr_matrix, `multiply` and boolean counts."""
    X = load(sp, X)
    df = np.asarray((X > 0).sum(axis=0)).ravel()
    T = X.multiply(np.log(X.shape[0] / np.maximum(df, 1))).tocsr()
    return np.asarray(T.sum(axis=1)).ravel()


@short(lambda: {"X": counts(300, 1500, 25)})
def cosine_similarities(sp: Any, X: Any) -> Any:
    """Compute cosines of all pairs of documents."""
    X = load(sp, X)
    X = X.multiply(1 / norm(X, axis=1)[:, None]).tocsr()
    S = dense(X @ X.T)
    np.fill_diagonal(S, 0)
    return S.max(axis=1)


@short(lambda: {"X": counts(2000, 1500, 25), "q": vector(1500)})
def query_scores(sp: Any, X: Any, q: Any) -> Any:
    """Score documents for ten queries and find the best."""
    X = load(sp, X)
    lengths = np.sqrt(np.asarray(X.power(2).sum(axis=1)).ravel())
    scores = (X @ np.roll(q, i) / lengths for i in range(10))
    return np.array([np.argsort(-score, kind="stable")[:5] for score in scores])


@short(lambda: {"X": counts(800, 1000, 25)})
def bm25(sp: Any, X: Any) -> Any:
    """Weight counts by BM25, changing values in place."""
    X = load(sp, X).copy()
    length = np.asarray(X.sum(axis=1)).ravel()
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    X.data = X.data * 2.2 / (X.data + 1.2 * (0.25 + 0.75 * length[rows] / length.mean()))
    df = np.bincount(X.indices, minlength=X.shape[1])
    return X @ np.log(1 + (X.shape[0] - df + 0.5) / (df + 0.5))


@short(lambda: {"X": counts(500, 600, 20)})
def cooccurrence(sp: Any, X: Any) -> Any:
    """Count words that occur together, and the positive mutual information of some."""
    X = load(sp, X)
    X.data = np.ones_like(X.data)
    C = (X.T @ X).tolil()
    C.setdiag(0)
    C = C.tocsr()
    return np.asarray(C.sum(axis=0)).ravel(), C.max()


@short(lambda: {"X": counts(1000, 800, 20), "y": np.arange(1000) % 3})
def naive_bayes(sp: Any, X: Any, y: Any) -> Any:
    """Fit and apply a multinomial naive Bayes model."""
    X = load(sp, X)
    Y = np.eye(3)[y]
    F = (X.T @ Y).T + 1.0
    log_p = np.log(F / F.sum(axis=1, keepdims=True))
    return X @ log_p.T


@short(lambda: {"X": counts(600, 500, 20)})
def kmeans(sp: Any, X: Any) -> Any:
    """Cluster documents by eight steps of k-means."""
    X = load(sp, X)
    centres = X[:6].toarray()
    squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    for _ in range(8):
        distances = squares[:, None] - 2 * (X @ centres.T) + (centres**2).sum(axis=1)
        labels = distances.argmin(axis=1)
        centres = np.array([np.asarray(X[labels == k].sum(axis=0)).ravel() / max((labels == k).sum(), 1)
                            for k in range(6)])  # fmt: skip
    return centres


@short(lambda: {"X": counts(1000, 300, 15), "y": vector(1000)})
def logistic_regression(sp: Any, X: Any, y: Any) -> Any:
    """Fit a logistic regression by forty gradient steps."""
    X, y, w = load(sp, X), (y > 0.5).astype(float), np.zeros(X.shape[1])
    for _ in range(40):
        p = 1 / (1 + np.exp(-(X @ w)))
        w -= 0.1 / X.shape[0] * (X.T @ (p - y))
    return w


@short(lambda: {"X": counts(1000, 300, 15), "y": vector(1000)})
def sgd_batches(sp: Any, X: Any, y: Any) -> Any:
    """Fit a linear model by steps on slices of fifty rows."""
    X, w = load(sp, X), np.zeros(X.shape[1])
    for start in range(0, X.shape[0], 50):
        part = X[start : start + 50]
        w -= 1e-3 * part.T @ (part @ w - y[start : start + 50])
    return w


@short(lambda: {"X": counts(1000, 300, 15), "y": vector(1000)})
def sgd_shuffled(sp: Any, X: Any, y: Any) -> Any:
    """Fit a linear model by steps on random rows."""
    X, w, rng = load(sp, X), np.zeros(X.shape[1]), np.random.default_rng(0)
    for rows in np.array_split(rng.permutation(X.shape[0]), 25):
        part = X[rows]
        w -= 1e-3 * part.T @ (part @ w - y[rows])
    return w


@short(lambda: {"X": counts(200, 120, 15), "y": vector(200)})
def coordinate_descent(sp: Any, X: Any, y: Any) -> Any:
    """Fit a lasso by coordinate descent on columns of a CSC matrix."""
    X, w, r = load(sp, X).tocsc(), np.zeros(X.shape[1]), y.copy()
    for _ in range(2):
        for j in range(X.shape[1]):
            start, end = X.indptr[j], X.indptr[j + 1]
            rows, values = X.indices[start:end], X.data[start:end]
            norm2 = values @ values or 1.0
            new = w[j] + values @ r[rows] / norm2
            new = np.sign(new) * max(abs(new) - 0.1, 0)
            r[rows] -= (new - w[j]) * values
            w[j] = new
    return w


@short(lambda: {"R": counts(300, 200, 12), "U": vector(300, 6), "V": vector(200, 6, seed=1)})
def factor_ratings(sp: Any, R: Any, U: Any, V: Any) -> Any:
    """Factor ratings by gradient steps on the known entries."""
    R = load(sp, R).tocoo()
    for _ in range(15):
        error = R.data - (U[R.row] * V[R.col]).sum(axis=1)
        E = sp.csr_array((error, (R.row, R.col)), shape=R.shape)
        U, V = U + 1e-3 * (E @ V), V + 1e-3 * (E.T @ U)
    return U, V


@short(lambda: {"R": counts(250, 150, 10)})
def als(sp: Any, R: Any) -> Any:
    """Update factors of users by a small system each, from R[[i]]."""
    R, V = load(sp, R), vector(R.shape[1], 4)
    U = np.zeros((R.shape[0], 4))
    for i in range(R.shape[0]):
        row = R[[i]]
        F = V[row.indices]
        U[i] = np.linalg.solve(F.T @ F + 0.1 * np.eye(4), F.T @ row.data)
    return U


@short(lambda: {"X": counts(400, 300, 15), "W": vector(400, 5), "H": vector(5, 300, seed=1)})
def nmf(sp: Any, X: Any, W: Any, H: Any) -> Any:
    """Factor counts by multiplicative updates."""
    X = load(sp, X)
    for _ in range(20):
        H = H * (X.T @ W).T / (W.T @ W @ H + 1e-9)
        W = W * (X @ H.T) / (W @ (H @ H.T) + 1e-9)
    return W, H


@short(lambda: {"X": counts(500, 200, 10)})
def item_similarity(sp: Any, X: Any) -> Any:
    """Recommend items by similarities of columns."""
    X = load(sp, X)
    S = (X.T @ X).tocsr()
    S = S.multiply(1 / np.sqrt(np.outer(S.diagonal(), S.diagonal()) + 1))
    return np.asarray((X[:20] @ sp.csr_array(S)).argmax(axis=1)).ravel()


@short(lambda: {"X": counts(500, 400, 20)})
def standardise(sp: Any, X: Any) -> Any:
    """Compute means and variances of columns and scale them."""
    X = load(sp, X)
    mean = np.asarray(X.mean(axis=0)).ravel()
    variance = np.asarray(X.multiply(X).mean(axis=0)).ravel() - mean**2
    Z = X @ sp.diags_array(1 / np.sqrt(variance + 1e-9))
    return mean, variance, Z.T @ np.ones(X.shape[0])


@short(lambda: {"words": [f"w{k * k % 97}" for k in range(3000)]})
def count_words(sp: Any, words: Any) -> Any:
    """Count words of documents: lists of rows, columns and ones make a matrix."""
    vocabulary: dict[str, int] = {}
    rows, cols = [], []
    for at, word in enumerate(words):
        rows.append(at // 30)
        cols.append(vocabulary.setdefault(word, len(vocabulary)))
    X = sp.csr_matrix((np.ones(len(rows)), (rows, cols)), dtype=float)
    return np.asarray(X.sum(axis=0)).ravel(), X.max()
