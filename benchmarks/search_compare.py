"""Compare search strategies on one learned cost model: best predicted cost by trials and time (WACO §5.4, Fig. 16).

    python benchmarks/search_compare.py --models FOLDER --op spmv [--matrices FOLDER] [--trials 400] [--out FILE]

FOLDER holds a model (`train`, `calibrate --out FOLDER`) and beside it the graph of `tuner.research.graph.build`,
OP.graph.safetensors. Every strategy evaluates the same model on the same patterns, one schedule at a time; only the
graph search uses batches, as in the library. Costs are predicted ratios to the default kernel. HyperOpt (TPE) and
OpenTuner take part if they are installed.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import importlib.util
import json
import logging
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from autosparse.tuner.analytic.models import predicted_ratios
from autosparse.tuner.features.setting import RunSetting
from autosparse.tuner.learned.predict import LearnedModel, RatioScale
from autosparse.tuner.learned.scorers import guess_column, scorer_of
from autosparse.tuner.learned.weights import LearnedWeights
from autosparse.tuner.research.collect.operations import OPS
from autosparse.tuner.research.collect.recipes import Recipe, real_files
from autosparse.tuner.research.generators.base import FAMILIES, generate
from autosparse.tuner.research.graph import ProgramGraph, best_first, exhaustive
from autosparse.tuner.space.template import Categorical, Code, TemplateSpace

from autosparse import _native
from autosparse.core.pattern import Pattern
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import Target
from autosparse.errors import RecordError, ScheduleError

MIN_NNZ = 100_000
ILLEGAL = 1e3
"""Ratio assigned to parameter values that no schedule has."""


@dataclass
class Outcome:
    """Result of one strategy on one pattern."""

    strategy: str
    pattern: str
    n_trials: int
    seconds: float
    model_s: float  # part of `seconds` spent in the cost model
    best_ratio: float
    trace: list[tuple[int, float, float]] = field(default_factory=list)  # (trials, seconds, best ratio so far)


class Objective:
    """The predicted ratio of a schedule as an objective, with counts, times and a trace."""

    def __init__(self, model: LearnedModel, graph: ProgramGraph, problem: Problem, features: np.ndarray) -> None:
        self.model, self.graph, self.problem, self.features = model, graph, problem, features
        self.n_trials, self.model_s, self.best = 0, 0.0, float("inf")
        self.trace: list[tuple[int, float, float]] = []
        self.start_s = time.perf_counter()

    def __call__(self, schedule: SuperSchedule) -> float:
        """Return the predicted ratio of one schedule."""
        start_s = time.perf_counter()
        (ratio,) = self.model.ratios(self.problem, self.features, [schedule])
        self.note(1, ratio, time.perf_counter() - start_s)
        return ratio

    def note(self, n: int, ratio: float, model_s: float) -> None:
        """Record that `n` schedules were evaluated in `model_s` seconds and that the best has this ratio."""
        self.n_trials += n
        self.model_s += model_s
        self.best = min(self.best, ratio)
        self.trace.append((self.n_trials, time.perf_counter() - self.start_s, self.best))

    def outcome(self, strategy: str, pattern: str) -> Outcome:
        """Return the result so far."""
        seconds = time.perf_counter() - self.start_s
        return Outcome(strategy, pattern, self.n_trials, seconds, self.model_s, self.best, self.trace)


Strategy = Callable[[Objective, int], None]


Score = Callable[[np.ndarray], np.ndarray]  # nodes of the graph -> predicted costs


def _scored(model: LearnedModel, problem: Problem, features: np.ndarray) -> Score:
    """Return a function that predicts the costs of the model's programs with given numbers."""
    costs, programs = model.scorer.on(features, RunSetting.of(problem, model.rates)), model.programs
    if model.scorer.reads_guesses:
        guesses = predicted_ratios(problem, [model.schedule(node) for node in range(len(model.codes))])
        programs = np.hstack([programs, guess_column(np.asarray(guesses))])
    return functools.partial(costs, programs)


def _on_graph(walk: Callable[[Score, ProgramGraph, int], object]) -> Strategy:
    def run(objective: Objective, n_trials: int) -> None:
        model = objective.model
        start_s = time.perf_counter()
        costs_of = _scored(model, objective.problem, objective.features)
        objective.model_s += time.perf_counter() - start_s

        def score(ids: np.ndarray) -> np.ndarray:
            start_s = time.perf_counter()
            costs = costs_of(ids)
            model_s = time.perf_counter() - start_s
            best = model.schedule(int(ids[costs.argmin()]))
            assert best is not None
            (ratio,) = model.ratios(objective.problem, objective.features, [best])
            objective.note(ids.size, ratio, model_s)
            return costs

        walk(score, objective.graph, n_trials)

    return run


def _random(objective: Objective, n_trials: int) -> None:
    rng = np.random.default_rng(0)
    spaces = objective.model.weights.space.spaces
    for at in range(n_trials):
        objective(spaces[at % len(spaces)].sample(rng, _native.supports))


def _legal(space: TemplateSpace, code: Code) -> SuperSchedule | None:
    try:
        schedule = space.decode(code)
        space.encode(schedule)
    except ScheduleError:
        return None
    return schedule if _native.supports(space.operation, schedule) is None else None


def _asked(objective: Objective, space: TemplateSpace, values: dict[str, Any]) -> float:
    """Return the predicted ratio, or ILLEGAL if no schedule has these values.

    Values are numbers for categorical parameters and sort keys for permutations.
    """
    code = tuple(
        int(values[one.name])
        if isinstance(one, Categorical)
        else tuple(int(place) for place in np.argsort(values[one.name]))
        for one in space.parameters
    )
    schedule = _legal(space, code)
    return ILLEGAL if schedule is None else objective(schedule)


def _tpe(objective: Objective, n_trials: int) -> None:
    """Search by HyperOpt's TPE.

    Categorical parameters are choices, permutations are given by sort keys, and illegal values get a penalty.
    """
    hyperopt = importlib.import_module("hyperopt")
    hp = hyperopt.hp
    spaces = objective.model.weights.space.spaces

    def choices(space: TemplateSpace) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for one in space.parameters:
            if isinstance(one, Categorical):
                found[one.name] = hp.randint(f"{space.name}.{one.name}", one.size)
            else:
                found[one.name] = [hp.uniform(f"{space.name}.{one.name}.{k}", 0, 1) for k in range(len(one.items))]
        return found

    def cost(point: dict[str, Any]) -> float:
        space, values = spaces[point["which"]], point["values"]
        return _asked(objective, space, {one.name: values[one.name] for one in space.parameters})

    domain = hp.choice("space", [{"which": at, "values": choices(space)} for at, space in enumerate(spaces)])
    how: dict[str, Any] = {"rstate": np.random.default_rng(0), "show_progressbar": False, "verbose": 0}
    with _quietly():
        hyperopt.fmin(cost, domain, hyperopt.tpe.suggest, n_trials, **how)


def _opentuner(objective: Objective, n_trials: int) -> None:
    """Search by OpenTuner's ensemble over the parameters of all spaces and the choice of the space."""
    opentuner = importlib.import_module("opentuner")
    manipulator = importlib.import_module("opentuner.search.manipulator")
    interface = importlib.import_module("opentuner.measurement.interface")
    result_of = importlib.import_module("opentuner.resultsdb.models").Result
    spaces = objective.model.weights.space.spaces
    wanted = manipulator.ConfigurationManipulator()
    wanted.add_parameter(manipulator.EnumParameter("which", list(range(len(spaces)))))
    for space in spaces:
        for one in space.parameters:
            name = f"{space.name}.{one.name}"
            is_plain = isinstance(one, Categorical)
            kind = manipulator.EnumParameter if is_plain else manipulator.PermutationParameter
            wanted.add_parameter(kind(name, list(range(one.size if is_plain else len(one.items)))))
    with tempfile.TemporaryDirectory() as folder, _quietly():
        given = argparse.ArgumentParser(parents=opentuner.argparsers()).parse_args([])
        given.database = f"sqlite:///{folder}/results.db"
        known = {"project_name": "autosparse", "program_name": "search", "program_version": "0"}
        measured = interface.DefaultMeasurementInterface(args=given, manipulator=wanted, **known)
        runs = importlib.import_module("opentuner.api").TuningRunManager(measured, given)
        for _ in range(n_trials):
            asked = runs.get_next_desired_result()
            if asked is None:
                continue
            point = asked.configuration.data
            space = spaces[point["which"]]
            values = {one.name: point[f"{space.name}.{one.name}"] for one in space.parameters}
            runs.report_result(asked, result_of(time=_asked(objective, space, values)))
        runs.finish()


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Silence the messages of these libraries."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


STRATEGIES: dict[str, tuple[str | None, Strategy]] = {
    "graph": (
        None,
        _on_graph(lambda score, graph, n: best_first(graph.neighbours, score, graph.entries, beam=32, most=n)),
    ),
    "exhaustive": (None, _on_graph(lambda score, graph, n: exhaustive(len(graph), score))),
    "random": (None, _random),
    "hyperopt": ("hyperopt", _tpe),
    "opentuner": ("opentuner", _opentuner),
}
"""Module that a strategy needs, and the strategy, by name; `exhaustive` scores all programs whatever the budget."""


def patterns(folder: Path | None, n: int) -> Iterator[tuple[str, Pattern]]:
    """Yield held-out real patterns of at least MIN_NNZ entries, or generated ones without a folder."""
    if folder is None:
        for family in [name for name, row in FAMILIES.items() if row.n_dims == 2][:n]:
            yield family, generate(family, nnz=MIN_NNZ, seed=1).to_pattern()
        return
    chosen = []
    for one in real_files(folder):
        recipe = Recipe(kind="real", source=one.name, group=one.group, n_dims=one.n_dims)
        if one.n_dims == 2 and one.nnz >= MIN_NNZ and recipe.is_held_out:
            chosen.append(recipe)
    for recipe in chosen[:n]:
        yield recipe.source, recipe.make(folder).to_pattern()


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--op", default="spmv")
    parser.add_argument("--matrices", type=Path)
    parser.add_argument("--patterns", type=int, default=8)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--out", type=Path)
    return parser.parse_args(given)


def problem_of(op: str, pattern: Pattern) -> Problem:
    """Return the problem of products of `op` with `pattern` in float32 on this machine."""
    row = OPS[op]
    return Problem(
        operation=row.operation, pattern=pattern, transposed=False, n_dense_cols=row.n_dense_cols, dtype="float32",
        threads=Target.host().n_cores, deterministic=False, target=Target.host(),
    )  # fmt: skip


def read(folder: Path, op: str) -> tuple[LearnedModel, ProgramGraph]:
    """Read the model of `op` in `folder`, with the programs of the graph beside it (`tuner.research.graph.build`)."""
    weights = LearnedWeights.read(folder / f"{op}.safetensors")
    graph = ProgramGraph.load(folder / f"{op}.graph.safetensors")
    if graph.model != weights.name:
        raise RecordError.broken(f"graph of {op}", reason=f"belongs to model {graph.model}, not {weights.name}")
    scale = RatioScale.from_data(weights.about.get("scale", {}))
    return LearnedModel(weights, graph.codes, scale, scorer_of(weights)), graph


def main() -> None:
    """Compare, print, and write the outcomes."""
    args = arguments()
    model, graph = read(args.models, args.op)
    _ = model.programs  # computed here, as when a model is loaded
    outcomes: list[Outcome] = []
    for name, pattern in patterns(args.matrices, args.patterns):
        start_s = time.perf_counter()
        features = model.features(pattern)
        features_s = time.perf_counter() - start_s
        for strategy, (module, run) in STRATEGIES.items():
            if module is not None and importlib.util.find_spec(module) is None:
                continue
            objective = Objective(model, graph, problem_of(args.op, pattern), features)
            run(objective, args.trials)
            outcomes.append(objective.outcome(strategy, name))
        print(f"{name}: features in {features_s * 1e3:.1f} ms", flush=True)
    print(f"\n{'strategy':<12} {'trials':>8} {'seconds':>9} {'in model':>9} {'best ratio (geomean)':>21}")
    for strategy, (module, _) in STRATEGIES.items():
        mine = [one for one in outcomes if one.strategy == strategy]
        if not mine:
            print(f"{strategy:<12} not run: {module} is not installed")
            continue
        seconds = statistics.median(one.seconds for one in mine)
        share = statistics.median(one.model_s / one.seconds for one in mine)
        best = statistics.geometric_mean(one.best_ratio for one in mine)
        print(f"{strategy:<12} {mine[0].n_trials:>8} {seconds:>9.4f} {share:>9.0%} {best:>21.4f}")
    if args.out is not None:
        args.out.write_text("\n".join(json.dumps(asdict(one)) for one in outcomes) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
