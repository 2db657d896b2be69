"""Sixteen complete fits of scikit-learn on sparse features with default settings; each takes SciPy 0.3 to 4 s."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from programlib import inputs
from programlib.program import Inputs, Program, csr


def counts(toy: bool) -> Inputs:
    """Make documents by words: small integers as float64, with two classes."""
    shape = (60, 40, 6) if toy else (20_000, 30_000, 150)
    X = inputs.heavy_rows(*shape)
    X.data = 1.0 + np.floor(np.abs(X.data) * 4.0)
    rng = np.random.default_rng(0)
    scores = X @ rng.standard_normal(X.shape[1])
    return {"X": X, "y": (scores > np.median(scores)).astype(np.int64)}


def classes(toy: bool) -> Inputs:
    """Make rows with few of many features, all of value 1, and two classes."""
    X = inputs.heavy_rows(*((60, 20, 5) if toy else (60_000, 20_000, 50)))
    rng = np.random.default_rng(0)
    scores = X @ rng.standard_normal(X.shape[1])
    noise = scores.std() * rng.standard_normal(X.shape[0])
    return {"X": X, "y": (scores + noise > np.median(scores)).astype(np.int64)}


def targets(toy: bool) -> Inputs:
    """Make the features of `classes` with a real target."""
    X = classes(toy)["X"]
    rng = np.random.default_rng(1)
    y = X @ rng.standard_normal(X.shape[1])
    return {"X": X, "y": y + 0.1 * y.std() * rng.standard_normal(X.shape[0])}


def rates(toy: bool) -> Inputs:
    """Make the features of `classes` with counts as the target."""
    given = targets(toy)
    return {"X": given["X"], "y": np.random.default_rng(2).poisson(np.exp(0.3 * given["y"] / given["y"].std()))}


def few_documents(toy: bool) -> Inputs:
    """Return a quarter of the documents of `counts`, for neighbour searches."""
    given = counts(toy)
    n = given["X"].shape[0] if toy else 5_000
    return {"X": given["X"][:n], "y": given["y"][:n]}


def logistic_lbfgs(sp: Any, X: Any, y: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=60).fit(csr(sp, X), y).decision_function(csr(sp, X))


def logistic_newton(sp: Any, X: Any, y: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(solver="newton-cg", max_iter=100).fit(csr(sp, X), y).decision_function(csr(sp, X))


def logistic_saga(sp: Any, X: Any, y: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    A = csr(sp, X)
    return LogisticRegression(solver="saga", max_iter=15, tol=0.0, random_state=0).fit(A, y).decision_function(A)


def ridge(sp: Any, X: Any, y: Any) -> Any:
    from sklearn.linear_model import Ridge

    A = csr(sp, X)
    return Ridge(alpha=0.1, solver="sparse_cg", tol=1e-7).fit(A, y).predict(A)


def least_squares(sp: Any, X: Any, y: Any) -> Any:
    from sklearn.linear_model import LinearRegression

    A = csr(sp, X)
    return LinearRegression(tol=1e-8).fit(A, y).predict(A)


def poisson(sp: Any, X: Any, y: Any) -> Any:
    from sklearn.linear_model import PoissonRegressor

    A = csr(sp, X)
    return PoissonRegressor(alpha=1e-3, max_iter=60).fit(A, y).predict(A)


def elastic_net(sp: Any, X: Any, y: Any) -> Any:
    from sklearn.linear_model import ElasticNet

    A = csr(sp, X)
    return ElasticNet(alpha=1e-3, max_iter=50, tol=1e-12).fit(A, y).predict(A)


def linear_svc(sp: Any, X: Any, y: Any) -> Any:
    from sklearn.svm import LinearSVC

    A = csr(sp, X)
    return LinearSVC(random_state=0, max_iter=30).fit(A, y).decision_function(A)


def nmf(sp: Any, X: Any, y: Any) -> Any:
    from sklearn.decomposition import NMF

    return NMF(n_components=10, init="nndsvda", random_state=0, max_iter=30, tol=0.0).fit_transform(csr(sp, X))


def truncated_svd(sp: Any, X: Any, y: Any) -> Any:
    from sklearn.decomposition import TruncatedSVD

    return TruncatedSVD(n_components=30, random_state=0).fit(csr(sp, X)).singular_values_


def topics(sp: Any, X: Any, y: Any) -> Any:
    from sklearn.decomposition import LatentDirichletAllocation

    A = csr(sp, X)[:2_000]
    return LatentDirichletAllocation(n_components=8, max_iter=1, random_state=0).fit_transform(A)


def cosines(sp: Any, X: Any, y: Any) -> Any:
    """Compute term weights, and similarities of every document to two hundred documents."""
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.metrics.pairwise import cosine_similarity

    weights = TfidfTransformer().fit_transform(csr(sp, X))
    return cosine_similarity(weights, weights[:200])


def neighbours(sp: Any, X: Any, y: Any) -> Any:
    from sklearn.neighbors import NearestNeighbors

    A = csr(sp, X)
    distances, _ = NearestNeighbors(n_neighbors=10, algorithm="brute").fit(A).kneighbors(A)
    return distances


def label_spreading(sp: Any, X: Any, y: Any) -> Any:
    from sklearn.semi_supervised import LabelSpreading

    known = np.where(np.arange(len(y)) % 10, -1, y)
    return (
        LabelSpreading(kernel="knn", n_neighbors=10, max_iter=60, tol=0.0).fit(csr(sp, X), known).label_distributions_
    )


def naive_bayes(sp: Any, X: Any, y: Any) -> Any:
    from sklearn.naive_bayes import MultinomialNB

    A = csr(sp, X)
    return np.array([MultinomialNB(alpha=a).fit(A, y).predict_log_proba(A) for a in np.geomspace(1e-3, 1e2, 30)])


def perceptron(sp: Any, X: Any, y: Any) -> Any:
    from sklearn.neural_network import MLPClassifier

    A = csr(sp, X)
    return MLPClassifier((64,), max_iter=3, random_state=0, batch_size=512).fit(A, y).predict_proba(A)


def _fit(run: Any, prepare: Any, module: str, *, what: str, rtol: float) -> Program:
    return Program(
        name=f"fit_{run.__name__}",
        what=what,
        prepare=prepare,
        run=run,
        rtol=rtol,
        modules=(f"sklearn.{module}",),
    )


PROGRAMS: Final = (
    _fit(logistic_lbfgs, classes, "linear_model", what="LogisticRegression (lbfgs)", rtol=1e-2),
    _fit(logistic_newton, classes, "linear_model", what="LogisticRegression (newton-cg)", rtol=1e-2),
    _fit(logistic_saga, classes, "linear_model", what="LogisticRegression (saga)", rtol=1e-6),
    _fit(ridge, targets, "linear_model", what="Ridge (sparse_cg)", rtol=1e-5),
    _fit(least_squares, targets, "linear_model", what="LinearRegression (lsqr)", rtol=1e-5),
    _fit(poisson, rates, "linear_model", what="PoissonRegressor", rtol=1e-2),
    _fit(elastic_net, targets, "linear_model", what="ElasticNet", rtol=1e-6),
    _fit(linear_svc, classes, "svm", what="LinearSVC", rtol=1e-3),
    _fit(nmf, counts, "decomposition", what="NMF", rtol=1e-3),
    _fit(truncated_svd, counts, "decomposition", what="TruncatedSVD", rtol=1e-4),
    _fit(topics, few_documents, "decomposition", what="LatentDirichletAllocation", rtol=1e-4),
    _fit(cosines, counts, "metrics.pairwise", what="tf-idf and cosine similarity", rtol=1e-6),
    _fit(neighbours, few_documents, "neighbors", what="NearestNeighbors (brute)", rtol=1e-6),
    _fit(label_spreading, few_documents, "semi_supervised", what="LabelSpreading (knn)", rtol=1e-6),
    _fit(naive_bayes, counts, "naive_bayes", what="MultinomialNB, thirty smoothings", rtol=1e-6),
    _fit(perceptron, few_documents, "neural_network", what="MLPClassifier", rtol=1e-3),
)
