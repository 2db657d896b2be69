"""Command `collect --out DIR`: measure sampled schedules on many patterns, as training data for cost models."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from autosparse import log
from autosparse.cli import show
from autosparse.cli.operands import add_common, add_count, chosen_options, folder_to_write, read_seconds
from autosparse.cli.show import CommandError
from autosparse.scalar import SINGLE


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `collect`."""
    _add_patterns(parser.add_argument_group("what is measured"))
    _add_run(parser.add_argument_group("how it is measured"))
    add_common(parser)


def _add_patterns(parser: argparse._ArgumentGroup) -> None:
    """Add the arguments for operations, patterns and schedules."""
    parser.add_argument(
        "--matrices",
        type=Path,
        metavar="FOLDER",
        help="folder of real matrices (.npz files and index.csv), beside generated ones",
    )
    parser.add_argument(
        "--ops",
        default="spmv,spmm32,spmm256",
        metavar="OP,OP",
        help="operations to measure, for instance spmv, spmm8, sddmm32, sddmm256, mttkrp16 (default: %(default)s)",
    )
    parser.add_argument(
        "--families", default="", metavar="NAME,NAME", help="use only these families of generated patterns"
    )
    add_count(parser, "--schedules", "schedules to measure per pattern", default=64)
    what = "also measure the N schedules that the learned model ranks first"
    add_count(parser, "--proposed", what, least=0, default=0)
    add_count(parser, "--templates", "kernels to draw from the schedule space of the WACO paper", default=400)
    add_count(parser, "--min-nnz", "smallest real matrix, in stored entries", least=0, default=5000)


def _add_run(parser: argparse._ArgumentGroup) -> None:
    """Add the arguments for the output, the duration and the machine."""
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder for the measurements; an interrupted run continues there",
    )
    parser.add_argument("--seconds", type=read_seconds, default=float("inf"), metavar="S", help="stop after S seconds")
    add_count(parser, "--patterns", "stop after N patterns")
    add_count(parser, "--seed", "seed of the random patterns and schedules", least=0, default=0)
    parser.add_argument(
        "--duty", action="store_true", help="measure only while no other program keeps the processor busy"
    )
    parser.add_argument(
        "--for-training", action="store_true", help="skip the matrices that are reserved for validation and tests"
    )
    parser.add_argument(
        "--build", action="store_true", help="compile the most common kernels before the first measurement"
    )
    parser.add_argument(
        "--merge", type=Path, metavar="DIR", help="measure nothing; copy the measurements of --out into DIR"
    )
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="measure on the workers of this Dask scheduler, with one folder per kind of machine",
    )


def run(arguments: argparse.Namespace) -> int:
    """Collect until time or patterns run out, or merge earlier measurements; return the exit status."""
    from autosparse.tuner.research.collect.operations import OPS

    ops = _operations(arguments)
    if (folder := arguments.matrices) is not None and not folder.is_dir():
        raise CommandError(f"--matrices: there is no folder {str(folder)!r}", hint="pass an existing folder")
    folder_to_write("--out", arguments.out)
    if arguments.merge is not None:
        return _merge(arguments.out, arguments.merge, ops)
    if arguments.scheduler is not None:
        return _collect_on_cluster(arguments, [OPS[name] for name in ops])
    with chosen_options(arguments):
        return _collect(arguments, [OPS[name] for name in ops])


def _operations(arguments: argparse.Namespace) -> list[str]:
    """Return the names of the operations; raise CommandError for unknown ones and ones without fitting patterns."""
    from autosparse.tuner.research.collect.operations import OPS
    from autosparse.tuner.research.generators.base import FAMILIES

    ops = [name.strip() for name in arguments.ops.split(",") if name.strip()]
    unknown = [name for name in ops if name not in OPS]
    if unknown or not ops:
        raise CommandError(f"no such operation: {', '.join(unknown) or 'none'}", hint=f"name some of {', '.join(OPS)}")
    families = _families(arguments)
    unknown = [name for name in families if name not in FAMILIES]
    if unknown:
        raise CommandError(f"no such family: {', '.join(unknown)}", hint=f"name some of {', '.join(FAMILIES)}")
    n_dims = {FAMILIES[name].n_dims for name in families or FAMILIES}
    without = [name for name in ops if OPS[name].n_dims not in n_dims]
    if without:
        needed = OPS[without[0]].n_dims
        fitting = [name for name, row in FAMILIES.items() if row.n_dims == needed]
        what = f"patterns of {', '.join(families)} have {n_dims.pop()} dimensions, {without[0]} needs {needed}"
        raise CommandError(what, hint=f"name other operations, or some of {', '.join(fitting)} too")
    return ops


def _families(arguments: argparse.Namespace) -> list[str]:
    return [name.strip() for name in arguments.families.split(",") if name.strip()]


def _merge(source: Path, target: Path, ops: list[str]) -> int:
    from autosparse.tuner.research.collect.files import merge, read_folder

    for op in ops:
        path = target / f"{op}.npz"
        found = list(read_folder(source, op))
        if not found:
            print(f"{op}: nothing")
            continue
        n_pairs = merge(found, path)
        n_times = sum(len(one.schedules) for one in found)
        print(f"{op}: {n_pairs:,} patterns, {n_times:,} times, {path.stat().st_size / 1e6:.2f} MB in {path}")
    return 0


def _collect(arguments: argparse.Namespace, ops: list[Any]) -> int:
    from autosparse._native import supports
    from autosparse.calibration.collection import build_ahead, context_for, proposals
    from autosparse.tuner.analytic.models import statistics_model
    from autosparse.tuner.research.collect.collector import Collector
    from autosparse.tuner.research.collect.recipes import recipes_in_turn
    from autosparse.tuning.memory.machine_facts import machine_facts

    order = _order(arguments, ops)

    def bench(pattern: Any, op: Any) -> Any:  # Any: see Collector's MakeBench
        return context_for(pattern, op, order.dtype)

    collector = Collector(order, bench, proposals, statistics_model, machine_facts(), supports)
    for op in ops if arguments.build else ():
        n_kernels = build_ahead(op, collector.kernels_ahead(op), order.dtype)
        print(f"{op.name}: {n_kernels:,} kernels are ready", flush=True)
    progress = log.progress_line()
    n_times = 0
    dims, folder = {op.n_dims for op in ops}, arguments.matrices
    stream = recipes_in_turn(
        folder, dims, seed=arguments.seed, min_nnz=arguments.min_nnz, families=_families(arguments)
    )
    for step in collector.run(stream):
        n_times += step.n_times
        left = show.seconds(step.left_s) if step.left_s < float("inf") else "no time limit"
        done = 0.0 if step.left_s == float("inf") else step.elapsed_s / max(1e-9, step.elapsed_s + step.left_s)
        progress(min(0.999, done), f"{step.n_pairs:,} patterns, {n_times:,} times, {left} left")
        print(
            f"{step.op.name:<8} {step.recipe.kind:<9} {Path(step.recipe.source).stem[:28]:<28} {step.nnz:>10,} nnz "
            f"{step.n_times:>4} times in {show.seconds(step.took_s):>8}, best {step.best_ratio:5.2f} of the default",
            flush=True,
        )
    print(f"{n_times:,} new times in {arguments.out}")
    return 0


def _collect_on_cluster(arguments: argparse.Namespace, ops: list[Any]) -> int:
    from functools import partial

    from autosparse.dask.collecting import ClusterCollector
    from autosparse.tuner.research.collect.recipes import recipes_in_turn

    if arguments.build:
        raise CommandError(
            "--build makes kernels on this machine, which measures nothing with --scheduler", hint="leave it out"
        )
    from distributed import Client

    stream = partial(
        recipes_in_turn,
        arguments.matrices,
        {op.n_dims for op in ops},
        seed=arguments.seed,
        min_nnz=arguments.min_nnz,
        families=_families(arguments),
    )
    n_files = 0
    with Client(arguments.scheduler) as client:
        collector = ClusterCollector(client, _order(arguments, ops), stream, arguments.threads)
        for done in collector.run():
            n_files += len(done.paths)
            names = ", ".join(path.parent.name for path in done.paths) or "nothing fits"
            source = Path(done.recipe.source).stem[:28]
            print(f"{done.machine:<15} {done.kind} {done.recipe.kind:<9} {source:<28} {names}", flush=True)
    print(f"{n_files:,} new files in {arguments.out}")
    return show.left_out((Path(one.job.source).stem, one.kind, one.reason) for one in collector.failed)


def _order(arguments: argparse.Namespace, ops: list[Any]) -> Any:  # Any: Order, imported late
    from autosparse.tuner.research.collect.collector import Order

    return Order(
        out=arguments.out,
        ops=ops,
        dtype=arguments.dtype or SINGLE.name,
        folder=arguments.matrices,
        seed=arguments.seed,
        n_schedules=arguments.schedules,
        n_template_kernels=arguments.templates,
        n_patterns=arguments.patterns,
        seconds=arguments.seconds,
        duty=arguments.duty,
        n_proposed=arguments.proposed,
        for_training=arguments.for_training,
    )
