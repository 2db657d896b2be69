"""Command `calibrate`: fit the learned cost models to this machine in about five minutes."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, Final

from autosparse import log
from autosparse.cli import show
from autosparse.cli.operands import add_common, at_least, chosen_options, folder_to_read, folder_to_write, read_seconds
from autosparse.cli.show import CommandError
from autosparse.errors import RecordError

SECONDS: Final = 220.0
"""Default measuring time in seconds, for all operations together. Rates, compilations and fits take another minute."""
PATTERNS: Final = 8
"""Default number of patterns measured per operation."""
HEADER: Final = ("model", "patterns", "taken", "speed", "pairs in order", "estimate over default")
"""Column titles of the table of results."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibrate`."""
    parser.add_argument("--ops", default="", metavar="OP,OP", help="default: every operation that has a model")
    parser.add_argument(
        "--weights", type=Path, metavar="FILE", help="begin with these (default: those that come with autosparse)"
    )
    parser.add_argument(
        "--data", type=Path, nargs="+", metavar="DIR", help="measurements of this machine (default: measure now)"
    )
    parser.add_argument("--matrices", type=Path, metavar="FOLDER", help="measure on these real patterns too")
    parser.add_argument(
        "--seconds", type=read_seconds, default=SECONDS, metavar="S", help=f"measuring time in all ({SECONDS:.0f})"
    )
    parser.add_argument(
        "--patterns", type=at_least(1), default=PATTERNS, metavar="N", help=f"patterns per operation ({PATTERNS})"
    )
    parser.add_argument("--undo", action="store_true", help="take the last calibration back, and do nothing else")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: where tuning finds them, beside the cache")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check all arguments, report missing packages, measure, then fit one model after the other."""
    with chosen_options(arguments):
        ops = _operations(arguments)
        out = _folder(arguments)
        if arguments.undo:
            return _undo(out, ops)
        weights = _weights(arguments, ops)
        if not weights:
            raise CommandError("there is no model to begin with", hint="--weights FILE, which `train` wrote")
        _say_what_is_missing()
        start_s = time.monotonic()
        rates = _rates(out)
        if not arguments.data:
            _costs(out)
        folders = arguments.data or [_measured(arguments, out, list(weights))]
        given = {"out": out, "folders": folders, "rates": rates}
        rows = [row for op, path in weights.items() if (row := _fit(arguments, op, path, **given))]
        print(show.table(HEADER, rows))
        print(f"{show.seconds(time.monotonic() - start_s)}; speed and pairs: before -> after, on patterns left out")
        print(f"models in {out}; python -m autosparse calibrate --undo restores the previous models")
    return 0


def _operations(arguments: argparse.Namespace) -> list[str]:
    from autosparse.tuner.research.collect.operations import MODELS

    ops = [name.strip() for name in arguments.ops.split(",") if name.strip()]
    if arguments.ops and not ops:
        raise CommandError(f"--ops {arguments.ops!r} names no operation", hint=f"some of {', '.join(MODELS)}")
    ops = ops or list(MODELS)
    if unknown := [name for name in ops if name not in MODELS]:
        raise CommandError(f"no such operation: {', '.join(unknown)}", hint=f"some of {', '.join(MODELS)}")
    for folder in (arguments.matrices, *(arguments.data or ())):
        folder_to_read("--matrices" if folder is arguments.matrices else "--data", folder)
    return ops


def _folder(arguments: argparse.Namespace) -> Path:
    """Return the folder for the models; raise CommandError if nothing can be stored on disk."""
    from autosparse.config import get_options
    from autosparse.tuning.learned import calibrated_folder
    from autosparse.tuning.problems import target_of

    settings = get_options()
    out: Path | None = arguments.out or calibrated_folder(settings, target_of(settings))
    if out is None:
        raise CommandError("nothing is kept on disk here", hint="--out DIR")
    folder_to_write("--out", out)
    return out


def _weights(arguments: argparse.Namespace, ops: list[str]) -> dict[str, Path]:
    """Return the weights file to start from for each operation that has one; raise CommandError for unusable files."""
    from autosparse.config import get_options
    from autosparse.tuner.learned.names import MODEL_SUFFIX
    from autosparse.tuner.learned.weights import LearnedWeights
    from autosparse.tuning.learned import shipped_folder
    from autosparse.tuning.problems import target_of

    if arguments.weights is not None and len(ops) != 1:
        raise CommandError("--weights are of one operation", hint="--ops OP")
    shipped = shipped_folder(target_of(get_options()))
    paths = {op: arguments.weights or shipped / f"{op}{MODEL_SUFFIX}" for op in ops}
    found = {op: path for op, path in paths.items() if arguments.weights is not None or path.exists()}
    for path in found.values():
        try:
            LearnedWeights.read(path)
        except (RecordError, OSError) as error:
            raise CommandError(f"--weights: {error}", hint="--weights FILE, which `train` wrote") from None
    return found


def _say_what_is_missing() -> None:
    """Print which optional packages are missing, before anything is measured."""
    from autosparse.tuner.research.calibration.adjustments import missing

    for way, module in missing().items():
        print(f"without {module} (pip install 'autosparse[train]') {way!r} does not compete; the other ways do")


def _undo(out: Path, ops: list[str]) -> int:
    from autosparse.tuner.research.calibration.store import ModelStore
    from autosparse.tuning.memory.cost_table import COSTS

    taken_back = ModelStore(out).undo(ops)
    if (out / COSTS).exists():
        (out / COSTS).unlink()
        taken_back["costs of hybrid formats"] = "the default"
    for op, now in taken_back.items():
        print(f"{op}: {now} is in use again")
    if not taken_back:
        print(f"nothing to undo in {out}")
    return 0


def _rates(out: Path) -> Any:  # Any: MachineRates, imported late
    """Return the rates of this machine, measured once and stored beside the models."""
    from autosparse._native import runtime_api
    from autosparse.calibration.probing import keep_rates, measured_rates
    from autosparse.config import get_options
    from autosparse.tuning.learned import RATES, known_rates
    from autosparse.tuning.problems import target_of

    known = known_rates(out)
    if known is None:
        settings = get_options()
        known = measured_rates(target_of(settings), settings.threads or runtime_api.max_threads())
        keep_rates(known, out / RATES)
    told = ", ".join(f"{name} {rate / 1e9:.3g}" for name, rate in known.to_data().items())
    print(f"rates of this machine, 10^9 per second: {told}", flush=True)
    return known


def _costs(out: Path) -> None:
    """Measure the primitives of hybrid formats whose costs are not stored in `out` yet, and print all costs."""
    from autosparse.calibration.primitives import measured_costs
    from autosparse.config import get_options
    from autosparse.errors import TUNING_FAILURES
    from autosparse.tuning.memory.cost_table import keep_costs, known_costs
    from autosparse.tuning.problems import target_of

    table, target = known_costs(out), target_of(get_options())
    for one in table.missing():
        try:
            table = table.with_class(one, measured_costs(target, one))
        except TUNING_FAILURES as error:
            print(f"costs of hybrid formats, {one}: not measured, the default is unchanged ({error})", flush=True)
            continue
        keep_costs(table, out)
    for one, costs in table.costs.items():
        print(f"costs of hybrid formats in ns, {one}: {costs}", flush=True)


def _measured(arguments: argparse.Namespace, out: Path, ops: list[str]) -> Path:
    """Measure all operations into a folder beside the models, where an interrupted run continues."""
    from autosparse._native import supports
    from autosparse.calibration.collection import context_for
    from autosparse.tuner.analytic.models import statistics_model
    from autosparse.tuner.research.collect.collector import Collector, Order
    from autosparse.tuner.research.collect.operations import OPS
    from autosparse.tuner.research.collect.recipes import recipes_in_turn
    from autosparse.tuning.memory.machine_facts import machine_facts

    dims = {OPS[op].n_dims for op in ops}
    order = Order(
        out=out / "measured",
        ops=[OPS[op] for op in ops],
        dtype=arguments.dtype or "float32",
        folder=arguments.matrices,
        seconds=arguments.seconds,
        n_patterns=arguments.patterns * len(dims),
        pair_s=4.0,
        n_schedules=24,
        n_proposed=8,  # the model's own choices need the most data
        n_template_kernels=16,
        for_training=True,
    )

    def make_bench(pattern: Any, op: Any) -> Any:
        return context_for(pattern, op, order.dtype)

    collector = Collector(order, make_bench, statistics_model, machine_facts(), supports)
    progress = log.progress_line()
    for step in collector.run(recipes_in_turn(arguments.matrices, dims, seed=1)):
        done = step.elapsed_s / max(1e-9, step.elapsed_s + step.left_s)
        progress(min(0.999, done), f"{step.n_pairs:,} patterns, {show.seconds(step.left_s)} left")
        print(f"{step.op.name}: {step.n_times} times of {step.recipe.source}, {step.left_s:.0f} s left", flush=True)
    return order.out


def _fit(
    arguments: argparse.Namespace, op: str, weights: Path, *, out: Path, folders: list[Path], rates: Any
) -> tuple[str, ...] | None:
    """Fit the model of operation `op` from `weights`; return its table row, or None if nothing was measured."""
    from autosparse.calibration.models import calibrate
    from autosparse.tuner.research.calibration.store import ModelStore
    from autosparse.tuner.research.collect.files import read_folder
    from autosparse.tuner.research.collect.operations import taught_by

    found = [one for folder in folders for name in taught_by(op) for one in read_folder(folder, name)]
    if not found:
        print(f"{op}: nothing was measured, its model is unchanged")
        return None
    store = ModelStore(out)
    store.clear_staged()
    made, choice = calibrate(weights, found, store, op, folder=arguments.matrices, rates=rates)
    return op, str(len(made.found)), *(_gains(choice) if choice is not None else ("scale of a network", "", "", ""))


def _gains(choice: Any) -> tuple[str, ...]:
    before, after = choice.before, choice.after
    lost = f" (without {', '.join(choice.left_out)})" if choice.left_out else ""
    return (
        f"{choice.way}{lost}",
        f"{before.top1:.3f} -> {after.top1:.3f}",
        f"{before.pairs:.3f} -> {after.pairs:.3f}",
        f"{before.estimate:.3f} -> {after.estimate:.3f}",
    )
