"""DASH's network with the CPU as its source: T2 and F7 to F12 of the paper, on three times its source patterns."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from autosparse.tuner.research.training.few_shot import FewShotSettings
from peerlib.archives import extracted

from transferlib.cpu_source import cpu_patterns
from transferlib.networks import SOURCE_EPOCHS, VARIANTS, pretrained, target_programs, tuned_whole, untrained
from transferlib.patterns import Named
from transferlib.world import Draw, World, draws, score

QUICK_PATTERNS: Final = 8
"""Patterns of the source with `--quick`, for one epoch."""
N_SCRATCH: Final = 5
"""Number of draws of the network without transfer, which trains its convolutions in every draw."""
HEADS: Final = FewShotSettings(mode="heads", rate=1e-3)
"""Settings for fine-tuning all but the featurizer, at ten times the paper's rate.

100 epochs of five patterns are few steps.
"""
SCRATCH: Final = FewShotSettings(mode="all", rate=1e-3, batch=128, epochs=30)
PAPERS: Final = "DASH, all layers"
ALL_LAYERS: Final = FewShotSettings(mode="all", rate=1e-4, batch=32, epochs=100)
"""Settings of Table 3 of the paper on the target: the featurizer is trained there too."""
N_PAPERS: Final = 5


def run_networks(
    world: World, matrices: Sequence[Named], arguments: argparse.Namespace, lines: Any, say: Callable[[str], object],
    *, sampled: Sequence[int],
) -> None:  # fmt: skip
    """Run every variant at k = 5, the whole network also at the other k of `sampled`, zero-shot, and untransferred."""
    torch.set_num_threads(1)
    every = draws(world, arguments.draws)
    jobs = [("DASH", 0, every[0])] + [(name, 5, draw) for name in VARIANTS for draw in every]
    jobs += [("DASH", k, draw) for k in sampled if k != 5 for draw in every]
    jobs = [(name, k, every[0]) for name, k in (("DASH", 0), ("DASH", 1))] if arguments.quick else jobs

    def is_wanted(row: str, k: int, draw: Draw) -> bool:
        return not lines.has(row, k, draw.seed) and (arguments.rows is None or row in arguments.rows)

    jobs = [(name, k, draw) for name, k, draw in jobs if is_wanted(_row(name, k), k, draw)]
    few = 0 if arguments.quick else None
    scratch = [draw for draw in every[:N_SCRATCH][:few] if is_wanted("DASH, no transfer", 5, draw)]
    papers = [draw for draw in every[:N_PAPERS][:few] if is_wanted(PAPERS, 5, draw)]
    for draw in scratch:
        costs = untrained(world, draw, 5, SCRATCH, folder=arguments.matrices, programs=target_programs(world, 0))
        lines.add("DASH, no transfer", 5, draw, score(world, costs))
        say(f"no transfer: draw {draw.seed}")
    if not jobs and not papers:
        return
    n_patterns, epochs = (QUICK_PATTERNS, 1) if arguments.quick else (arguments.patterns, SOURCE_EPOCHS)
    patterns = cpu_patterns(extracted("training"), world.operation, matrices, arguments.matrices, n_patterns)
    needed = {job[0] for job in jobs} | ({"DASH"} if papers else set())
    names = [name for name in VARIANTS if name in needed]
    networks = pretrained(
        patterns, world, matrices, arguments.matrices, kept=arguments.kept, progress=say, epochs=epochs, names=names
    )
    for at, (name, k, draw) in enumerate(jobs, start=1):
        lines.add(_row(name, k), k, draw, score(world, networks.costs(name, world, draw, k, HEADS)))
        if at % 10 == 0:
            say(f"networks: {at} of {len(jobs)} fine-tunings")
    for draw in papers:
        source = networks.models["DASH"]
        costs = tuned_whole(source, world, draw, 5, ALL_LAYERS, folder=arguments.matrices, programs=networks.programs)
        lines.add(PAPERS, 5, draw, score(world, costs))
        say(f"{PAPERS}: draw {draw.seed}")


def _row(name: str, k: int) -> str:
    return f"{name}, zero-shot" if k == 0 else name
