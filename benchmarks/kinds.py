"""Measure cost models on kinds of machines that they were not trained on, and variants meant to improve them.

    python benchmarks/kinds.py --matrices DIR --ops spmv,spmm32 --out benchmarks/results/kinds

Boosted trees are fitted to the training groups of one kind, of all other kinds, and of all kinds. They are evaluated on
validation groups and on held-out groups that are not sealed. A *kind* is a processor and an instruction set.

The score is the share of the best measured speed that an estimate reaches, as a geometric mean over patterns. The
estimate takes the best predicted program if it is predicted to be faster than the default kernel, and the default
kernel otherwise; the default kernel is among the measured programs. *With margins* uses the library's rule: the
prediction must exceed an allowance for its error, which is larger for a model of other kinds
(tuner/search/style.py).

WAYS are the variants that were tried for left-out kinds. Only validation groups may select one.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from autosparse.tuner.analytic.models import predicted_ratios
from autosparse.tuner.features.pattern_vector import sketch
from autosparse.tuner.features.setting import N_SETTING
from autosparse.tuner.learned.scorers import guess_column, inputs, n_inputs
from autosparse.tuner.research.training.boosted import machine_weights
from autosparse.tuner.research.training.boosting import (
    Boosted,
    BoostSettings,
    clipped_logs,
    features_of,
    fit,
    weights_of,
)
from autosparse.tuner.research.training.data import TrainingCase, read_data
from autosparse.tuner.search.style import acceptance_ratio, is_accepted
from peerlib.archives import extracted
from peerlib.environment import matrices_folder
from peerlib.records import ResultFile
from peerlib.table import markdown

from autosparse.core.problem import Problem

SPLITS: Final = ("validation", "held_out")
FEWEST: Final = 10
"""Minimum number of patterns in a split for evaluation, and in training for a model of a kind's own."""
SETTINGS: Final = BoostSettings(n_trees=100, rate=0.15)
STIFF: Final = replace(SETTINGS, leaves=15, fewest=200, ridge=100.0)


@dataclass(frozen=True, eq=False)
class Seen:
    """A case in the input form of the trees: rows (n, features); the last column is the statistics model's guess."""

    case: TrainingCase
    rows: np.ndarray = field(repr=False)
    accepted: Mapping[bool, np.ndarray] = field(repr=False)
    """Maximum accepted predicted ratio per program, (n,); the key tells whether the model is of other kinds."""

    @property
    def kind(self) -> str:
        target = self.case.setting.target
        return f"{'EPYC' if target.fills_last_cache_late else 'Xeon'} {target.isa}"


@dataclass(frozen=True, slots=True)
class Way:
    """Variant of fitting a model and of using its predictions."""

    settings: BoostSettings = SETTINGS
    knows_machine: bool = True
    guess_weight: float = 0.0  # weight of ranks by the statistics model's guess; the trees' ranks get the rest
    halves: int = 0  # number of averaged models, each fitted to half of the groups; 0: one model of all


WAYS: Final[Mapping[str, Way]] = {
    "as shipped": Way(),
    "without the machine's numbers": Way(knows_machine=False),
    "stiff trees": Way(STIFF, knows_machine=False),
    "ranks averaged with the guess's": Way(guess_weight=0.5),
    "stiff trees and averaged ranks": Way(STIFF, knows_machine=False, guess_weight=0.5),
    "mean of four halves": Way(halves=4),
}


def data_folders() -> list[Path]:
    """Return the folders of committed measurements of this library's programs."""
    folders = {path.parent for pattern in ("sp*.npz", "sd*.npz") for path in extracted("training").rglob(pattern)}
    return sorted(folders)


def prepared(op: str, matrices: Path | None, folders: Sequence[Path]) -> list[Seen]:
    """Return every case of the data that is not sealed; each pattern is made once."""
    by_recipe: dict[Any, list[TrainingCase]] = {}
    for case in read_data(folders, op).cases:
        if case.split != "sealed":
            by_recipe.setdefault(case.recipe, []).append(case)
    found = []
    for at, (recipe, cases) in enumerate(by_recipe.items()):
        if at % 100 == 0:
            print(f"{op}: pattern {at} of {len(by_recipe)}", file=sys.stderr, flush=True)
        structure = recipe.make(matrices).to_structure()
        numbers = sketch(structure, is_wide=op != "spmv")
        for case in cases:
            where = case.setting
            problem = Problem(
                operation=case.operation, pattern=structure, transposed=False, n_dense_cols=where.n_dense_cols,
                dtype=where.dtype, threads=where.threads, deterministic=False, target=where.target,
            )  # fmt: skip
            ratios = np.asarray(predicted_ratios(problem, case.schedules))
            rows = features_of(inputs(numbers, where), np.hstack([case.codes, guess_column(ratios)]))
            accepted = {is_foreign: accepted_ratios(problem, case, is_foreign) for is_foreign in (False, True)}
            found.append(Seen(case, rows, accepted))
    return found


def accepted_ratios(problem: Problem, case: TrainingCase, is_foreign: bool) -> np.ndarray:
    """Return the maximum predicted ratio at which the library accepts each program of `case`; 0 if it never does."""
    most = acceptance_ratio(problem, is_learned=True, is_foreign=is_foreign)
    return np.array([most * is_accepted(one, 0.0, most=most, is_learned=True) for one in case.schedules])


def fitted(train: Sequence[Seen], way: Way, n_sketch: int) -> Callable[[Seen], np.ndarray]:
    """Fit trees to `train`; return a function that predicts logarithms of the ratios of a case."""
    if way.halves:
        return _mean_of_halves(train, way, n_sketch)
    machines = machine_weights([one.case for one in train])
    weights = np.concatenate(
        [machines[one.case.setting.target] * weights_of(one.case.ratios, way.settings) for one in train]
    )
    y = np.concatenate([clipped_logs(one.case.ratios) for one in train])
    kept = np.ones(train[0].rows.shape[1], bool)
    if not way.knows_machine:
        kept[n_sketch - N_SETTING : n_sketch] = False
    settings = replace(way.settings, fewest=max(1, min(way.settings.fewest, len(y) // 50)))
    model: Boosted = fit(
        np.vstack([one.rows for one in train])[:, kept], y, n_sketch=0, settings=settings, weights=weights
    )

    def predicted(one: Seen) -> np.ndarray:
        costs = model._model.predict(one.rows[:, kept])  # scikit-learn's model: the exported trees need all columns
        if not way.guess_weight:
            return costs
        w, ranks = way.guess_weight, costs.argsort(kind="stable").argsort(kind="stable")
        ranks = (1 - w) * ranks + w * one.rows[:, -1].argsort(kind="stable").argsort(kind="stable")
        best = int(ranks.argmin())  # accepted or not by the trees' cost
        return np.where(np.arange(len(costs)) == best, costs[best], np.maximum(costs, costs[best] + 1e-6))

    return predicted


def _mean_of_halves(train: Sequence[Seen], way: Way, n_sketch: int) -> Callable[[Seen], np.ndarray]:
    groups = sorted({one.case.recipe.group for one in train})
    models = []
    for seed in range(way.halves):
        chosen = np.random.default_rng([26, seed]).permutation(len(groups))[: len(groups) // 2]
        kept = {groups[at] for at in chosen.tolist()}
        half = [one for one in train if one.case.recipe.group in kept]
        once = replace(way, halves=0, settings=replace(way.settings, seed=seed))
        models.append(fitted(half, once, n_sketch))
    return lambda one: np.asarray(np.mean([model(one) for model in models], axis=0))


def share(cases: Sequence[Seen], predicted: Callable[[Seen], np.ndarray], *, margins_of: bool | None = None) -> float:
    """Return the geometric mean of (best measured time) / (time of the program that an estimate takes).

    `margins_of` selects the library's margins: True for a model of other kinds, False for a model of this kind, None
    for no margins.
    """
    logs = []
    for one in cases:
        costs, ratios = predicted(one), np.minimum(one.case.ratios, 1e3)
        if margins_of is not None:
            costs = np.where(np.exp(costs) <= one.accepted[margins_of], costs, np.inf)
        best = int(costs.argmin())
        taken = float(ratios[best]) if costs[best] < 0 else 1.0
        logs.append(math.log(min(1.0, float(ratios.min())) / taken))
    return math.exp(float(np.mean(logs)))


def default_share(cases: Sequence[Seen]) -> float:
    """Return the same geometric mean for the default kernel alone."""
    return share(cases, lambda one: np.ones(len(one.case.ratios)))


def judged(op: str, seen: Sequence[Seen], ways: Mapping[str, Way], known: set[str]) -> list[dict[str, Any]]:
    """Return a record per left-out kind, training set and variant; kinds in `known` are skipped."""
    n_sketch = n_inputs(seen[0].case.recipe.n_dims)
    train = [one for one in seen if one.case.split == "train"]
    found: list[dict[str, Any]] = []
    for kind in sorted({one.kind for one in seen} - known):
        tests = {s: [one for one in seen if one.kind == kind and one.case.split == s] for s in SPLITS}
        tests = {s: cases for s, cases in tests.items() if len(cases) >= FEWEST}
        own = [one for one in train if one.kind == kind]
        trained = {"its own": own, "others": [one for one in train if one.kind != kind], "all": train}
        for name, cases in trained.items():
            if not tests or len({one.case.recipe for one in cases}) < FEWEST:
                continue
            for way, how in (ways if name == "others" else {"as shipped": WAYS["as shipped"]}).items():
                model = fitted(cases, how, n_sketch)
                shares = {
                    split: (
                        len(test), share(test, model), default_share(test),
                        share(test, model, margins_of=name == "others"),
                    )
                    for split, test in tests.items()
                }  # fmt: skip
                found.append({"op": op, "kind": kind, "trained on": name, "way": way, "shares": shares})
                print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    return found


def report(records: Sequence[Mapping[str, Any]]) -> str:
    """Format the records as a Markdown table."""
    own = {(one["op"], one["kind"]): one["shares"] for one in records if one["trained on"] == "its own"}
    rows = [["operation", "kind left out", "trained on", "way", "split", "patterns", "share", "default", "of its own",
             "with margins", "of its own"]]  # fmt: skip
    for one in records:
        for split, (n, reached, default, *accepted) in one["shares"].items():
            at_home = own.get((one["op"], one["kind"]), {}).get(split, ())
            pairs = [(reached, at_home[1:2]), (accepted[0] if accepted else None, at_home[3:4])]
            shown = [
                (
                    f"{mine:.3f}" if mine is not None else "-",
                    f"{mine / its[0]:.3f}" if its and mine is not None else "-",
                )
                for mine, its in pairs
            ]
            rows.append(
                [one["op"], one["kind"], one["trained on"], one["way"], split, str(n), shown[0][0], f"{default:.3f}",
                 shown[0][1], *shown[1]]
            )  # fmt: skip
    return markdown(rows)


def main(given: Sequence[str] | None = None) -> int:
    """Fit, evaluate, and write OUT.jsonl and OUT.md."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--matrices", type=Path, default=matrices_folder(), help="folder of matrices")
    parser.add_argument("--ops", default="spmv,spmm32")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--out", type=Path, help="output path without suffix; kinds that it holds are kept")
    parser.add_argument("--again", action="store_true", help="evaluate again the kinds that --out holds")
    args = parser.parse_args(given)
    folders = data_folders()
    path = args.out.with_suffix(".jsonl") if args.out else None
    records = list(ResultFile(path).lines())
    for op in args.ops.split(","):
        ways = {name: WAYS[name] for name in args.ways.split(",")}
        if args.again:
            records = [one for one in records if one["op"] != op]
        known = {one["kind"] for one in records if one["op"] == op}
        records += judged(op, prepared(op, args.matrices, folders), ways, known)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    text = report(records)
    print(text)
    if args.out:
        args.out.with_suffix(".md").write_text(f"{HEAD}\n{text}\n", encoding="utf-8")
    return 0


HEAD: Final = """# Cost models on kinds of machines that they have not seen

Written by `python benchmarks/kinds.py`, whose docstring explains the columns. Trees of 100 (shipped: 300 to 400).
"""

if __name__ == "__main__":
    sys.exit(main())
