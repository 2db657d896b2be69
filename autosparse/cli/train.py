"""Command `train --data DIR --op OP --out RUN`: train a cost model on data of `collect`, or continue a run."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosparse import log
from autosparse.cli import show
from autosparse.cli.operands import add_count, read_seconds
from autosparse.cli.show import CommandError
from autosparse.errors import RecordError
from autosparse.ops import MATMUL
from autosparse.tuner.features.panels import WHOLE

MAX_NNZ = 10_000_000
"""Default of --max-nnz: all patterns of the collections."""
MAX_WHOLE = 30
"""Maximum number of epochs of a fit to whole patterns; more of them do not improve the ranking of unseen patterns."""

if TYPE_CHECKING:
    from autosparse.tuner.research.training.data import DataSet
    from autosparse.tuner.research.training.ranking import Epoch, Ranking
    from autosparse.tuner.research.training.trainer import Trainer


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `train`."""
    _add_data(parser.add_argument_group("data"))
    _add_model(parser.add_argument_group("model"))
    _add_training(parser.add_argument_group("training"))


def _add_data(parser: argparse._ArgumentGroup) -> None:
    """Add the arguments for training data and results."""
    parser.add_argument("--data", type=Path, nargs="+", metavar="DIR", help="folders that `collect --out` wrote")
    parser.add_argument(
        "--op",
        default=MATMUL.tuning.collected[0].name,
        help="operation to learn: spmv, spmm8, spmm32, spmm256, sddmm32, sddmm256 or mttkrp16",
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="RUN",
        help="folder for the weights and the log of this run (or the tables of --compare)",
    )
    what = "largest number of nonzeros of a pattern that --whole and the last step read"
    add_count(parser, "--max-nnz", what, default=MAX_NNZ)
    parser.add_argument(
        "--matrices", type=Path, metavar="FOLDER", help="folder of the real matrices that were measured"
    )
    parser.add_argument(
        "--compare", type=Path, nargs="+", metavar="RUN", help="train nothing; compare these finished runs"
    )


def _add_model(parser: argparse._ArgumentGroup) -> None:
    """Add the arguments for the model."""
    parser.add_argument(
        "--extractor",
        default="waconet",
        help="model: waconet, minkowski, dense, human, statistics or boosted (default: waconet)",
    )
    parser.add_argument(
        "--backend", default="own", help="library for sparse convolutions: own or minkowski (default: own)"
    )
    parser.add_argument(
        "--space",
        default="both",
        choices=("own", "waco", "both"),
        help="which schedules to learn from: autosparse's, those of the WACO paper, or both (default: both)",
    )
    add_count(parser, "--trees", "number of boosted trees", default=800)
    parser.add_argument("--start", type=Path, metavar="FILE", help="start from these weights instead of random ones")
    parser.add_argument(
        "--whole",
        action="store_true",
        help="keep the convolutions of --start, and fit the other layers to whole patterns, each read once",
    )
    parser.add_argument(
        "--focus", type=float, default=0.0, metavar="P",
        help="of --whole: exponent by which pairs with a fast schedule weigh more (default: 0, all alike)",
    )  # fmt: skip
    what = "of --whole: read the means of the first N convolutions only (default: of all 14)"
    add_count(parser, "--layers", what)


def _add_training(parser: argparse._ArgumentGroup) -> None:
    """Add the arguments for the training run."""
    add_count(parser, "--epochs", "number of epochs, counting those of an interrupted run", default=70)
    parser.add_argument(
        "--seconds", type=read_seconds, default=float("inf"), metavar="S", help="start no epoch after S seconds"
    )
    add_count(parser, "--batch", "schedules per step of the optimiser", default=32)
    add_count(parser, "--limit", "largest number of nonzeros that a network reads of one pattern", default=WHOLE)
    parser.add_argument(
        "--rate", type=float, metavar="R", help="learning rate (default: 1e-4 for networks, 0.06 for boosted trees)"
    )
    add_count(parser, "--seed", "seed of the initial weights and the order of patterns", least=0, default=0)
    add_count(parser, "--threads", "threads of PyTorch; 1 is fastest for small patterns")
    parser.add_argument("--device", default="cpu", help="device of PyTorch, for instance cpu or cuda (default: cpu)")
    parser.add_argument(
        "--memory", type=float, default=4.0, metavar="GB", help="memory for prepared patterns, in GB (default: 4)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Train a model, or compare finished runs."""
    if arguments.compare:
        return _compare(arguments.compare, arguments.out)
    if arguments.data is None:
        raise CommandError("there are no measurements", hint="pass --data DIR, a folder that `collect --out DIR` wrote")
    if arguments.whole:
        return _fit_to_whole(arguments)
    return _boost(arguments) if arguments.extractor == "boosted" else _train(arguments)


def _boost(arguments: argparse.Namespace) -> int:
    """Train boosted trees, which need neither torch nor epochs."""
    from autosparse.tuner.research.training.boosted import BoostedRun
    from autosparse.tuner.research.training.boosting import BoostSettings
    from autosparse.tuner.research.training.data import read_data
    from autosparse.tuner.research.training.ranking import WEIGHTS

    data = read_data(arguments.data, arguments.op, spaces=arguments.space)
    _print_counts(data, arguments.space)
    settings = BoostSettings(n_trees=arguments.trees, rate=arguments.rate or BoostSettings().rate, seed=arguments.seed)
    run = BoostedRun(data, settings, arguments.matrices)
    curve, rankings = run.run(arguments.out, log.progress_line())
    print(f"weights: {settings.n_trees} trees, {arguments.out / WEIGHTS}")
    if rankings:
        print(_table({split.replace("_", " "): ranking for split, ranking in rankings.items()}))
    _draw(arguments.out / "curve.png", {arguments.extractor: curve}, data.op)
    return 0


def _print_counts(data: DataSet, space: str) -> None:
    """Print the numbers of patterns for training and validation; raise CommandError without training patterns."""
    counts = {split: len(data.of(split)) for split in ("train", "validation", "held_out")}
    if not counts["train"]:
        raise CommandError(
            f"all {sum(counts.values())} patterns validate or are held out", hint="collect more patterns"
        )
    print(f"{data.op}: " + ", ".join(f"{n} patterns {split}" for split, n in counts.items()).replace("_", " "))
    if data.n_outside:
        print(f"  {data.n_outside} schedules outside the space {space!r} are left out")


def _train(arguments: argparse.Namespace) -> int:
    trainer = _trainer(arguments)
    from autosparse.tuner.research.networks.extractor import Observations
    from autosparse.tuner.research.training.ranking import CURVE, write_curve

    _print_counts(trainer.data, arguments.space)
    if trainer.history:
        print(f"  taken up after epoch {len(trainer.history)}")
    observe = Observations(trainer.model.extractor, arguments.matrices, limit_bytes=int(arguments.memory * 1e9))
    start_s = time.monotonic()
    rows = trainer.run(observe, epochs=arguments.epochs, progress=log.progress_line())
    while time.monotonic() - start_s < arguments.seconds and (row := next(rows, None)) is not None:
        print(_line(row), flush=True)
        write_curve(arguments.out / CURVE, trainer.history)
    if trainer.history:
        _finish(trainer, observe, arguments.out)
        _complete(arguments)
    return 0


def _fit_to_whole(arguments: argparse.Namespace) -> int:
    """Fit the dense layers of a network to whole patterns."""
    importlib.import_module("autosparse.tuner.research.networks")  # raises a helpful error if torch is missing
    import torch

    from autosparse.tuner.research.training.data import read_data
    from autosparse.tuner.research.training.heads import HeadRun, HeadSettings, known_features
    from autosparse.tuner.research.training.ranking import RANKING

    if arguments.start is None:
        raise CommandError("there are no convolutions to keep", hint="pass --start FILE, weights that `train` wrote")
    torch.set_num_threads(arguments.threads or 1)
    data = read_data(arguments.data, arguments.op, spaces=arguments.space)
    data = dataclasses.replace(data, cases=[case for case in data.cases if case.nnz <= arguments.max_nnz])
    _print_counts(data, arguments.space)
    settings = HeadSettings(
        seed=arguments.seed, rate=arguments.rate or HeadSettings().rate, epochs=min(arguments.epochs, MAX_WHOLE),
        focus=arguments.focus, layers=arguments.layers or HeadSettings().layers,
    )  # fmt: skip
    run = HeadRun(data, arguments.start, arguments.out, settings, arguments.matrices)
    for row in run.run(log.progress_line()):
        print(_line(row), flush=True)
    facts = {split: asdict(one) for split, one in run.rankings.items()}
    (arguments.out / RANKING).write_text(json.dumps(facts, indent=1), encoding="utf-8")
    print(_table({split.replace("_", " "): one for split, one in run.rankings.items()}))
    _complete(arguments, lambda path: known_features(path, run.pooled))
    return 0


def _complete(arguments: argparse.Namespace, features: Callable[[Path], Any] | None = None) -> None:
    """Add what tuning needs to the best weights; print why where that is not possible.

    `features` returns for a model file a function that returns the features of recipes, where they are known.
    """
    from autosparse.calibration.finishing import finish
    from autosparse.tuner.research.collect.files import read_folder
    from autosparse.tuner.research.collect.operations import taught_by
    from autosparse.tuner.research.training.ranking import WEIGHTS

    found = [one for folder in arguments.data for name in taught_by(arguments.op) for one in read_folder(folder, name)]
    found = [one for one in found if int(one.facts["nnz"]) <= arguments.max_nnz]
    try:
        path = arguments.out / WEIGHTS
        n_patterns = finish(path, found, arguments.matrices, features(path) if features is not None else None)
    except RecordError as error:
        print(f"tuning cannot use these weights yet: {error}")
        return
    print(
        f"scale and portfolio from {n_patterns} patterns: link the file as FOLDER/OP.safetensors and set models=FOLDER"
    )


def _trainer(arguments: argparse.Namespace) -> Trainer:
    importlib.import_module("autosparse.tuner.research.networks")  # raises a helpful error if torch is missing
    import torch

    from autosparse.tuner.research.training.data import read_data
    from autosparse.tuner.research.training.trainer import Trainer, TrainerSettings

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    settings = TrainerSettings(
        extractor=arguments.extractor,
        backend=arguments.backend,
        seed=arguments.seed,
        rate=arguments.rate or 1e-4,
        batch=arguments.batch,
        limit=arguments.limit,
        device=arguments.device,
    )
    data = read_data(arguments.data, arguments.op, spaces=arguments.space)
    return Trainer(settings, data, arguments.out, start=arguments.start)


def _line(row: Epoch) -> str:
    return (
        f"epoch {row.epoch:3}: loss {row.train_loss:.4f}, validation {row.validation_loss:.4f}, "
        f"pairs {row.ordered_pairs:.3f}, tau {row.kendall_tau:.3f}, top-1 {row.top1:.3f}, "
        f"top-10 {row.top10:.3f}, {show.seconds(row.seconds)}"
    )


def _finish(trainer: Trainer, observe: Any, out: Path) -> None:
    """Rank the unseen groups by the best weights; print the ranking, and write it and the curve to `out`."""
    from autosparse.tuner.research.training.data import UNSEEN
    from autosparse.tuner.research.training.ranking import RANKING, WEIGHTS

    found = {split: trainer.rank(split, observe) for split in UNSEEN}
    facts = {
        "run": trainer.identity,
        "epoch": trainer.best.epoch,
        **{split: asdict(ranking) if ranking else None for split, ranking in found.items()},
    }
    (out / RANKING).write_text(json.dumps(facts, indent=1), encoding="utf-8")
    print(f"best weights: epoch {trainer.best.epoch}, {out / WEIGHTS}")
    known = {split.replace("_", " "): ranking for split, ranking in found.items() if ranking}
    if known:
        print(_table(known))
    _draw(out / "curve.png", {trainer.settings.extractor: trainer.history}, trainer.data.op)


def _table(rankings: dict[str, Ranking]) -> str:
    header = ("groups", "patterns", "pairs", "tau", "top-1", "5 %", "top-5", "5 %", "top-10", "5 %", "speed", "best")
    rows = []
    for name, one in rankings.items():
        tops = [f"{value:.3f}" for k in one.top for value in (one.top[k], one.top_low[k])]
        numbers = (f"{one.ordered_pairs:.3f}", f"{one.kendall_tau:.3f}")
        rows.append((name, str(one.n_patterns), *numbers, *tops, f"{one.speedup[1]:.2f}x", f"{one.best_speedup:.2f}x"))
    return show.table(header, rows)


def _compare(runs: list[Path], out: Path) -> int:
    """Compare finished runs: print a table per kind of unseen groups and draw their curves in one plot in `out`."""
    from autosparse.tuner.research.training.data import UNSEEN
    from autosparse.tuner.research.training.ranking import CURVE, RANKING, Ranking, read_curve

    missing = [str(run) for run in runs if not (run / CURVE).exists() or not (run / RANKING).exists()]
    if missing:
        raise CommandError(f"no finished run in {', '.join(missing)}", hint="pass folders that `train --out` wrote")
    curves = {run.name: read_curve(run / CURVE) for run in runs}
    for split in UNSEEN:
        found = {run.name: json.loads((run / RANKING).read_text(encoding="utf-8")).get(split) for run in runs}
        rankings = {name: Ranking.from_json(facts) for name, facts in found.items() if facts}
        if rankings:
            print(f"{split.replace('_', ' ')} groups\n{_table(rankings)}")
    out.mkdir(parents=True, exist_ok=True)
    _draw(out / "curves.png", curves, "extractors")
    return 0


def _draw(path: Path, curves: dict[str, Any], title: str) -> None:
    from autosparse.errors import MissingExtraError
    from autosparse.tuner.research.training.ranking import draw_curves

    try:
        draw_curves(path, curves, title=title)
    except MissingExtraError as error:
        print(f"no picture: {error}")
