"""Training run of boosted trees: fit, ranking, curve over the number of trees, and a portfolio of programs.

A run takes seconds and cannot be resumed. The portfolio is about a hundred programs whose best is nearly as fast as the
best of thousands: each program that is added reduces the mean predicted time of the best usable program over training
patterns the most. Scoring a hundred programs is cheaper than searching a graph of thousands, and loses a few tenths of
a percent of the best predicted time (docs/design/cost-models.md).

Training reads programs of this library's space and of WACO's, and a program has the value "absent" for every parameter
of the space that it does not belong to. Products search the library's space only. So `own_only` replaces each split on
another space's parameter, whose outcome is known, by the child on that side: equal predictions with fewer columns.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from autosparse.tuner.analytic.models import predicted_ratios
from autosparse.tuner.features.pattern_vector import sketch
from autosparse.tuner.learned.codes import width
from autosparse.tuner.learned.names import is_wide
from autosparse.tuner.learned.predict import PORTFOLIO, RatioScale, suits
from autosparse.tuner.learned.scorers import BOOSTED, guess_column, inputs, n_inputs
from autosparse.tuner.learned.trees import NODE, Trees
from autosparse.tuner.research.collect.recipes import Recipe
from autosparse.tuner.research.training.boosting import (
    Boosted,
    BoostSettings,
    clipped_logs,
    features_of,
    fit,
    weights_of,
)
from autosparse.tuner.research.training.data import UNSEEN, DataSet, TrainingCase
from autosparse.tuner.research.training.meaning import Meaning, write_model
from autosparse.tuner.research.training.ranking import CURVE, RANKING, WEIGHTS, Epoch, Ranking, write_curve
from autosparse.tuner.space.joint import SPACE, JointSpace
from autosparse.tuner.space.own import OwnSpace
from autosparse.tuner.space.template import Categorical, Parameter
from numpy.typing import NDArray

from autosparse.core.dtypes import Flag, NarrowIndex, NarrowReal, ProgramCode, Real, WideIndex
from autosparse.core.pattern import Pattern, TensorPattern
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import Target

OWN: Final = 0
"""Position of this library's space among the spaces of a model that products read."""


def is_joint(space: JointSpace) -> bool:
    """Return whether `space` contains this library's space first, and another one."""
    return len(space.spaces) > 1 and isinstance(space.spaces[OWN], OwnSpace)


def is_own(codes: NDArray[ProgramCode], space: JointSpace) -> NDArray[Flag]:
    """Return a mask of the rows of codes whose program belongs to this library's space; all True for a single space."""
    return codes[:, 0] == OWN if is_joint(space) else np.ones(len(codes), Flag)


def own_only(space: JointSpace) -> JointSpace:
    """Return the union that contains this library's space alone."""
    return JointSpace(space.spaces[: OWN + 1])


def own_columns(space: JointSpace) -> NDArray[WideIndex]:
    """Return the columns of rows of codes in `space` that a code in `own_only(space)` has, in its order."""
    kept = {SPACE, *(f"{space.spaces[OWN].name}.{one.name}" for one in space.spaces[OWN].parameters)}
    names = [one.name for one in space.parameters for _ in range(width(one))]
    return np.flatnonzero([name in kept for name in names])


def restricted(trees: Trees, space: JointSpace) -> Trees:
    """Return trees over codes of `own_only(space)` that predict for its programs exactly what `trees` predict."""
    constant = _constants(space.parameters, space.spaces[OWN].name)
    columns = own_columns(space)
    moved = np.full(len(constant) + 1, -1)
    moved[columns] = np.arange(columns.size)
    moved[-1] = columns.size  # the analytic model's ratio follows the code
    kept: list[tuple[float, int, int, int]] = []
    nodes, change = trees.nodes.tolist(), (trees.n_sketch, constant, moved)
    roots = [_copy(nodes, root, kept, change) for root in trees.roots.tolist()]
    return Trees(np.array(kept, NODE), np.array(roots, NarrowIndex), trees.base, trees.n_sketch)


def _constants(parameters: Sequence[Parameter], own: str) -> list[int | None]:
    """Return the value of each column that is equal for all programs of the space `own`; None for other columns."""
    found: list[int | None] = []
    for one in parameters:
        if one.name == SPACE:
            found.append(OWN)
        elif one.name.startswith(f"{own}."):
            found += [None] * width(one)
        else:  # "absent" is the last value of a categorical parameter
            found += [one.size - 1 if isinstance(one, Categorical) else -1] * width(one)
    return found


def _copy(
    nodes: Sequence[Any], root: int, kept: list[tuple[float, int, int, int]], change: tuple[int, list[int | None], Any]
) -> int:
    """Append the tree at `root` to `kept` without splits on constants, parents first; return its root's position."""
    first, ahead = len(kept), [(root, -1, False)]  # (node, position of its parent, whether it is the right child)
    while ahead:
        at, parent, is_right = ahead.pop()
        at, feature = _decided(nodes, at, change)
        here = len(kept)
        if parent >= 0:
            value, left, right, split = kept[parent]
            kept[parent] = (value, left, here, split) if is_right else (value, here, right, split)
        kept.append((nodes[at][0], 0, 0, feature))
        if feature >= 0:
            ahead += [(nodes[at][2], here, True), (nodes[at][1], here, False)]
    return first


def _decided(nodes: Sequence[Any], at: int, change: tuple[int, list[int | None], Any]) -> tuple[int, int]:
    """Return the first node from `at` on that is a leaf or reads a column that is kept, and its new feature."""
    n_sketch, constant, moved = change
    while True:
        limit, left, right, feature = nodes[at]
        column = feature - n_sketch
        if column < 0:  # a leaf, or a split on the pattern
            return at, feature
        value = constant[column] if column < len(constant) else None
        if value is None:
            return at, n_sketch + int(moved[column])
        at = left if value <= limit else right


N_PORTFOLIO: Final = 128
N_POOL: Final = 2048
"""Number of programs to choose from: those that came nearest to the best measured one on some pattern."""
N_PATTERNS: Final = 240
"""Number of training patterns, evenly spread, on which programs are compared."""
WORST: Final = 3.0
"""Log ratio assumed for a program that cannot be used on a pattern."""

Codes = NDArray[ProgramCode]
Floats = NDArray[NarrowReal]


@dataclass(slots=True)
class Pool:
    """Candidate programs for a portfolio, and the patterns on which they are compared."""

    schedules: Sequence[SuperSchedule]
    codes: Codes
    every: int  # interval between the patterns that are used
    _n_met: int = 0
    _patterns: list[tuple[Floats, Codes, NDArray[Flag]]] = field(default_factory=list)

    @classmethod
    def of(cls, data: DataSet, cases: Sequence[TrainingCase], n_pool: int = N_POOL) -> Pool:
        """Build the pool from the schedules of `cases` that came nearest to the best of their pattern.

        Where the data have several spaces, only programs of this library's space are taken.
        """
        loss: dict[SuperSchedule, float] = {}
        codes: dict[SuperSchedule, NDArray[ProgramCode]] = {}
        for case in cases:
            ratios = case.ratios / case.ratios.min()
            for at in np.flatnonzero(is_own(case.codes, data.space)).tolist():
                one = case.schedules[at]
                loss[one] = min(loss.get(one, np.inf), float(ratios[at]))
                codes[one] = case.codes[at]
        nearest = sorted(loss, key=lambda one: (loss[one], one.to_json()))
        kept = list(itertools.islice(nearest, n_pool))
        return cls(kept, np.stack([codes[one] for one in kept]), max(1, len(cases) // N_PATTERNS))

    def look_at(self, pattern: Floats, problem: Problem) -> None:
        """Use every `every`-th of the patterns given here for the comparison of programs."""
        self._n_met += 1
        if self._n_met % self.every:
            return
        guesses = guess_column(np.asarray(predicted_ratios(problem, self.schedules)))
        usable = np.array([suits(problem, one) for one in self.schedules])
        self._patterns.append((pattern, guesses, usable))

    def chosen(self, trees: Trees, n: int = N_PORTFOLIO) -> Codes:
        """Return the codes, (n, columns), of at most `n` programs that together are best on the patterns by `trees`."""
        logs = np.full((len(self._patterns), len(self.schedules)), WORST)
        for row, (pattern, guesses, usable) in zip(logs, self._patterns, strict=True):
            row[usable] = trees.on(pattern).predict(np.hstack([self.codes, guesses])[usable])
        return self.codes[greedy(logs, n)]


def greedy(logs: NDArray[Real], n: int) -> NDArray[WideIndex]:
    """Return up to `n` columns of `logs` (patterns, programs) that greedily minimise the mean of row minima."""
    if not logs.size:
        return np.arange(min(n, logs.shape[1]), dtype=WideIndex)
    best = np.full(len(logs), WORST)
    chosen: list[int] = []
    for _ in range(min(n, logs.shape[1])):
        means = np.minimum(logs, best[:, None]).mean(axis=0)
        means[chosen] = np.inf
        at = int(np.argmin(means))
        chosen.append(at)
        best = np.minimum(best, logs[:, at])
    return np.array(chosen, WideIndex)


EVERY: Final = 20
"""Number of trees between two points of the curve."""
MAX_WEIGHT: Final = 3.0
"""Maximum weight of patterns of a machine with few measurements."""


def machine_weights(cases: Sequence[TrainingCase]) -> dict[Target, float]:
    """Return weights that balance the machines, limited to MAX_WEIGHT per pattern."""
    counts = Counter(case.setting.target for case in cases)
    most = max(counts.values(), default=1)
    return {target: min(MAX_WEIGHT, most / n) for target, n in counts.items()}


@dataclass(frozen=True, eq=False)
class BoostedRun:
    """Training of one operation's boosted trees on `data`; `matrices` is the folder of the real patterns."""

    data: DataSet
    settings: BoostSettings
    matrices: Path | None

    def run(self, out: Path, progress: Callable[[float, str], object]) -> tuple[list[Epoch], dict[str, Ranking]]:
        """Train and write weights, curve and ranking to folder `out`; return (curve, ranking of each unseen split)."""
        start_s = time.perf_counter()
        train = self.data.of("train")
        pool = Pool.of(self.data, train)
        seen = self._seen(pool, progress)
        x, y = _table(train, seen)
        settings = dataclasses.replace(self.settings, fewest=max(1, min(self.settings.fewest, len(y) // 50)))
        machines = machine_weights(train)
        weights = np.concatenate([machines[case.setting.target] * weights_of(case.ratios, settings) for case in train])
        fitted = fit(x, y, n_sketch=n_inputs(self.data.dimension), settings=settings, weights=weights)
        curve = self._curve(fitted, (x, y), seen, start_s)
        ranked = {split: _rank(fitted, self.data.of(split), seen) for split in UNSEEN}
        known = {split: ranking for split, ranking in ranked.items() if ranking is not None}
        identity = {"extractor": BOOSTED, **asdict(self.settings), "op": self.data.op, "data": self.data.digest}
        # Trees predict log ratios, so that tuning can use the file without calibration.
        about = {**identity, **self.data.about(known.get("validation")), "scale": RatioScale().to_data()}
        out.mkdir(parents=True, exist_ok=True)
        self._write(out / WEIGHTS, fitted.trees, pool.chosen(fitted.trees), about)
        write_curve(out / CURVE, curve)
        facts = {split: asdict(ranking) if ranking else None for split, ranking in ranked.items()}
        text = json.dumps({"run": identity, "epoch": self.settings.n_trees, **facts}, indent=1)
        (out / RANKING).write_text(text, encoding="utf-8")
        return curve, known

    def _write(self, path: Path, trees: Trees, portfolio: NDArray[ProgramCode], about: Mapping[str, Any]) -> None:
        """Write the model file that products read: trees and portfolio over this library's space, if it is a part."""
        space = self.data.space
        if is_joint(space):
            trees, portfolio = restricted(trees, space), portfolio[:, own_columns(space)]
            space = own_only(space)
        meaning = Meaning(
            op=self.data.op, extractor=BOOSTED, dimension=self.data.dimension, parameters=space.parameters, about=about,
        )  # fmt: skip
        write_model(path, {**trees.tensors(), PORTFOLIO: portfolio}, meaning)

    def _seen(self, pool: Pool, progress: Callable[[float, str], object]) -> Seen:
        """Return the trees' inputs of every case, and show the cases to `pool`; each pattern is made once."""
        by_recipe: dict[Recipe, list[TrainingCase]] = {}
        for case in self.data.cases:
            by_recipe.setdefault(case.recipe, []).append(case)
        found: Seen = {}
        for at, (recipe, cases) in enumerate(by_recipe.items()):
            progress(at / len(by_recipe), f"pattern {at} of {len(by_recipe)}")
            structure = recipe.make(self.matrices).to_structure()
            numbers = sketch(structure, is_wide=is_wide(self.data.op))
            for case in cases:
                problem = _problem(case, structure)
                guesses = guess_column(np.asarray(predicted_ratios(problem, case.schedules)))
                pattern = inputs(numbers, case.setting)
                found[id(case)] = pattern, np.hstack([case.codes, guesses])
                if case.split == "train":
                    pool.look_at(pattern, problem)
        return found

    def _curve(self, fitted: Boosted, train: tuple[Floats, NDArray[Real]], seen: Seen, start_s: float) -> list[Epoch]:
        """Return a learning curve with a row per EVERY trees; losses are mean squared errors of log ratios."""
        cases = self.data.of("validation")
        x, y = _table(cases, seen) if cases else (train[0][:1], train[1][:1])
        ends = np.cumsum([len(case.codes) for case in cases])[:-1]
        rows = []
        losses = (float(np.mean((stage - train[1]) ** 2)) for _, stage in fitted.staged(train[0], every=EVERY))
        for (n, stage), train_loss in zip(fitted.staged(x, every=EVERY), losses, strict=True):
            parts = zip(np.split(stage, ends), cases, strict=True) if cases else ()
            scored = [(costs, case.ratios, case.censored) for costs, case in parts]
            ranking = Ranking.of(scored) if scored else None
            loss = float(np.mean((stage - y) ** 2)) if cases else math.nan
            rows.append(Epoch.of(n, (train_loss, loss), ranking, time.perf_counter() - start_s))
        return rows


Seen = dict[int, tuple[Floats, NDArray[ProgramCode]]]
"""Map from id(case) to (numbers of its pattern and setting, codes and analytic ratios of its schedules)."""


def _problem(case: TrainingCase, structure: Pattern | TensorPattern) -> Problem:
    setting = case.setting
    return Problem(
        operation=case.operation, pattern=structure, transposed=False, n_dense_cols=setting.n_dense_cols,
        dtype=setting.dtype, threads=setting.threads, deterministic=False, target=setting.target,
    )  # fmt: skip


def _table(cases: Sequence[TrainingCase], seen: Seen) -> tuple[Floats, NDArray[Real]]:
    x = np.vstack([features_of(*seen[id(case)]) for case in cases])
    return x, np.concatenate([clipped_logs(case.ratios) for case in cases])


def _rank(fitted: Boosted, cases: Sequence[TrainingCase], seen: Seen) -> Ranking | None:
    scored = [
        (fitted.trees.on(pattern).predict(programs), case.ratios, case.censored)
        for case in cases
        for pattern, programs in (seen[id(case)],)
    ]
    return Ranking.of(scored) if scored else None
