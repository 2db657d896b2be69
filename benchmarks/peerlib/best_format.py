"""BestFormat: selector among five formats, each with one schedule, trained on measured schedules (WACO §5.1).

The paper's baseline chooses among the five formats that won most often. Here these are the five families of our space
(CSR, rows in blocks, BCSR, slices as SELL, diagonals as DIA, ...) with most winners among the training patterns. Each
family is represented by its best schedule over all patterns. Gradient-boosted trees on the statistics of a pattern
predict each family's time, and the family with the least prediction is chosen. Held-out groups are not trained on.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from autosparse.tuner.features.pattern_vector import VECTOR_WIDTHS
from autosparse.tuner.research.collect.files import MEASURED, Measurements, write_whole
from autosparse.tuner.research.collect.recipes import Recipe
from autosparse.tuner.space.families import MAX_TILE_VECTORS
from autosparse.tuner.space.own import OwnSpace, own_space

from autosparse.core.plan import Plan
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import choice_of
from autosparse.dispatch.state import state_for
from autosparse.errors import ScheduleError
from autosparse.tuning.memory.plan_lookup import remember
from autosparse.tuning.setup import context_of

Vectors = Mapping[str, np.ndarray]
"""Statistics of the pattern by digest of its recipe."""

N_FORMATS: Final = 5
PRIOR: Final = 4.0
"""Number of pseudo-patterns of average distance added to each schedule, so that few measurements count less."""
FEWEST: Final = 5
"""Minimum number of patterns for which a family gets a predictor."""


def training_vectors(found: Iterable[Measurements], folder: Path | None, kept: Path | None) -> Vectors:
    """Return statistics of the patterns of `found` outside held-out groups; read them from `kept` or add them there.

    Patterns whose files are missing in `folder` are skipped.
    """
    known = _read(kept)
    n_kept = len(known)
    for recipe in dict.fromkeys(one.recipe for one in found if not one.is_held_out):
        if recipe.digest() not in known and (vector := _vector(recipe, folder)) is not None:
            known[recipe.digest()] = vector
    if kept is not None and len(known) > n_kept:
        names = np.array(sorted(known))
        write_whole(kept, {"digests": names, "vectors": np.stack([known[name] for name in names.tolist()])})
    return known


def _vector(recipe: Recipe, folder: Path | None) -> np.ndarray | None:
    try:
        return recipe.make(folder).vector()
    except FileNotFoundError:
        return None


def _read(kept: Path | None) -> dict[str, np.ndarray]:
    if kept is None or not kept.exists():
        return {}
    with np.load(kept, allow_pickle=False) as file:
        digests, vectors = file["digests"].tolist(), file["vectors"]
    return dict(zip(digests, vectors, strict=True)) if vectors.shape[1:] == (VECTOR_WIDTHS[2],) else {}


@dataclass(frozen=True, eq=False)
class BestFormat:
    """Trained selector; `schedules` and `predictors` are keyed by family, in order of winners."""

    schedules: Mapping[str, SuperSchedule]
    predictors: Mapping[str, Callable[[np.ndarray], float]] = field(repr=False)
    n_patterns: int

    @classmethod
    def train(cls, algorithm: str, found: Iterable[Measurements], vectors: Vectors) -> BestFormat:
        """Train on measurements of "spmv" or "spmm"; raise ValueError if none of their patterns may be used."""
        space = own_space(algorithm)
        rows = {
            digest: row
            for one in found
            if not one.is_held_out and (digest := one.recipe.digest()) in vectors and (row := _families(one, space))
        }
        if not rows:
            raise ValueError("no measurements to train BestFormat on: their patterns are held out or cannot be made")
        winners = Counter(min(row, key=lambda family: min(row[family].values())) for row in rows.values())
        families = [family for family, _ in winners.most_common(N_FORMATS)]
        return cls(
            {family: _representative([row[family] for row in rows.values() if family in row]) for family in families},
            {family: _predictor(family, rows, vectors) for family in families},
            len(rows),
        )

    def choose(self, vector: np.ndarray) -> list[SuperSchedule]:
        """Return the schedules of all families, in order of predicted time."""
        families = sorted(self.schedules, key=lambda family: self.predictors[family](vector))
        return [self.schedules[family] for family in families]


def _families(one: Measurements, space: OwnSpace) -> dict[str, dict[SuperSchedule, float]]:
    """Return {schedule: log ratio} of one pattern by family, ignoring index width and run-time parameters."""
    found: dict[str, dict[SuperSchedule, float]] = defaultdict(dict)
    for at in np.flatnonzero((one["status"] == MEASURED) & (one["ratio"] > 0)).tolist():
        schedule = SuperSchedule.from_json(one.schedules[at])
        try:
            family = space.values_of(schedule)["family"]
        except ScheduleError:
            continue
        plain = dataclasses.replace(schedule, partition="nnz", chunk=32, threads=0)
        key = dataclasses.replace(plain, format=dataclasses.replace(plain.format, index_bits=32))
        log_ratio = math.log(one["ratio"][at])
        found[family][key] = min(found[family].get(key, math.inf), log_ratio)
    return dict(found)


def _representative(rows: Sequence[Mapping[SuperSchedule, float]]) -> SuperSchedule:
    """Return the schedule with the least average distance to the best of its family, over the patterns where it ran."""
    distances: dict[SuperSchedule, list[float]] = defaultdict(list)
    for row in rows:
        least = min(row.values())
        for schedule, log_ratio in row.items():
            distances[schedule].append(log_ratio - least)
    average = float(np.mean([distance for row in distances.values() for distance in row]))

    def score(schedule: SuperSchedule) -> tuple[float, str]:
        mine = distances[schedule]
        return (sum(mine) + PRIOR * average) / (len(mine) + PRIOR), schedule.to_json()

    return min(distances, key=score)


def _predictor(
    family: str, rows: Mapping[str, Mapping[str, Mapping[SuperSchedule, float]]], vectors: Vectors
) -> Callable[[np.ndarray], float]:
    """Return a predictor of the log ratio of the family's best schedule, or its mean if there are too few patterns."""
    from sklearn.ensemble import GradientBoostingRegressor

    digests = [digest for digest, row in rows.items() if family in row]
    wanted = np.array([min(rows[digest][family].values()) for digest in digests])
    if len(digests) < FEWEST:
        mean = float(wanted.mean())
        return lambda vector: mean
    found = GradientBoostingRegressor(
        n_estimators=120, max_depth=4, min_samples_leaf=4, subsample=0.7, max_features=0.3, random_state=0
    )
    found.fit(np.stack([vectors[digest] for digest in digests]), wanted)
    return Trees.of(found)


@dataclass(frozen=True, eq=False)
class Trees:
    """Boosted trees as arrays (trees, nodes). A prediction takes a few dozen microseconds; scikit-learn needs 1 ms."""

    feature: np.ndarray  # feature tested by inner nodes
    threshold: np.ndarray
    below: np.ndarray  # next node if the feature is at most the threshold; leaves point to themselves
    above: np.ndarray
    value: np.ndarray  # value of leaves times the learning rate
    start: float
    depth: int

    @classmethod
    def of(cls, model: Any) -> Trees:
        """Convert a fitted GradientBoostingRegressor."""
        trees = [one.tree_ for one in model.estimators_[:, 0]]
        n_nodes = max(tree.node_count for tree in trees)

        def padded(values: Callable[[Any], np.ndarray], dtype: str) -> np.ndarray:
            table = np.zeros((len(trees), n_nodes), dtype)
            for row, tree in zip(table, trees, strict=True):
                row[: tree.node_count] = values(tree)
            return table

        def child(values: Callable[[Any], np.ndarray]) -> np.ndarray:
            return padded(lambda tree: np.where(values(tree) < 0, np.arange(tree.node_count), values(tree)), "i8")

        return cls(
            feature=padded(lambda tree: np.maximum(tree.feature, 0), "i8"),
            threshold=padded(lambda tree: tree.threshold, "f8"),
            below=child(lambda tree: tree.children_left),
            above=child(lambda tree: tree.children_right),
            value=padded(lambda tree: tree.value[:, 0, 0] * model.learning_rate, "f8"),
            start=float(model.init_.constant_[0, 0]),
            depth=max(tree.max_depth for tree in trees),
        )

    def __call__(self, vector: np.ndarray) -> float:
        """Return the prediction for one vector."""
        rows = np.arange(len(self.value))
        at = np.zeros(len(rows), np.int64)
        for _ in range(self.depth):
            is_below = vector[self.feature[rows, at]] <= self.threshold[rows, at]
            at = np.where(is_below, self.below[rows, at], self.above[rows, at])
        return self.start + float(self.value[rows, at].sum())


def widened(one: SuperSchedule, *, tiles: Sequence[int], lanes: int) -> SuperSchedule:
    """Return `one` with the widest of `tiles` that fits into registers, for more columns than it was measured with."""
    if not one.dense_splits:  # SpMV, or the runtime's loops, which choose their own tiles
        return one
    rows = max(1, one.format.split("i"))
    fitting = [tile for tile in tiles if rows * max(1, tile // lanes) <= MAX_TILE_VECTORS]
    return dataclasses.replace(one, dense_splits=(("j", max(fitting, default=min(tiles))),))


def of_both_widths(one: SuperSchedule) -> list[SuperSchedule]:
    """Return `one` with narrow and then wide indices; CSR for SpMM with wide indices only."""
    is_wide = bool(one.dense_splits) or one.implementation == "runtime"
    widths = (32,) if one.format.is_csr and is_wide else (16, 32)
    return [dataclasses.replace(one, format=dataclasses.replace(one.format, index_bits=bits)) for bits in widths]


def install(A: Any, n_dense_cols: int, schedule: SuperSchedule) -> Plan:
    """Make `A @ B` run `schedule`; return the plan in use, which is the default one if building or packing fails."""
    operand = A._cell
    operand.refresh()
    slot = state_for(operand, operand.rows or operand.validate(), n_dense_cols, False)
    slot.n_dense_cols = n_dense_cols
    remember(context_of(operand, slot), Plan(choice=choice_of(schedule), why="chosen by BestFormat", effort="measure"))
    plan: Plan = A.tune("matmul", columns=n_dense_cols, effort="measure")
    return plan
