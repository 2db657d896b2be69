"""DASH's network with the CPU as its source: T2, F7, F9 and F12 of the paper, at a size that one core can train."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from autosparse.tuner.research.training.few_shot import FewShotSettings
from peerlib.archives import extracted

from transferlib.cpu_source import CpuPattern, cpu_patterns
from transferlib.networks import VARIANTS, by_paper, pretrained, tuned_whole, untrained
from transferlib.patterns import Named
from transferlib.world import Draw, World, draws, score

SOURCE_PATTERNS: Final = 60
N_SCRATCH: Final = 5
"""Number of draws of the network without transfer, which trains its convolutions in every draw."""
HEADS: Final = FewShotSettings(mode="heads", rate=1e-3)
"""Settings for fine-tuning all but the featurizer, at ten times the paper's rate.

100 epochs of five patterns are few steps.
"""
SCRATCH: Final = FewShotSettings(mode="all", rate=1e-3, batch=128, epochs=30)
PAPERS: Final = "DASH, the paper's settings"
BY_PAPER: Final = FewShotSettings(mode="all", rate=1e-4, batch=32, epochs=100)
"""Settings of Table 3 of the paper: all layers are trained, on the source and on the target."""
PAPERS_EPOCHS: Final = 50
"""Epochs on the source, half of the paper's, for 60 patterns instead of 100."""
N_PAPERS: Final = 3
FAIR: Final = "DASH, fair trial"
"""Row of a source of FAIR_PATTERNS for the paper's epochs, with the featurizer trained on both platforms."""
FAIR_PATTERNS: Final = 300
ON_FAIR_SOURCE: Final = FewShotSettings(mode="all", rate=1e-4, batch=64, epochs=100)
"""Settings on the source: all programs of a pattern in a step, which are as many steps as the paper's 31,000."""
ON_FAIR_TARGET: Final = FewShotSettings(mode="all", rate=1e-4, batch=32, epochs=100)
N_FAIR: Final = 5


def run_networks(
    world: World, matrices: Sequence[Named], arguments: argparse.Namespace, lines: Any, say: Callable[[str], object]
) -> None:
    """Run every variant at k = 5, the whole network also at other k, zero-shot, and without transfer."""
    torch.set_num_threads(1)
    every = draws(world, arguments.draws)
    if FAIR in (arguments.rows or []):
        patterns = cpu_patterns(extracted("training"), world.operation, matrices, arguments.matrices, FAIR_PATTERNS)
        _fair_trial(world, patterns, arguments, lines, say)
    jobs = [("DASH", 0, every[0])] + [(name, 5, draw) for name in VARIANTS for draw in every]
    jobs += [("DASH", k, draw) for k in (1, 2, 10, 20) for draw in every]

    def is_wanted(row: str, k: int, draw: Draw) -> bool:
        return not lines.has(row, k, draw.seed) and (arguments.rows is None or row in arguments.rows)

    jobs = [(name, k, draw) for name, k, draw in jobs if is_wanted(_row(name, k), k, draw)]
    scratch = [draw for draw in every[:N_SCRATCH] if is_wanted("DASH, no transfer", 5, draw)]
    papers = [draw for draw in every[:N_PAPERS] if is_wanted(PAPERS, 5, draw)]
    if not jobs and not scratch and not papers:
        return
    patterns = cpu_patterns(extracted("training"), world.operation, matrices, arguments.matrices, SOURCE_PATTERNS)
    if papers:
        on_source = replace(BY_PAPER, epochs=PAPERS_EPOCHS)
        source, programs = by_paper(patterns, world, on_source, kept=arguments.kept, progress=say)
        for draw in papers:
            costs = tuned_whole(source, world, draw, 5, BY_PAPER, folder=arguments.matrices, programs=programs)
            lines.add(PAPERS, 5, draw, score(world, costs))
            say(f"{PAPERS}: draw {draw.seed}")
    if not jobs and not scratch:
        return
    networks = pretrained(patterns, world, matrices, arguments.matrices, kept=arguments.kept, progress=say)
    for at, (name, k, draw) in enumerate(jobs, start=1):
        lines.add(_row(name, k), k, draw, score(world, networks.costs(name, world, draw, k, HEADS)))
        if at % 10 == 0:
            say(f"networks: {at} of {len(jobs)} fine-tunings")
    for draw in scratch:
        costs = untrained(world, draw, 5, SCRATCH, folder=arguments.matrices, programs=networks.programs)
        lines.add("DASH, no transfer", 5, draw, score(world, costs))
        say(f"no transfer: draw {draw.seed}")


def _fair_trial(
    world: World, patterns: Sequence[CpuPattern], arguments: argparse.Namespace, lines: Any,
    say: Callable[[str], object],
) -> None:  # fmt: skip
    """Run the row FAIR, only where --rows names it, since it takes hours."""
    source, programs = by_paper(patterns, world, ON_FAIR_SOURCE, kept=arguments.kept, progress=say)
    for draw in [one for one in draws(world, N_FAIR) if not lines.has(FAIR, 5, one.seed)]:
        costs = tuned_whole(source, world, draw, 5, ON_FAIR_TARGET, folder=arguments.matrices, programs=programs)
        lines.add(FAIR, 5, draw, score(world, costs))
        say(f"{FAIR}: draw {draw.seed}")


def _row(name: str, k: int) -> str:
    return f"{name}, zero-shot" if k == 0 else name
