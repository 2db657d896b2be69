"""Programs of machine learning: scikit-learn on sparse features, and a pruned network."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from programlib import inputs
from programlib.program import Inputs, Program, csr


def labelled(toy: bool) -> Inputs:
    X = inputs.real_or("a9a", lambda: inputs.heavy_rows(60 if toy else 32_560, 20 if toy else 122, 14), toy=toy)
    rng = np.random.default_rng(0)
    scores = X @ rng.standard_normal(X.shape[1])
    noise = scores.std() * rng.standard_normal(X.shape[0])
    return {"X": X, "y": (scores + noise > np.median(scores)).astype(np.int64)}


def logistic_regression(sp: Any, X: Any, y: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    X = csr(sp, X)
    scores = []
    for C in (0.01, 0.1, 1.0, 10.0, 100.0):
        model = LogisticRegression(C=C, max_iter=1000, tol=1e-6).fit(X, y)
        scores.append(model.decision_function(X))
    return np.array(scores)


def bag_of_words(toy: bool) -> Inputs:
    shape = (50, 30, 6) if toy else (5_000, 60_000, 800)
    X = inputs.real_or("rfc_docterm", lambda: inputs.heavy_rows(*shape), toy=toy)
    X.data = np.log1p(np.abs(X.data))
    return {"X": X}


def truncated_svd(sp: Any, X: Any) -> Any:
    from sklearn.decomposition import TruncatedSVD

    X = csr(sp, X)
    return TruncatedSVD(n_components=8, n_iter=4, random_state=0).fit(X).singular_values_


def nmf(sp: Any, X: Any) -> Any:
    """Compute topics of documents by non-negative matrix factorisation."""
    from sklearn.decomposition import NMF

    X = csr(sp, X)
    return NMF(n_components=5, init="random", random_state=0, max_iter=20, tol=0.0).fit_transform(X)


def pruned_layers(toy: bool) -> Inputs:
    n, kept, n_batches = (40, 0.2, 2) if toy else (2048, 0.1, 12)
    rng = np.random.default_rng(0)
    layers = []
    for _ in range(3):
        dense = rng.standard_normal((n, n), dtype=np.float32) / np.float32(np.sqrt(n * kept))
        dense[rng.random((n, n)) >= kept] = 0.0
        layers.append((inputs.canonical(dense, "float32"), rng.standard_normal((n, 1), dtype=np.float32)))
    return {"layers": layers, "batches": rng.standard_normal((n_batches, n, 128), dtype=np.float32)}


def pruned_mlp(sp: Any, layers: Any, batches: Any) -> Any:
    """Run inference of a pruned network: sparse weights times dense activations, bias, ReLU."""
    network = [(csr(sp, W), bias) for W, bias in layers]
    sums = []
    for batch in batches:
        X = batch
        for W, bias in network:
            X = np.maximum(W @ X + bias, 0.0)
        sums.append(X.sum(axis=0))
    return np.array(sums)


PROGRAMS: Final = (
    Program(
        name="logistic_regression",
        what="LogisticRegression on sparse features",
        prepare=labelled,
        run=logistic_regression,
        rtol=1e-2,
        modules=("sklearn.linear_model",),
    ),
    Program(
        name="truncated_svd",
        what="TruncatedSVD, bag of words",
        prepare=bag_of_words,
        run=truncated_svd,
        rtol=1e-4,
        modules=("sklearn.decomposition",),
    ),
    Program(
        name="nmf",
        what="NMF, bag of words",
        prepare=bag_of_words,
        run=nmf,
        rtol=1e-4,
        modules=("sklearn.decomposition",),
    ),
    Program(name="pruned_mlp", what="inference of a pruned network", prepare=pruned_layers, run=pruned_mlp, rtol=1e-4),
)
