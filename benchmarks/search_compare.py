"""Compare search strategies on one learned cost model: best predicted cost by trials and time (WACO §5.4, Fig. 16a).

    python benchmarks/search_compare.py [--models FOLDER] [--op OP] [--matrices FOLDER] [--trials 3000] [--record]

Every strategy evaluates the same model on the same patterns, one schedule at a time; only searches of a graph use
batches, as in the library. Costs are predicted ratios to the default kernel. `graph` searches the model's programs and
sampled ones (`--drawn`), expands the best node that is not expanded yet, and goes on until its trials are used up; the
graph is built here by hnswlib. `shipped graph` is the library's search, which ends by itself: on the graph in the
model's file, expanding its 32 best nodes. `exhaustive` scores every program of that graph. The others use an encoding
in which every point is legal (`searchlib.encoding`). TPE takes part if Optuna is installed.

FOLDER holds a model (`train`), by default WACO's network for SpMM with 32 columns, which is shipped. Results go to
build/benchmarks, or with --record to benchmarks/results; a run that was stopped continues where its file ends.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import autosparse.tuner
import numpy as np
from autosparse.tuner.analytic.models import predicted_ratios
from autosparse.tuner.features.setting import RunSetting
from autosparse.tuner.learned.codes import code_rows
from autosparse.tuner.learned.predict import LearnedModel
from autosparse.tuner.learned.scorers import BOOSTED, guess_column
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
BEAM = 32
"""Number of best nodes that the search of the shipped graph expands."""
PER_TRIAL = 6
"""Number of sampled programs in the graph that is built, per trial."""
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

    def __init__(self, model: LearnedModel, graph: ProgramGraph | None, problem: Problem, features: np.ndarray) -> None:
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
        model, graph = objective.model, objective.graph
        assert graph is not None
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

        walk(score, graph, n_trials)

    return run


def _on_points(search: Callable[[Objective, Encoding, int], None]) -> Strategy:
    def run(objective: Objective, n_trials: int) -> None:
        search(objective, Encoding(objective.model.weights.space.spaces), n_trials)

    return run


STRATEGIES: dict[str, tuple[str | None, Strategy]] = {
    "graph": (
        "hnswlib",
        _on_graph(lambda score, graph, n: best_first(graph.neighbours, score, graph.entries, beam=n, most=n)),
    ),
    "shipped graph": (
        None,
        _on_graph(lambda score, graph, n: best_first(graph.neighbours, score, graph.entries, beam=BEAM, most=n)),
    ),
    "exhaustive": (None, _on_graph(lambda score, graph, n: exhaustive(len(graph), score))),
    "random": (None, _on_points(strategies.random)),
    "bandit": (None, _on_points(strategies.bandit)),
    "tpe": ("optuna", _on_points(strategies.tpe)),
}
"""Module that a strategy needs, and the strategy, by name; `exhaustive` scores all programs whatever the budget."""
SHIPPED_ONLY = ("shipped graph", "exhaustive")
"""Strategies that need a graph in the model's file."""


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
    parser.add_argument("--drawn", type=int, help=f"number of sampled programs in the graph ({PER_TRIAL} per trial)")
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


Searched = tuple[LearnedModel, ProgramGraph | None]


def widened(model: LearnedModel, n_drawn: int) -> Searched:
    """Return the model with `n_drawn` more programs, drawn from each of its spaces in turn, and a graph of them all."""
    weights, rng, spaces = model.weights, np.random.default_rng(0), model.weights.space.spaces
    drawn = [spaces[at % len(spaces)].sample(rng, _native.supports) for at in range(n_drawn)]
    rows = code_rows([weights.space.encode(one) for one in dict.fromkeys(drawn)], weights.space.parameters)
    codes = np.unique(np.concatenate([model.codes, rows]), axis=0)
    graph = build_graph(embed_programs(codes, network_weights(weights)))
    return LearnedModel(weights, codes, model.scale, model.scorer), graph


def searched(args: argparse.Namespace, model: LearnedModel, strategy: str) -> Searched | None:
    """Return the programs that a strategy searches and their graph; None if it needs a graph that the model lacks."""
    if strategy == "graph":
        is_network = model.weights.extractor != BOOSTED
        return widened(model, args.drawn or PER_TRIAL * args.trials) if is_network else None
    graph = ProgramGraph.of(model.weights.tensors)
    return None if graph is None and strategy in SHIPPED_ONLY else (model, graph)


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
        "are medians of wall-clock times on a busy machine; TPE takes 20 to 35 s of processor time a pattern.",
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


def run(args: argparse.Namespace, known: Collection[tuple[str, str]]) -> Iterator[Outcome]:
    """Run each strategy on each pattern, except the pairs in `known`, and yield the results with thinned traces."""
    op = args.op.partition(".")[0]
    model = LearnedModel.read(args.models, args.op)
    chosen = [(name, one, model.features(one)) for name, one in patterns(args.matrices, args.patterns)]
    for strategy, (module, search) in STRATEGIES.items():
        missing = [one for one in chosen if (strategy, one[0]) not in known]
        if module is not None and importlib.util.find_spec(module) is None:
            print(f"{strategy} is not run: {module} is not installed", flush=True)
            continue
        place = searched(args, model, strategy) if missing else None
        if place is None:
            print(f"{strategy} is not run: nothing is left, or the model has no graph", flush=True)
            continue
        _ = place[0].programs  # computed here, as when a model is loaded
        for name, pattern, features in missing:
            objective = Objective(*place, problem_of(op, pattern), features)
            search(objective, args.trials)
            found = objective.outcome(strategy, name)
            yield replace(found, trace=thinned(found.trace))


def main(given: Sequence[str] | None = None) -> None:
    """Compare, print, and write the outcomes."""
    args = arguments(given)
    if args.report:
        page = text(outcomes_of(args.out or output("searches.jsonl", record=True)), args.op)
        output("searches.md", record=True).write_text(page, encoding="utf-8")
        print(page)
        return
    out = args.out or output("searches.jsonl", record=args.record)
    out.parent.mkdir(parents=True, exist_ok=True)
    outcomes = outcomes_of(out)
    for found in run(args, {(one.strategy, one.pattern) for one in outcomes}):
        outcomes.append(found)
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(found)) + "\n")
        print(f"{found.pattern}, {found.strategy}: {found.best_ratio:.3f} in {found.n_trials} trials", flush=True)
    page = text(outcomes, args.op)
    out.with_suffix(".md").write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
