"""`calibrate`: fit learned cost models to this machine, so that tuning uses them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from autosparse.cli.errors import CommandError
from autosparse.cli.operands import add_common, at_least, chosen_options, folder_to_read, folder_to_write, read_seconds
from autosparse.errors import RecordError


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of `calibrate`."""
    parser.add_argument(
        "--ops", default="spmv,spmm32,spmm256", metavar="OP,OP", help="of these, sddmm32,sddmm256,mttkrp16"
    )
    parser.add_argument("--weights", type=Path, metavar="FILE", help="begin with these (default: those in use)")
    parser.add_argument(
        "--data", type=Path, nargs="+", metavar="DIR", help="measurements of this machine (default: measure now)"
    )
    parser.add_argument("--matrices", type=Path, metavar="FOLDER", help="real patterns that measurements name")
    parser.add_argument(
        "--seconds", type=read_seconds, default=120.0, metavar="S", help="measuring time per operation (120)"
    )
    parser.add_argument(
        "--epochs", type=at_least(0), default=60, metavar="N", help="of fine-tuning; 0: only scale and graph"
    )
    parser.add_argument("--programs", type=at_least(1), default=4096, metavar="N", help="programs in the graph (4096)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: where tuning finds them, beside the cache")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check everything that was named, then one operation after the other."""
    with chosen_options(arguments):
        out, weights = _checked(arguments)
        for op, path in weights.items():
            _calibrate(arguments, op, path, out)
    return 0


def _checked(arguments: argparse.Namespace) -> tuple[Path, dict[str, Path]]:
    """(where the models go, operation -> the weights to begin with). CommandError for what cannot end well."""
    from autosparse.config import get_options
    from autosparse.tuner.collect.operations import OPS
    from autosparse.tuning.learned import calibrated_folder, weights_in_use
    from autosparse.tuning.setup import target_of

    ops = [name.strip() for name in arguments.ops.split(",") if name.strip()]
    unknown = [name for name in ops if name not in OPS]
    if unknown or not ops:
        raise CommandError(f"no such operation: {', '.join(unknown) or 'none named'}", cure=f"some of {', '.join(OPS)}")
    for folder in (arguments.matrices, *(arguments.data or ())):
        folder_to_read("--matrices" if folder is arguments.matrices else "--data", folder)
    settings = get_options()
    target = target_of(settings)
    weights = {}
    for op in ops:
        path = arguments.weights or weights_in_use(settings, target, op)
        if path is None:
            raise CommandError(f"there is no model of {op!r} to begin with", cure="--weights FILE, which `train` wrote")
        _check_weights(path)
        weights[op] = path
    out = arguments.out or calibrated_folder(settings, target)
    if out is None:
        raise CommandError("nothing is kept on disk here", cure="--out DIR")
    folder_to_write("--out", out)
    return out, weights


def _check_weights(path: Path) -> None:
    """CommandError unless `path` holds weights of a cost model."""
    from autosparse.tuner.learned.weights import LearnedWeights

    try:
        LearnedWeights.read(path)
    except (RecordError, OSError) as error:
        raise CommandError(f"--weights: {error}", cure="--weights FILE, which `train` wrote") from None


def _calibrate(arguments: argparse.Namespace, op: str, weights: Path, out: Path) -> None:
    from autosparse.calibration.models import calibrate
    from autosparse.tuner.collect.files import read_folder

    folders = arguments.data or [_measured(out, arguments, op)]
    found = [one for folder in folders for one in read_folder(folder, op)]
    made, (before, after), n_programs = calibrate(
        weights, found, out, folder=arguments.matrices, epochs=arguments.epochs, n_nodes=arguments.programs
    )
    fitted = f", unseen pairs in order {before:.3f} -> {after:.3f}" if arguments.epochs else ""
    print(f"{op}: {len(made.found)} patterns{fitted}, {n_programs:,} programs in {out}")


def _measured(out: Path, arguments: argparse.Namespace, op: str) -> Path:
    """Measure now, beside the models: the next calibration goes on from there."""
    from autosparse._native import supports
    from autosparse.calibration.collection import lab_for, machine_facts, statistics_model
    from autosparse.tuner.collect.collector import Collector, Order
    from autosparse.tuner.collect.operations import OPS
    from autosparse.tuner.collect.recipes import recipes

    order = Order(
        out=out / "measured",
        ops=[OPS[op]],
        dtype=arguments.dtype or "float32",
        folder=arguments.matrices,
        seconds=arguments.seconds,
        n_schedules=24,
        n_proposed=8,  # what it would choose here is what it must know best
        n_template_kernels=64,
    )

    def make_bench(pattern: Any, op: Any) -> Any:
        return lab_for(pattern, op, order.dtype)

    collector = Collector(order, make_bench, statistics_model, machine_facts(), supports)
    for step in collector.run(recipes(arguments.matrices, n_dims=OPS[op].n_dims, seed=1)):
        print(f"{step.op.name}: pattern {step.n_pairs}, {step.n_times} times, {step.left_s:.0f} s left", flush=True)
    return order.out
