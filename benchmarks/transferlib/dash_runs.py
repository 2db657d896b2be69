"""DASH's network with the CPU as its source: T2, F7, F9 and F12 of the paper, at a size that one core can train."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from autosparse.tuner.training.few_shot import Settings

from transferlib.cpu_source import cpu_patterns
from transferlib.networks import VARIANTS, pretrained, untrained
from transferlib.patterns import Named
from transferlib.world import World, draws, score

SOURCE_PATTERNS: Final = 60
N_SCRATCH: Final = 5
"""Draws of the network without transfer, which trains its convolutions every time."""
HEADS: Final = Settings(mode="heads", rate=1e-3)
"""Fine-tuning of all but the featurizer. Ten times the paper's rate: 100 epochs of five patterns are few steps."""
SCRATCH: Final = Settings(mode="all", rate=1e-3, batch=128, epochs=30)
DATA: Final = Path(__file__).resolve().parent.parent / "data"


def run_networks(
    world: World, matrices: Sequence[Named], arguments: argparse.Namespace, lines: Any, say: Callable[[str], object]
) -> None:
    """Every variant at k = 5, the whole network at the other k too; zero-shot; no transfer."""
    torch.set_num_threads(1)
    every = draws(world, arguments.draws)
    jobs = [("DASH", 0, every[0])] + [(name, 5, draw) for name in VARIANTS for draw in every]
    jobs += [("DASH", k, draw) for k in (1, 2, 10, 20) for draw in every]
    jobs = [(name, k, draw) for name, k, draw in jobs if not lines.has(_row(name, k), k, draw.seed)]
    scratch = [draw for draw in every[:N_SCRATCH] if not lines.has("DASH, no transfer", 5, draw.seed)]
    if not jobs and not scratch:
        return
    patterns = cpu_patterns(DATA, world.operation, matrices, arguments.matrices, SOURCE_PATTERNS)
    networks = pretrained(patterns, world, matrices, arguments.matrices, kept=arguments.kept, progress=say)
    for at, (name, k, draw) in enumerate(jobs, start=1):
        lines.add(_row(name, k), k, draw, score(world, networks.costs(name, world, draw, k, HEADS)))
        if at % 10 == 0:
            say(f"networks: {at} of {len(jobs)} fine-tunings")
    for draw in scratch:
        costs = untrained(world, draw, 5, SCRATCH, folder=arguments.matrices, programs=networks.programs)
        lines.add("DASH, no transfer", 5, draw, score(world, costs))
        say(f"no transfer: draw {draw.seed}")


def _row(name: str, k: int) -> str:
    return f"{name}, zero-shot" if k == 0 else name
