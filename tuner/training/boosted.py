"""A run of boosted trees: fit, rank, curve over the number of trees; seconds, so that nothing is taken up again."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
from autosparse.tuner.collect.recipes import Recipe
from autosparse.tuner.features.counts import NUMPY
from autosparse.tuner.features.counts import Counter as PatternCounter
from autosparse.tuner.features.sketch import SKETCH_WIDTHS, sketch
from autosparse.tuner.learned.boosting import Boosted, BoostSettings, features_of, fit, targets, weights_of
from autosparse.tuner.learned.ranking import Ranking
from autosparse.tuner.learned.scorers import BOOSTED, REFERENCES, pick_references
from autosparse.tuner.training.curves import CURVE, RANKING, WEIGHTS, Epoch, write_curve
from autosparse.tuner.training.data import UNSEEN, Case, DataSet
from autosparse.tuner.training.meaning import Meaning, write_model
from numpy.typing import NDArray

from autosparse.core.target import Target

Floats = NDArray[np.float32]
Sketches = dict[tuple[Recipe, Target], Floats]

EVERY: Final = 20
"""Trees between two points of the curve."""
N_REFERENCES: Final = 48
MOST_WEIGHT: Final = 3.0
"""Of a pattern measured on a machine that few were measured on."""


def machine_weights(cases: Sequence[Case]) -> dict[Target, float]:
    """How much the patterns of each machine count: machines alike, but none of its patterns more than MOST_WEIGHT."""
    counts = Counter(case.target for case in cases)
    most = max(counts.values(), default=1)
    return {target: min(MOST_WEIGHT, most / n) for target, n in counts.items()}


@dataclass(frozen=True, eq=False)
class BoostedRun:
    """One operation's trees from `data`; real patterns are in `matrices`."""

    data: DataSet
    settings: BoostSettings
    matrices: Path | None
    counter: PatternCounter = NUMPY

    def run(self, out: Path, progress: Callable[[float, str], object]) -> tuple[list[Epoch], dict[str, Ranking]]:
        """Write weights, curve and ranking to `out`; (curve, rankings of the unseen splits)."""
        start_s = time.perf_counter()
        sketches = self._sketches(progress)
        train = self.data.of("train")
        x, y = self._table(train, sketches)
        settings = dataclasses.replace(self.settings, fewest=max(1, min(self.settings.fewest, len(y) // 50)))
        machines = machine_weights(train)
        weights = np.concatenate([machines[case.target] * weights_of(case.ratios, settings) for case in train])
        n_sketch = SKETCH_WIDTHS[self.data.dimension]
        fitted = fit(x, y, n_sketch=n_sketch, settings=settings, weights=weights)
        curve = self._curve(fitted, (x, y), sketches, start_s)
        ranked = {split: self._rank(fitted, self.data.of(split), sketches) for split in UNSEEN}
        known = {split: ranking for split, ranking in ranked.items() if ranking is not None}
        identity = {"extractor": BOOSTED, **asdict(self.settings), "op": self.data.op, "data": self.data.digest}
        about = {
            **identity,
            "machines": list(self.data.machines),
            "n_train": len(train),
            "seen": self.data.seen.to_data(),
        }
        about["validation"] = asdict(known["validation"]) if "validation" in known else None
        meaning = Meaning(
            op=self.data.op,
            extractor=BOOSTED,
            dimension=self.data.dimension,
            parameters=self.data.space.parameters,
            about=about,
        )
        references = pick_references([sketches[case.recipe, case.target] for case in train], N_REFERENCES)
        out.mkdir(parents=True, exist_ok=True)
        write_model(out / WEIGHTS, {**fitted.trees.tensors(), REFERENCES: references}, meaning)
        write_curve(out / CURVE, curve)
        facts = {split: asdict(ranking) if ranking else None for split, ranking in ranked.items()}
        text = json.dumps({"run": identity, "epoch": self.settings.n_trees, **facts}, indent=1)
        (out / RANKING).write_text(text, encoding="utf-8")
        return curve, known

    def _sketches(self, progress: Callable[[float, str], object]) -> Sketches:
        """Every pattern is made once, however many machines measured it."""
        targets: dict[Recipe, dict[Target, None]] = {}
        for case in self.data.cases:
            targets.setdefault(case.recipe, {})[case.target] = None
        found: Sketches = {}
        for at, (recipe, machines) in enumerate(targets.items()):
            progress(at / len(targets), f"pattern {at} of {len(targets)}")
            structure = recipe.make(self.matrices).to_structure()
            is_wide = self.data.op != "spmv"
            found |= {(recipe, target): sketch(structure, self.counter, target, is_wide=is_wide) for target in machines}
        return found

    def _table(self, cases: Sequence[Case], sketches: Sketches) -> tuple[Floats, NDArray[np.float64]]:
        x = np.vstack([features_of(sketches[case.recipe, case.target], case.codes) for case in cases])
        return x, np.concatenate([targets(case.ratios) for case in cases])

    def _rank(self, fitted: Boosted, cases: Sequence[Case], sketches: Sketches) -> Ranking | None:
        scored = [
            (fitted.trees.on(sketches[case.recipe, case.target]).predict(case.codes), case.ratios, case.censored)
            for case in cases
        ]
        return Ranking.of(scored) if scored else None

    def _curve(
        self, fitted: Boosted, train: tuple[Floats, NDArray[np.float64]], sketches: Sketches, start_s: float
    ) -> list[Epoch]:
        """A row per EVERY trees; losses are mean squared errors of log ratios."""
        cases = self.data.of("validation")
        x, y = self._table(cases, sketches) if cases else (train[0][:1], train[1][:1])
        ends = np.cumsum([len(case.codes) for case in cases])[:-1]
        rows = []
        seen = (float(np.mean((stage - train[1]) ** 2)) for _, stage in fitted.staged(train[0], every=EVERY))
        for (n, stage), train_loss in zip(fitted.staged(x, every=EVERY), seen, strict=True):
            parts = zip(np.split(stage, ends), cases, strict=True) if cases else ()
            scored = [(costs, case.ratios, case.censored) for costs, case in parts]
            ranking = Ranking.of(scored) if scored else None
            rows.append(
                Epoch(
                    n,
                    train_loss,
                    float(np.mean((stage - y) ** 2)) if cases else math.nan,
                    *((ranking.ordered_pairs, ranking.kendall_tau) if ranking else (math.nan, math.nan)),
                    *((ranking.top[1], ranking.top[10]) if ranking else (math.nan, math.nan)),
                    time.perf_counter() - start_s,
                )
            )
        return rows
