"""Methods of the tables: costs of all configurations on each test matrix, from k sampled matrices of a draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from autosparse.tuner.research.transfer.counts import COUNTED
from autosparse.tuner.research.transfer.residual import Fitted, fit_correction, fit_residual
from autosparse.tuner.research.transfer.source import FEW_TREES, Samples, SourceModel, fit_source
from numpy.typing import NDArray

from transferlib.world import Draw, Matrix, World, draws

Costs = Sequence[NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Bench:
    """A target, a source, and the source's models: one of patterns alone, one that also reads counts of programs."""

    world: World
    source: World
    plain: SourceModel = field(repr=False)
    counting: SourceModel = field(repr=False)
    base: Mapping[str, tuple[NDArray[Any], NDArray[Any]]] = field(repr=False)  # costs of both models, by name


def make_bench(world: World, source: World) -> Bench:
    """Train the source's models on PER_PATTERN samples of every matrix of its pool."""
    draw = draws(source, 1)[0]
    sampled = [_samples(matrix, draw.numbers[at]) for at, matrix in enumerate(source.pool)]
    rows = [matrix.rows[one.numbers] for matrix, one in zip(source.pool, sampled, strict=True)]
    y = [one.y for one in sampled]
    plain = fit_source([plain_of(one) for one in rows], y, name=source.target.name)
    counting = fit_source(rows, y, name=source.target.name)
    base = {
        matrix.named.name: (plain.costs(plain_of(matrix.rows)), counting.costs(matrix.rows))
        for matrix in (*world.pool, *world.judged)
    }
    return Bench(world, source, plain, counting, base)


def plain_of(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return rows of features without the counts, which are the last columns."""
    return rows[:, : -len(COUNTED)]


def _samples(matrix: Matrix, numbers: NDArray[np.int64]) -> Samples:
    return Samples(matrix.named.name, numbers, matrix.times[numbers])


def _sampled(bench: Bench, draw: Draw, k: int) -> list[tuple[Matrix, Samples]]:
    pool = bench.world.pool
    return [(pool[at], _samples(pool[at], draw.numbers[at])) for at in draw.order[:k]]


def oracle(bench: Bench, draw: Draw, k: int) -> Costs:
    """Return the times themselves."""
    return [one.times for one in bench.world.judged]


def random_order(bench: Bench, draw: Draw, k: int) -> Costs:
    """Return a random order, whose top 5 is five random programs."""
    rng = np.random.default_rng([7, draw.seed])
    return [rng.random(one.times.size) for one in bench.world.judged]


def static_of_source(bench: Bench, draw: Draw, k: int) -> Costs:
    """Return the order of mean log times on the source for every pattern; it uses no data of the target."""
    default = bench.source.default
    logs = np.mean([np.log(one.times / one.times[default]) for one in bench.source.pool], axis=0)
    return [logs] * len(bench.world.judged)


def static_of_target(bench: Bench, draw: Draw, k: int) -> Costs:
    """Return the order of mean log times of the target's samples; configurations without samples come last."""
    n = bench.world.phi.shape[0]
    total, times = np.zeros(n), np.zeros(n)
    for _, one in _sampled(bench, draw, k):
        total[one.numbers] += one.y
        times[one.numbers] += 1
    found = np.where(times > 0, total / np.maximum(times, 1), np.inf)
    return [found] * len(bench.world.judged)


def additive(bench: Bench, draw: Draw, k: int) -> Costs:
    """Return a pattern-blind model: ridge regression on the parameters and their pairs."""
    return _residual(bench, draw, k, lambda matrix: np.zeros(matrix.times.size))


def zero_shot(bench: Bench, draw: Draw, k: int) -> Costs:
    """Return the source's trees of patterns alone, uncorrected."""
    return [bench.base[one.named.name][0] for one in bench.world.judged]


def residual(bench: Bench, draw: Draw, k: int) -> Costs:
    """Return the cheap transfer: the source's trees of patterns alone plus an additive residual."""
    return _residual(bench, draw, k, lambda matrix: bench.base[matrix.named.name][0])


def mean_residual(bench: Bench, draw: Draw, k: int) -> Costs:
    """Return the mean of the source's two models plus an additive residual."""
    return _residual(bench, draw, k, lambda matrix: sum(bench.base[matrix.named.name]) / 2)


def exact_residual(bench: Bench, draw: Draw, k: int) -> Costs:
    """Return the bound of residual transfer: the source's true times instead of its trees."""
    exact = {one.named.name: np.log(one.times) for one in (*bench.source.pool, *bench.source.judged)}
    return _residual(bench, draw, k, lambda matrix: exact[matrix.named.name])


def _residual(bench: Bench, draw: Draw, k: int, base: Callable[[Matrix], NDArray[Any]]) -> Costs:
    phi = bench.world.phi
    fitted = fit_residual(
        [Fitted(base(matrix)[one.numbers], phi[one.numbers], one.y) for matrix, one in _sampled(bench, draw, k)]
    )
    return [fitted.costs(base(matrix), phi) for matrix in bench.world.judged]


def no_transfer(bench: Bench, draw: Draw, k: int) -> Costs:
    """Return trees of patterns alone, fitted to the samples of the target."""
    return _trees(bench, draw, k, plain_of)


def no_transfer_counting(bench: Bench, draw: Draw, k: int) -> Costs:
    """Return trees of patterns and counts of programs, fitted to the samples of the target."""
    return _trees(bench, draw, k, lambda rows: rows)


def _trees(bench: Bench, draw: Draw, k: int, read: Callable[[NDArray[np.float32]], NDArray[np.float32]]) -> Costs:
    found = _sampled(bench, draw, k)
    rows = [read(matrix.rows[one.numbers]) for matrix, one in found]
    model = fit_source(rows, [one.y for _, one in found], settings=FEW_TREES)
    return [model.costs(read(matrix.rows)) for matrix in bench.world.judged]


def corrected_trees(bench: Bench, draw: Draw, k: int) -> Costs:
    """Return the source's trees with counts, plus trees fitted to their residuals on the target's samples."""

    found = _sampled(bench, draw, k)
    rows = [matrix.rows[one.numbers] for matrix, one in found]
    model = fit_correction(bench.counting, rows, [one.y for _, one in found])
    return [model.costs(matrix.rows) for matrix in bench.world.judged]


@dataclass(frozen=True)
class Method:
    """A row of the tables.

    `samples_target` tells whether the method uses samples of the target, `same_grid` whether source and target must
    share a grid of configurations.
    """

    run: Callable[[Bench, Draw, int], Costs]
    samples_target: bool = True
    same_grid: bool = False


METHODS: Final[Mapping[str, Method]] = {
    "oracle": Method(oracle, samples_target=False),
    "random": Method(random_order, samples_target=False),
    "static of the source": Method(static_of_source, samples_target=False, same_grid=True),
    "static of the target": Method(static_of_target),
    "pattern-blind": Method(additive),
    "zero-shot trees": Method(zero_shot, samples_target=False),
    "no-transfer trees": Method(no_transfer),
    "no-transfer trees with counts": Method(no_transfer_counting),
    "source + residual": Method(residual),
    "mean of two sources + residual": Method(mean_residual),
    "exact source + residual": Method(exact_residual, same_grid=True),
    "source + trees with counts": Method(corrected_trees),
}
