"""World of one GPU and operation: products by matrix, draws of sampled and held-out matrices, and scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from autosparse.tuner.research.training.ranking import kendall_tau, ordered_pairs
from gpulib.samples import GpuProduct
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

N_DRAWS: Final = 20
SAMPLED: Final = 5
"""Number of sampled matrices, the paper's."""
POOL_SHARE: Final = 0.6
"""Fraction of the groups of matrices whose samples a method may use; the others are held out."""
TOP: Final = 5


@dataclass(frozen=True, eq=False)
class GpuWorld:
    """All products of one operation on one device."""

    device: str
    operation: str
    products: Sequence[GpuProduct] = field(repr=False)

    @property
    def groups(self) -> list[str]:
        """Groups of the matrices."""
        return sorted({one.pattern.group for one in self.products})


@dataclass(frozen=True)
class GpuDraw:
    """Names of the sampled matrices and of all matrices of the pool; every other group is held out."""

    seed: int
    sampled: tuple[str, ...]
    pool: tuple[str, ...]

    def products(self, world: GpuWorld, *, whole_pool: bool = False) -> list[GpuProduct]:
        """Return the products of the sampled matrices, or of the whole pool."""
        names = self.pool if whole_pool else self.sampled
        return [one for one in world.products if one.pattern.name in names]

    def held_out(self, world: GpuWorld) -> list[GpuProduct]:
        """Return the products of the groups that are not in the pool."""
        known = {one.pattern.group for one in world.products if one.pattern.name in self.pool}
        return [one for one in world.products if one.pattern.group not in known]


def worlds(products: Sequence[GpuProduct]) -> list[GpuWorld]:
    """Return the worlds of all devices and operations."""
    keys = sorted({(one.operation, one.device) for one in products}, reverse=True)
    return [
        GpuWorld(device, operation, [one for one in products if (one.operation, one.device) == (operation, device)])
        for operation, device in keys
    ]


def draws(world: GpuWorld, n: int = N_DRAWS) -> list[GpuDraw]:
    """Return draws that all methods share.

    A random share of the groups is the pool. Its matrices are divided by their number of entries into SAMPLED strata,
    and one random matrix is sampled of each ("balanced", section 4.2 of the paper).
    """
    sizes = {one.pattern.name: (one.pattern.facts.nnz, one.pattern.group) for one in world.products}
    found = []
    for seed in range(n):
        rng = np.random.default_rng([52, seed])
        groups = rng.permutation(world.groups).tolist()
        pool_groups = set(groups[: round(POOL_SHARE * len(groups))])
        pool = sorted((name for name, (_, group) in sizes.items() if group in pool_groups), key=lambda one: sizes[one])
        strata = np.array_split(np.array(pool), SAMPLED)
        found.append(GpuDraw(seed, tuple(str(rng.choice(one)) for one in strata), tuple(pool)))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuScore:
    """Means over the held-out groups: pairs in order, Kendall's tau, and shares of the best measured speed."""

    pairs: float
    tau: float
    top1: float
    top5: float


def score(products: Sequence[GpuProduct], costs: Sequence[NDArray[Any]]) -> GpuScore:
    """Return the score of the costs of every candidate; each group of matrices has the same weight."""
    by: dict[str, list[tuple[float, float, float, float]]] = {}
    for product, cost in zip(products, costs, strict=True):
        times, exact = product.seconds, np.zeros(len(cost), np.bool_)
        order = np.argsort(cost, kind="stable")
        shares = (times.min() / times[order[:most]].min() for most in (1, TOP))
        by.setdefault(product.pattern.group, []).append(
            (ordered_pairs(cost, times, exact), kendall_tau(cost, times, exact), *shares)
        )
    means = np.mean([np.nanmean(found, axis=0) for found in by.values()], axis=0)
    return GpuScore(**dict(zip(("pairs", "tau", "top1", "top5"), map(float, means), strict=True)))
