"""World of one target and operation: times and features of every matrix, draws of samples, and scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from autosparse.tuner.research.targets.accelerator import Accelerator
from autosparse.tuner.research.training.ranking import kendall_tau
from autosparse.tuner.research.transfer.counts import COUNTED, additive
from autosparse.tuner.research.transfer.source import PER_PATTERN, best_distinct, described
from numpy.typing import NDArray

from transferlib.patterns import Named

Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]

N_DRAWS: Final = 20
TAU_OF: Final = 64
"""Number of distinct configurations per matrix on which Kendall's tau is computed."""


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix on one target."""

    named: Named
    shape: tuple[int, int]
    times: Doubles = field(repr=False)  # times of every configuration
    same: tuple[int, ...] = field(repr=False)  # Accelerator.distinct
    rows: Floats = field(repr=False)  # tuner.research.transfer.source.described

    @property
    def distinct(self) -> list[int]:
        """Numbers of the distinct programs."""
        return sorted(set(self.same))


@dataclass(frozen=True, eq=False)
class World:
    """All matrices on one target, for one operation."""

    target: Accelerator
    operation: str
    pool: Sequence[Matrix]
    judged: Sequence[Matrix]
    phi: Floats = field(repr=False)  # additive, of every configuration

    @property
    def default(self) -> int:
        """Number of the default configuration."""
        return self.target.configurations.index(self.target.default)


@dataclass(frozen=True, eq=False)
class Draw:
    """Sampled matrices of the pool, in order, and sampled configurations of each."""

    order: Sequence[int]
    numbers: Sequence[NDArray[np.int64]]  # by matrix of the pool
    seed: int


def make_world(
    target: Accelerator,
    operation: str,
    times: dict[str, Doubles],
    *,
    matrices: Sequence[Named],
    folder: Path,
    kept: Path,
    progress: Callable[[str], object],
) -> World:
    """Make the world; features are computed once per target and stored in `kept`."""
    rows, shapes = _features(target, matrices, folder, kept, progress)
    found = [
        Matrix(one, shapes[one.name], times[one.name], target.distinct(*shapes[one.name]), rows[one.name])
        for one in matrices
        if one.name in times
    ]
    pool = [one for one in found if one.named.is_pool]
    return World(target, operation, pool, [one for one in found if not one.named.is_pool], additive(target))


def _features(
    target: Accelerator, matrices: Sequence[Named], folder: Path, kept: Path, progress: Callable[[str], object]
) -> tuple[dict[str, Floats], dict[str, tuple[int, int]]]:
    path = kept / f"features-{target.name}-{len(target.configurations)}-{len(COUNTED)}.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as file:
            if list(file["names"]) == [one.name for one in matrices]:
                shapes = [(int(a), int(b)) for a, b in file["shapes"]]
                names = [str(name) for name in file["names"]]
                return dict(zip(names, file["rows"], strict=True)), dict(zip(names, shapes, strict=True))
    rows, shapes = [], []
    for at, one in enumerate(matrices, start=1):
        pattern = one.pattern(folder)
        rows.append(described(pattern, target))
        shapes.append(pattern.shape)
        if at % 20 == 0:
            progress(f"features of {target.name}: {at} of {len(matrices)} matrices")
    kept.mkdir(parents=True, exist_ok=True)
    names = [one.name for one in matrices]
    np.savez(path, names=np.array(names), rows=np.array(rows), shapes=np.array(shapes))
    return dict(zip(names, rows, strict=True)), dict(zip(names, shapes, strict=True))


def draws(world: World, n: int = N_DRAWS) -> list[Draw]:
    """Return draws that all methods share: an order of the pool and PER_PATTERN configurations of each matrix."""
    found = []
    for seed in range(n):
        rng = np.random.default_rng([43, seed])
        order = rng.permutation(len(world.pool)).tolist()
        numbers = [
            np.sort(rng.choice(one.distinct, min(PER_PATTERN, len(one.distinct)), replace=False)) for one in world.pool
        ]
        found.append(Draw(order, numbers, seed))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Geometric means over the test matrices; speedups are over the default configuration."""

    top1: float
    top5: float
    optimum: float
    ape: float  # mean of |t - t*| / t* in percent, for top 1
    tau: float
    least: float  # speedups of single matrices, top 1
    most: float
    slower: float  # share of the matrices whose speedup is below 1

    @property
    def shares(self) -> tuple[float, float]:
        """Top 1 and top 5 as fractions of the optimum."""
        return self.top1 / self.optimum, self.top5 / self.optimum


def geometric(values: Any) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(values))))


def score(world: World, costs: Sequence[NDArray[Any]]) -> Score:
    """Return the score of the costs (configurations,) of each test matrix."""
    default, best, one, five, taus = [], [], [], [], []
    for matrix, cost in zip(world.judged, costs, strict=True):
        top = best_distinct(np.asarray(cost), matrix.same, 5)
        default.append(matrix.times[world.default])
        best.append(matrix.times.min())
        one.append(matrix.times[top[0]])
        five.append(matrix.times[top].min())
        some = matrix.distinct[:: max(1, len(matrix.distinct) // TAU_OF)]
        taus.append(kendall_tau(np.asarray(cost)[some], matrix.times[some], np.zeros(len(some), np.bool_)))
    base, optimum = np.array(default), np.array(best)
    speedups = base / np.array(one)
    return Score(
        top1=geometric(speedups),
        top5=geometric(base / np.array(five)),
        optimum=geometric(base / optimum),
        ape=float(np.mean(np.array(one) / optimum - 1) * 100),
        tau=float(np.nanmean(taus)),
        least=float(speedups.min()),
        most=float(speedups.max()),
        slower=float(np.mean(speedups < 1)),
    )
