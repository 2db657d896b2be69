"""Run of `benchmarks/transfer.py --gpu`: DASH and its rivals on the measured kernels of two GPUs, and their tables."""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from autosparse.tuner.gpu import correction
from autosparse.tuner.research.transfer.device import fit_device_correction
from gpulib import samples
from peerlib.archives import extracted
from peerlib.records import ResultFile
from peerlib.table import markdown

from transferlib.gpu_methods import METHODS, GpuBench, sample_of
from transferlib.gpu_networks import ON_SOURCE, SOURCE_PATTERNS, CpuSource, GpuNetworks
from transferlib.gpu_world import GpuWorld, draws, score, worlds

QUICK_PATTERNS: Final = 6
QUICK_EPOCHS: Final = 1
BRIEF_DRAWS: Final = 5
"""Number of draws of methods that take long, and of ablations."""
FACTS: Final = ("operation", "device", "method", "draw")
SHIPPED_FROM: Final = (
    "python benchmarks/transfer.py --gpu --ship: all samples of the archive gpu, H100 and H200, 2026-11-27"
)
"""Source of the shipped weights, in their file."""
OURS: Final = ("analytic model + DASH", "correction + DASH", "correction + DASH, both devices")
"""Methods that are compared with the others draw by draw: both attempts at a network that beats no transfer.

The second is compared without and with samples of the other device.
"""
RIVALS: Final = (
    "analytic model", "static", "DASH, zero-shot", "DASH, no transfer", "DASH, no transfer, whole pool", "WACO+FA",
    "WACO+FM", "DASH", "analytic model + DASH, no transfer", "correction + DASH, no transfer",
    "correction + DASH, both devices, no CPU", "analytic model + correction",
    "analytic model + correction, both devices",
)  # fmt: skip


def run(arguments: argparse.Namespace, say: Callable[[str], object]) -> int:
    """Append a line for every method and draw that the file lacks."""
    torch.set_num_threads(1)
    file = ResultFile(arguments.json)
    done = {tuple(one[name] for name in FACTS) for one in file.lines()}
    every, n_draws = worlds(products_of(arguments)), 1 if arguments.quick else arguments.draws
    on_source = replace(ON_SOURCE, epochs=QUICK_EPOCHS) if arguments.quick else ON_SOURCE
    for operation in dict.fromkeys(one.operation for one in every):
        if arguments.only not in (None, operation):
            continue
        mine = [one for one in every if one.operation == operation]
        source = CpuSource.of(
            extracted("training"), operation, set(mine[0].groups),
            QUICK_PATTERNS if arguments.quick else SOURCE_PATTERNS,
        )  # fmt: skip
        products = [product for world in mine for product in world.products]
        kept = None if arguments.quick else arguments.kept
        networks = GpuNetworks.of(source, products, on_source, kept, say)
        for world in mine:
            other = next((one for one in mine if one is not world), world)
            _answer(GpuBench(world, other, networks), n_draws, done, file, arguments)
            say(f"{world.operation} on {world.device}: {len(METHODS)} methods, {n_draws} draws")
    return 0


def products_of(arguments: argparse.Namespace) -> list[samples.GpuProduct]:
    """Return the products of the file that --samples names, else of the archive."""
    if arguments.samples is None:
        return samples.archived()
    return list(samples.products(arguments.samples.read_text(encoding="utf-8").splitlines()))


def _answer(
    bench: GpuBench, n_draws: int, done: set[tuple[Any, ...]], file: ResultFile, arguments: argparse.Namespace
) -> None:
    world = bench.world
    for draw in draws(world, n_draws):
        for name, method in METHODS.items():
            facts = dict(zip(FACTS, (world.operation, world.device, name, draw.seed), strict=True))
            is_wanted = arguments.rows is None or name in arguments.rows
            if not is_wanted or tuple(facts.values()) in done or (method.is_brief and draw.seed >= BRIEF_DRAWS):
                continue
            found = dataclasses.asdict(score(draw.held_out(world), method.run(bench, draw)))
            file.append(facts | {one: round(value, 5) for one, value in found.items()})


def ship(say: Callable[[str], object]) -> None:
    """Fit the correction that ships to all samples of both devices, and write its file."""
    found: dict[str, Any] = {}
    for operation in ("spmm", "sddmm"):
        products = [one for one in samples.archived() if one.operation == operation]
        fitted = fit_device_correction([sample_of(one) for one in products])
        found[products[0].schedules[0].operation] = {
            "targets": fitted.targets, "dtypes": fitted.dtypes, "columns": fitted.columns,
            "weights": [float(f"{one:.6g}") for one in fitted.weights],
        }  # fmt: skip
    facts = {"source": SHIPPED_FROM, "operations": found}
    correction.WEIGHTS.write_text(json.dumps(facts) + "\n", encoding="utf-8")
    say(f"{correction.WEIGHTS.name}: {correction.WEIGHTS.stat().st_size} bytes")


def report(lines: Sequence[Mapping[str, Any]], every: Sequence[GpuWorld]) -> str:
    """Return the section of the page: one table per operation and device, and comparisons draw by draw."""
    parts = [HEAD.format(draws=len({one["draw"] for one in lines}))]
    for world in every:
        mine = [one for one in lines if (one["operation"], one["device"]) == (world.operation, world.device)]
        if mine:
            n = sum(len(one.schedules) for one in world.products)
            title = f"### {world.operation} on `{world.device}`: {len(world.products)} products, {n} samples"
            parts += [f"{title}\n\n{_table(mine)}", *(_comparisons(mine, one) for one in OURS)]
    return "\n\n".join(parts) + "\n"


def _table(lines: Sequence[Mapping[str, Any]]) -> str:
    rows = [["method", "GPU samples", "pairs in order", "tau", "top 1", "top 5"]]
    for name, method in METHODS.items():
        some = [one for one in lines if one["method"] == name]
        if some:
            cells = (_spread([one[what] for one in some]) for what in ("pairs", "tau", "top1", "top5"))
            rows.append([name, method.samples, *cells])
    return markdown(rows)


def _spread(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.3f}"
    low, _, high = statistics.quantiles(values, n=4)
    return f"{statistics.median(values):.3f} ({low:.3f}, {high:.3f})"


def _comparisons(lines: Sequence[Mapping[str, Any]], ours: str) -> str:
    """Format pairs in order and top 1 of the method `ours` less its rivals', per draw."""
    by = {(one["method"], one["draw"]): one for one in lines}
    rows = [[f"{ours}, less", "pairs in order", "draws above 0", "top 1", "draws above 0"]]
    for rival in RIVALS:
        seeds = [draw for name, draw in by if name == ours and (rival, draw) in by]
        if not seeds:
            continue
        cells = []
        for what in ("pairs", "top1"):
            away = [by[ours, seed][what] - by[rival, seed][what] for seed in seeds]
            cells += [f"{statistics.median(away):+.3f}", f"{statistics.mean(one > 0 for one in away):.0%}"]
        rows.append([rival, *cells])
    return markdown(rows)


HEAD: Final = """## Measured kernels of two GPUs

Written by `python benchmarks/transfer.py --gpu` from `transfer-gpu.jsonl`; no GPU is needed. Samples: the single
layouts that `python benchmarks/gpu.py --hybrid` timed on an H100 and an H200 (archive `gpu`), 16 matrices of 13 groups,
32 to 512 columns, float16 and float32, 3 to 9 candidates per product. The candidates are the favourites of the analytic
model and one of each other family, so its favourites are programs that it could hardly tell apart.

Each of {draws} draws divides the groups: 8 are the pool, 5 are held out. Five matrices of the pool are sampled, one of
each fifth by number of entries. Values are means over held-out groups, medians (quartiles) over draws: pairs in order,
Kendall's tau, and the share of the best measured speed that the first, or the best of the first five, candidates reach.
Networks: DASH's perceptrons with a featurizer of statistics (84 numbers) in place of convolutions; CPU source: 100
patterns of `benchmarks/data`, the paper's settings; on the GPU all layers for 60 epochs, at a rate of 1e-3 ("the
paper's settings": 100 epochs, 1e-4, batches of 32). "Analytic model + DASH" adds the network to 5 times the analytic
model's log seconds; that factor and the 60 epochs were chosen on other draws of the same matrices. "Static" gives each
kind of schedule its mean on the samples. "Correction" is a ridge regression of the analytic model's error; products use
it (`autosparse/targets/gpu_correction.json`), fitted to all samples of both devices.

"Analytic model + DASH" was the first attempt at a network that ranks better than no transfer. "Correction + DASH" is
the second: the network is added, with a factor of 1/2, to the correction that the same samples give. With "both
devices" the other GPU is a source beside the CPU: samples of its whole pool, none of a held-out group, are fitted
together with the five matrices. The factor (1/2 or 1) and the devices were chosen on eight other draws of the same
matrices; the draws below were then computed once.

To rank is to order pairs. "Correction + DASH" and "correction + DASH, no transfer" see the same five matrices; the rows
of their difference tell whether transfer from the CPU ranks held-out matrices better. Products use the correction
alone, fitted to both devices, which ranks as well (the last rows): the network would need weights for each device and
statistics of each pattern. With both devices the network ranks best for SpMM."""
"""Text before the tables."""
