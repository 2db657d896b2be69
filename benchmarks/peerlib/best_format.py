"""BestFormat: a selector among five formats, each with one schedule, trained on measured schedules (WACO §5.1).

The paper's baseline chooses among the five formats that won most often; here they are the five families of our space
(CSR, rows in blocks, BCSR, slices as SELL, diagonals as DIA, ...) with most winners among the training patterns. A
family stands for its best schedule over all patterns. Gradient-boosted trees on the statistics of a pattern predict
each family's time; the least one is chosen. No pattern of a held-out group is trained on.
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
from autosparse.tuner.collect.files import MEASURED, Measurements, write_whole
from autosparse.tuner.collect.recipes import Recipe
from autosparse.tuner.features.pattern_vector import VECTOR_WIDTHS
from autosparse.tuner.space.families import MAX_TILE_VECTORS
from autosparse.tuner.space.own import OwnSpace, own_space

from autosparse.core.plan import Plan
from autosparse.core.schedule import SuperSchedule
from autosparse.dispatch.state import state_for
from autosparse.errors import ScheduleError
from autosparse.tuning.memory.plan_lookup import remember
from autosparse.tuning.setup import context_of

Vectors = Mapping[str, np.ndarray]
"""Digest of a recipe -> statistics of its pattern."""

N_FORMATS: Final = 5
PRIOR: Final = 4.0
"""Patterns of average distance that every schedule is given beside its own: few measurements prove little."""
FEWEST: Final = 5
"""Patterns below which a family has no predictor."""


def training_vectors(found: Iterable[Measurements], folder: Path | None, kept: Path | None) -> Vectors:
    """Statistics of the patterns of `found` outside held-out groups; in `kept` already, or made and put there.

    Patterns of files that `folder` does not have are left out.
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
    """The trained selector; `schedules` and `predictors` by family, in order of winners."""

    schedules: Mapping[str, SuperSchedule]
    predictors: Mapping[str, Callable[[np.ndarray], float]] = field(repr=False)
    n_patterns: int

    @classmethod
    def train(cls, algorithm: str, found: Iterable[Measurements], vectors: Vectors) -> BestFormat:
        """From measurements of "spmv" or "spmm"; ValueError when no pattern of them may be used."""
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
        """The schedules of all families, the least predicted time first."""
        families = sorted(self.schedules, key=lambda family: self.predictors[family](vector))
        return [self.schedules[family] for family in families]


def _families(one: Measurements, space: OwnSpace) -> dict[str, dict[SuperSchedule, float]]:
    """Family -> {schedule: log ratio} of one pattern; index width and run-time parameters apart, they are one."""
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
    """The schedule that is nearest to the best of its family on the patterns where it ran, on average."""
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
    """Log ratio of the family's best schedule from a pattern's statistics; its mean where too few patterns tell."""
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
    """Boosted trees as arrays, (trees, nodes): scikit-learn needs a millisecond to begin, this takes a few dozen us."""

    feature: np.ndarray  # of inner nodes
    threshold: np.ndarray
    below: np.ndarray  # node where the feature is at most the threshold; leaves lead to themselves
    above: np.ndarray
    value: np.ndarray  # of leaves, times the learning rate
    start: float
    depth: int

    @classmethod
    def of(cls, model: Any) -> Trees:
        """The trees of a fitted GradientBoostingRegressor."""
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
        """The prediction for one vector."""
        rows = np.arange(len(self.value))
        at = np.zeros(len(rows), np.int64)
        for _ in range(self.depth):
            is_below = vector[self.feature[rows, at]] <= self.threshold[rows, at]
            at = np.where(is_below, self.below[rows, at], self.above[rows, at])
        return self.start + float(self.value[rows, at].sum())


def widened(one: SuperSchedule, *, tiles: Sequence[int], lanes: int) -> SuperSchedule:
    """`one` with the widest of `tiles` that the registers hold: for more columns than it was measured with."""
    if not one.dense_splits:  # a vector, or loops of the runtime, which cut columns as registers allow
        return one
    rows = max(1, one.format.split("i"))
    fitting = [tile for tile in tiles if rows * max(1, tile // lanes) <= MAX_TILE_VECTORS]
    return dataclasses.replace(one, dense_splits=(("j", max(fitting, default=min(tiles))),))


def of_both_widths(one: SuperSchedule) -> list[SuperSchedule]:
    """`one` with narrow indices, for patterns where they suffice, then with wide ones; CSR for SpMM as it is."""
    is_wide = bool(one.dense_splits) or one.implementation == "runtime"
    widths = (32,) if one.format.is_csr and is_wide else (16, 32)
    return [dataclasses.replace(one, format=dataclasses.replace(one.format, index_bits=bits)) for bits in widths]


def install(A: Any, n_dense_cols: int, schedule: SuperSchedule) -> Plan:
    """Let `A @ B` run `schedule`, built and packed now: the plan in use, the default one where that fails."""
    operand = A._cell
    operand.refresh()
    slot = state_for(operand, operand.rows or operand.validate(), n_dense_cols, False)
    slot.n_dense_cols = n_dense_cols
    remember(context_of(operand, slot), Plan(schedule=schedule, why="chosen by BestFormat", effort="measure"))
    plan: Plan = A.tune("matmul", columns=n_dense_cols, effort="measure")
    return plan
