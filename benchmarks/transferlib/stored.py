"""Simulated times on disk: one .npz per accelerator and operation, resumed matrix by matrix."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from autosparse.tuner.research.targets.accelerator import Accelerator
from autosparse.tuner.research.targets.simulation import SIMULATION_VERSION
from numpy.typing import NDArray

from autosparse import accelerators
from transferlib.patterns import Named

Floats = NDArray[np.float64]
SAVED_EVERY: Final = 10


def identity(target: Accelerator) -> str:
    """Return a digest of everything but the pattern that stored times depend on: simulator, machine, configurations."""
    facts = [SIMULATION_VERSION, dataclasses.asdict(target.machine), sorted(target.grid.items()), target.n_columns]
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=8).hexdigest()


def path_of(folder: Path, target: Accelerator, operation: str) -> Path:
    """Return the path of the file of times."""
    return folder / f"{target.name}-{operation}.npz"


def load(path: Path, target: Accelerator) -> dict[str, Floats]:
    """Return cycles of every configuration by matrix; empty if the file is of another simulation."""
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as file:
        if str(file["identity"]) != identity(target):
            return {}
        return {str(name): row.astype(np.float64) for name, row in zip(file["names"], file["cycles"], strict=True)}


def collect(
    path: Path,
    target: Accelerator,
    operation: str,
    *,
    matrices: Sequence[Named],
    folder: Path,
    progress: Callable[[str], object],
) -> dict[str, Floats]:
    """Simulate the matrices that `path` lacks, and store their times there."""
    found = load(path, target)
    missing = [one for one in matrices if one.name not in found]
    for at, one in enumerate(missing, start=1):
        found[one.name] = accelerators.times(target, one.pattern(folder), operation=operation)
        if at % SAVED_EVERY == 0 or at == len(missing):
            progress(f"{target.name} {operation}: {at} of {len(missing)} matrices simulated")
            _save(path, target, found)
    return found


def _save(path: Path, target: Accelerator, found: dict[str, Floats]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_suffix(".new.npz")
    names = sorted(found)
    cycles = np.array([found[name] for name in names]).astype(np.float32)
    np.savez_compressed(staged, identity=np.array(identity(target)), names=np.array(names), cycles=cycles)
    staged.replace(path)
