"""Fit of boosted trees to measured times (extra `train`: scikit-learn's histogram gradient boosting)."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from autosparse.tuner.learned.trees import NODE, Trees
from autosparse.tuner.research.collect.batches import seen_load
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowIndex, NarrowReal, Real
from autosparse.errors import MissingExtraError

Floats = NDArray[NarrowReal]

CLIPPED: Final = (-3.0, 2.5)
"""Bounds of learned log ratios; differences among slow schedules carry no information."""
LOOK_S: Final = 0.05
NEGLIGIBLE: Final = 0.3
"""Load of other processes, in processors, that is ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoostSettings:
    """Hyperparameters of boosting, which determine the fitted trees together with the data."""

    n_trees: int = 800
    rate: float = 0.06
    leaves: int = 63
    fewest: int = 30  # minimum rows per leaf; `BoostedRun` reduces it for few rows
    share: float = 0.5  # share of the features available to a split
    ridge: float = 5.0
    focus: float = 1.0  # a schedule f times as slow as the best of its pattern weighs f ** -focus
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Boosted:
    """Fitted regression trees, with the scikit-learn model from which they were exported."""

    trees: Trees
    _model: Any  # sklearn.ensemble.HistGradientBoostingRegressor

    def staged(self, x: Floats, *, every: int) -> Iterator[tuple[int, NDArray[Real]]]:
        """Yield (n, predictions by the first n trees) for n = `every`, 2 `every`, ..."""
        with _threads():
            stages = enumerate(self._model.staged_predict(x), start=1)
            kept = [(n, predicted) for n, predicted in stages if n % every == 0]
        yield from kept


def fit(
    x: Floats,
    y: NDArray[np.floating[Any]],
    *,
    n_sketch: int,
    settings: BoostSettings,
    weights: NDArray[np.floating[Any]] | None = None,
) -> Boosted:
    """Fit trees that predict y (n,) from x (n, features) by least squares.

    `weights` (n,) weigh the rows; None: equally. Raises MissingExtraError without scikit-learn.
    """
    regressor = _regressor()
    with _threads():
        model = regressor(
            max_iter=settings.n_trees,
            learning_rate=settings.rate,
            max_leaf_nodes=settings.leaves,
            min_samples_leaf=settings.fewest,
            max_features=settings.share,
            l2_regularization=settings.ridge,
            early_stopping=False,
            random_state=settings.seed,
        ).fit(x, y, sample_weight=weights)
    return Boosted(_exported(model, n_sketch), model)


def _threads() -> AbstractContextManager[Any]:
    """Limit scikit-learn's threads to the processors that other processes leave idle, since waiting threads spin."""
    from threadpoolctl import ThreadpoolController  # scikit-learn depends on it

    pools = ThreadpoolController().select(user_api="openmp")
    n_threads = max((one.num_threads for one in pools.lib_controllers), default=1)
    others = seen_load(LOOK_S)
    n_busy = math.ceil(max(0.0, others - NEGLIGIBLE)) if math.isfinite(others) else 0
    n_free = max(1, (os.cpu_count() or 1) - n_busy)
    return pools.limit(limits=min(n_threads, n_free))  # type: ignore[no-any-return]


def _exported(model: Any, n_sketch: int) -> Trees:
    """Return the trees of a fitted regressor; rounding thresholds down to float32 preserves all decisions."""
    tables = []
    for (predictor,) in model._predictors:
        nodes = predictor.nodes
        is_leaf = nodes["is_leaf"].astype(bool)
        at = np.where(is_leaf, nodes["value"], nodes["num_threshold"])
        single = at.astype(NarrowReal)
        is_above = ~is_leaf & (single.astype(Real) > at)
        single[is_above] = np.nextafter(single[is_above], NarrowReal(-np.inf))
        feature = np.where(is_leaf, -1, nodes["feature_idx"]).tolist()
        tables.append(list(zip(feature, single.tolist(), nodes["left"].tolist(), nodes["right"].tolist(), strict=True)))
    return trees_of(tables, float(np.ravel(model._baseline_prediction)[0]), n_sketch)


def clipped_logs(ratios: NDArray[np.floating[Any]]) -> NDArray[Real]:
    """Return the learning target: clipped logarithms of `ratios`, the times over the default kernel's."""
    return np.clip(np.log(np.asarray(ratios, Real)), *CLIPPED)


def weights_of(ratios: NDArray[np.floating[Any]], settings: BoostSettings) -> NDArray[Real]:
    """Return training weights of the schedules of one pattern, larger for fast ones."""
    y = clipped_logs(ratios)
    weights: NDArray[Real] = np.exp(-settings.focus * (y - y.min()))
    return weights


def features_of(pattern: Floats, programs: NDArray[Any]) -> Floats:
    """Return one row of features per program: the pattern's features (f,) followed by the program's code."""
    return np.hstack([np.repeat(pattern[None], len(programs), axis=0), programs.astype(NarrowReal)])


def _regressor() -> Any:  # Any: a class of an optional package
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
    except ModuleNotFoundError:
        raise MissingExtraError.needed("scikit-learn", extra="train", purpose="fitting boosted trees") from None
    return HistGradientBoostingRegressor


def trees_of(tables: Sequence[Sequence[tuple[int, float, int, int]]], base: float, n_sketch: int) -> Trees:
    """Build trees from one table per tree, with rows (feature or -1, threshold or value, left, right).

    Children are numbered within their tree.
    """
    roots = np.cumsum([0, *(len(table) for table in tables)])[:-1].astype(NarrowIndex)
    rows = [
        (at, left + root if feature >= 0 else 0, right + root if feature >= 0 else 0, feature)
        for root, table in zip(roots.tolist(), tables, strict=True)
        for feature, at, left, right in table
    ]
    return Trees(np.array(rows, NODE), roots, base, n_sketch)
