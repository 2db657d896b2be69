"""Compare search strategies on one learned cost model: best predicted cost by trials and time (WACO §5.4, Fig. 16a).

    python benchmarks/search_compare.py [--models FOLDER] [--op OP] [--matrices FOLDER] [--trials 3000] [--record]

Every strategy evaluates the same model on the same patterns, one schedule at a time; only the graph search uses
batches, as in the library. Costs are predicted ratios to the default kernel. The strategies besides the graph search
use an encoding in which every point is legal (`searchlib.encoding`). TPE takes part if Optuna is installed.

FOLDER holds a model (`train`), by default WACO's network for SpMM with 32 columns, which is shipped. Networks have a
graph of programs in their file; for a model without one, a graph of `--nodes` sampled programs is built, which needs
hnswlib. Results go to build/benchmarks, or with --record to benchmarks/results; a run that was stopped continues where
its file ends.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import autosparse.tuner
import numpy as np
from autosparse.tuner.analytic.models import predicted_ratios
from autosparse.tuner.features.setting import RunSetting
from autosparse.tuner.learned.codes import code_rows
from autosparse.tuner.learned.predict import LearnedModel, RatioScale
from autosparse.tuner.learned.scorers import guess_column, scorer_of
from autosparse.tuner.learned.weights import LearnedWeights
from autosparse.tuner.research.collect.operations import OPS
from autosparse.tuner.research.collect.recipes import Recipe, real_files
from autosparse.tuner.research.generators.base import FAMILIES, generate
from autosparse.tuner.research.graph import ProgramGraph, best_first, exhaustive
from autosparse.tuner.research.graph.build import build_graph
from autosparse.tuner.research.inference.embeddings import embed_programs, network_weights
from peerlib.archives import output, read_bytes
from peerlib.table import markdown
from searchlib import strategies
from searchlib.encoding import Encoding

from autosparse import _native
from autosparse.core.pattern import Pattern
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import Target

MIN_NNZ = 100_000
SHIPPED = Path(autosparse.tuner.__file__).parent / "weights" / "x86_64"
"""Folder of the shipped models."""
MARKS = (10, 30, 100, 300, 1000, 3000)
"""Numbers of trials at which the page gives the best ratio so far."""


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


def _on_points(search: Callable[[Objective, Encoding, int], None]) -> Strategy:
    def run(objective: Objective, n_trials: int) -> None:
        search(objective, Encoding(objective.model.weights.space.spaces), n_trials)

    return run


STRATEGIES: dict[str, tuple[str | None, Strategy]] = {
    "graph": (
        None,
        _on_graph(lambda score, graph, n: best_first(graph.neighbours, score, graph.entries, beam=32, most=n)),
    ),
    "exhaustive": (None, _on_graph(lambda score, graph, n: exhaustive(len(graph), score))),
    "random": (None, _on_points(strategies.random)),
    "bandit": (None, _on_points(strategies.bandit)),
    "tpe": ("optuna", _on_points(strategies.tpe)),
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
    parser.add_argument("--models", type=Path, default=SHIPPED)
    parser.add_argument("--op", default="spmm32.waco")
    parser.add_argument("--matrices", type=Path)
    parser.add_argument("--patterns", type=int, default=12)
    parser.add_argument("--trials", type=int, default=3000)
    parser.add_argument("--nodes", type=int, default=8000, help="number of programs in a graph that is built here")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--record", action="store_true", help="write into benchmarks/results")
    parser.add_argument("--report", action="store_true", help="only write the page of the outcomes in --out")
    return parser.parse_args(given)


def problem_of(op: str, pattern: Pattern) -> Problem:
    """Return the problem of products of `op` with `pattern` in float32 on this machine."""
    row = OPS[op]
    return Problem(
        operation=row.operation, pattern=pattern, transposed=False, n_dense_cols=row.n_dense_cols, dtype="float32",
        threads=Target.host().n_cores, deterministic=False, target=Target.host(),
    )  # fmt: skip


def read(folder: Path, op: str, n_nodes: int) -> tuple[LearnedModel, ProgramGraph]:
    """Read the model of `op` in `folder`, and its graph; without one in the file, build one of `n_nodes` programs."""
    weights = LearnedWeights.read(folder / f"{op}.safetensors")
    graph = ProgramGraph.of(weights.tensors)
    if graph is not None:
        return LearnedModel.read(folder, op), graph
    codes, graph = built(weights, n_nodes)
    scale = RatioScale.from_data(weights.about.get("scale", {}))
    return LearnedModel(weights, codes, scale, scorer_of(weights)), graph


def built(weights: LearnedWeights, n_nodes: int) -> tuple[np.ndarray, ProgramGraph]:
    """Return codes and graph of `n_nodes` legal programs, drawn from each of the model's spaces in turn."""
    rng, spaces = np.random.default_rng(0), weights.space.spaces
    drawn = [spaces[at % len(spaces)].sample(rng, _native.supports) for at in range(n_nodes)]
    codes = code_rows([weights.space.encode(one) for one in dict.fromkeys(drawn)], weights.space.parameters)
    return codes, build_graph(embed_programs(codes, network_weights(weights)))


def best_at(trace: Sequence[tuple[int, float, float]], n_trials: int) -> float:
    """Return the best ratio of a trace after `n_trials` trials."""
    return min((ratio for n, _, ratio in trace if n <= n_trials), default=trace[0][2])


def thinned(trace: Sequence[tuple[int, float, float]]) -> list[tuple[int, float, float]]:
    """Return the entries of a trace at which the best ratio fell, and the last one."""
    kept = [one for before, one in zip((None, *trace[:-1]), trace, strict=True) if not before or one[2] < before[2]]
    return kept if kept[-1] == trace[-1] else [*kept, trace[-1]]


def text(outcomes: Sequence[Outcome], op: str) -> str:
    """Return the page: a table of all patterns, and one of the patterns that every strategy has, if they are fewer."""
    lines = [
        f"# Searches on the cost model `{op}`",
        "",
        "Written by `python benchmarks/search_compare.py`, whose docstring explains the strategies. Best predicted",
        "ratio to the default kernel after so many trials, geometric mean over the patterns; less is better. Seconds",
        "are medians of wall-clock times on a busy machine; TPE takes about 35 s of processor time a pattern.",
        "\n",
    ]
    of = {name: {one.pattern for one in outcomes if one.strategy == name} for name in STRATEGIES}
    common = set.intersection(*(found for found in of.values() if found))
    parts = ["\n".join(lines), markdown(rows_of(outcomes))]
    if any(found and found != common for found in of.values()):
        shared = markdown(rows_of([one for one in outcomes if one.pattern in common]))
        parts.append(f"\n\nPatterns that every strategy searched, {len(common)} in number:\n\n{shared}")
    return "".join(parts) + "\n"


def rows_of(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Return a row per strategy: geometric means over its patterns of the best ratio found, by number of trials."""
    names = [name for name in STRATEGIES if any(one.strategy == name for one in outcomes)]
    rows = [["strategy", "patterns", *(f"{n:,}" for n in MARKS), "all", "trials", "seconds", "in the model"]]
    for name in names:
        mine = [one for one in outcomes if one.strategy == name]
        best = [statistics.geometric_mean(best_at(one.trace, n) for one in mine) for n in MARKS]
        last = statistics.geometric_mean(one.best_ratio for one in mine)
        share = statistics.median(one.model_s / one.seconds for one in mine)
        n_trials, seconds = (statistics.median(getattr(one, key) for one in mine) for key in ("n_trials", "seconds"))
        cells = [f"{ratio:.3f}" for ratio in (*best, last)]
        rows.append([name, str(len(mine)), *cells, f"{n_trials:,.0f}", f"{seconds:.3g}", f"{share:.0%}"])
    return rows


def outcomes_of(path: Path) -> list[Outcome]:
    """Return the outcomes in a file, or in the archive that holds it."""
    content = read_bytes(path) or b""
    return [Outcome(**json.loads(line)) for line in content.decode("utf-8").splitlines()]


def main(given: Sequence[str] | None = None) -> None:
    """Compare, print, and write the outcomes."""
    args = arguments(given)
    if args.report:
        page = text(outcomes_of(args.out or output("searches.jsonl", record=True)), args.op)
        output("searches.md", record=True).write_text(page, encoding="utf-8")
        print(page)
        return
    op = args.op.partition(".")[0]
    model, graph = read(args.models, args.op, args.nodes)
    _ = model.programs  # computed here, as when a model is loaded
    out = args.out or output("searches.jsonl", record=args.record)
    out.parent.mkdir(parents=True, exist_ok=True)
    outcomes = outcomes_of(out)
    known = {(one.strategy, one.pattern) for one in outcomes}
    chosen = [(name, one, model.features(one)) for name, one in patterns(args.matrices, args.patterns)]
    for strategy, (module, run) in STRATEGIES.items():
        if module is not None and importlib.util.find_spec(module) is None:
            print(f"{strategy} is not run: {module} is not installed", flush=True)
            continue
        for name, pattern, features in chosen:
            if (strategy, name) in known:
                continue
            objective = Objective(model, graph, problem_of(op, pattern), features)
            run(objective, args.trials)
            outcomes.append(objective.outcome(strategy, name))
            outcomes[-1].trace = thinned(outcomes[-1].trace)
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(outcomes[-1])) + "\n")
            print(f"{name}, {strategy}: {objective.best:.3f} in {objective.n_trials} trials", flush=True)
    page = text(outcomes, args.op)
    out.with_suffix(".md").write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
