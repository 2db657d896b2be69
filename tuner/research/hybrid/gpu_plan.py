"""Partition of a matrix for a GPU by the greedy search (STile, Algorithm 2), where its planned cost is trusted.

Tiles are blocks of 16 x 16 cells, which Tensor Cores multiply, and single entries. Their costs were fitted to products
that `benchmarks/gpu.py --hybrid` measured on the same kind of device. A plan of both kinds of tiles decides the
partition if its expected gain exceeds the uncertainty of the fit; otherwise the rules of `tuner.gpu.composites` do.

The time of a product by one family of layouts is `launch` + columns x (`tile` x tiles + `row` x rows). A tile is an
entry ("csr") or a block of 16 x 16 cells ("block"). `sigma`, the uncertainty, is the standard deviation of the
logarithm of predicted over measured time for matrices that were left out of the fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from autosparse.tuner.gpu.model import ITEM_BYTES, SUM_BYTES
from autosparse.tuner.gpu.space import GpuSetting
from autosparse.tuner.hybrid.costs import CSR, Operator, PrimitiveCosts, Rate
from autosparse.tuner.hybrid.partitions import Partition
from autosparse.tuner.hybrid.tiles import blocks
from autosparse.tuner.research.hybrid.greedy import GreedyOptions, TilePlan, plan_tiles
from numpy.typing import NDArray
from scipy.optimize import nnls

from autosparse import _native
from autosparse.core.composite import REST, Blocks
from autosparse.core.pattern import Pattern
from autosparse.core.values import dataclass
from autosparse.gpu.target import DeviceTarget
from autosparse.scalar import HALF, SINGLE

Array = NDArray[Any]  # float64

SIDE: Final = 16
"""Rows and columns of a block."""
MIN_MATRICES: Final = 5
"""Minimum number of measured matrices of a family for a fit."""


class Sample(NamedTuple):
    """Measured product by one family: the matrix's name, numbers of tiles, rows and dense columns, seconds."""

    matrix: str
    n_tiles: float
    n_rows: float
    n_columns: int
    seconds: float


class FamilyCost(NamedTuple):
    """Fitted costs of one family, in seconds, and their uncertainty (standard deviation of the log ratio)."""

    launch: float
    tile: float
    row: float
    sigma: float
    n_matrices: int

    def seconds(self, n_tiles: float, n_rows: float, n_columns: int) -> float:
        """Return the expected seconds of one product."""
        return self.launch + n_columns * (self.tile * n_tiles + self.row * n_rows)


Fitted = Mapping[str, FamilyCost]
"""Family -> its costs, for one device and dtype."""


def fit(samples: Sequence[Sample]) -> FamilyCost | None:
    """Return the costs that fit `samples` best in relative terms; None for too few matrices.

    The uncertainty is that of predictions for matrices that are left out, one at a time.
    """
    matrices = sorted({one.matrix for one in samples})
    if len(matrices) < MIN_MATRICES:
        return None
    features = np.array([(1.0, one.n_columns * one.n_tiles, one.n_columns * one.n_rows) for one in samples])
    seconds = np.array([one.seconds for one in samples])
    of_matrix = np.array([matrices.index(one.matrix) for one in samples])
    errors = []
    for left_out in range(len(matrices)):
        known = of_matrix != left_out
        found = features[~known] @ _solved(features[known], seconds[known])
        errors.append(np.log(np.maximum(found, 1e-9) / seconds[~known]))
    launch, tile, row = _solved(features, seconds)
    spread = float(np.sqrt(np.mean(np.concatenate(errors) ** 2)))
    return FamilyCost(float(launch), float(tile), float(row), spread, len(matrices))


def _solved(features: Array, seconds: Array) -> Array:
    """Return the non-negative costs with the least relative errors."""
    scaled = features / seconds[:, None]
    unit = np.maximum(scaled.max(axis=0), 1e-300)
    found: Array = nnls(scaled / unit, np.ones(len(seconds)))[0] / unit
    return found


def distrust(families: Sequence[FamilyCost]) -> float:
    """Return the standard deviation of the log of a planned ratio whose times depend on all of `families`."""
    return math.sqrt(sum(one.sigma**2 for one in families))


SHORT: Final = HALF[-1]
"""Type of half precision that the tables measured."""
FITTED: Final[Mapping[tuple[str, str], Fitted]] = {
    ("h100-sxm", SHORT): {
        "csr": FamilyCost(1.056e-05, 1.652e-13, 1.688e-12, 0.41, 13),
        "block": FamilyCost(1.143e-05, 2.051e-11, 1.928e-12, 0.35, 15),
    },
    ("h100-sxm", SINGLE.name): {
        "csr": FamilyCost(8.342e-06, 2.547e-13, 3.480e-12, 0.32, 15),
    },
    ("h200", SHORT): {
        "csr": FamilyCost(1.010e-05, 1.681e-13, 1.293e-12, 0.42, 13),
        "block": FamilyCost(1.205e-05, 2.064e-11, 1.759e-12, 0.32, 15),
    },
    ("h200", SINGLE.name): {
        "csr": FamilyCost(8.175e-06, 2.513e-13, 2.522e-12, 0.32, 15),
    },
}  # fmt: skip
"""(Target, dtype) -> fitted costs by family. Source: `python benchmarks/hybrid_gpu.py --fit`, the committed tables of
an H100 and an H200. No blocks of float32 were measured on them without TF32."""


BLOCK: Final = Operator("block", SIDE, SIDE)
QUANTILE: Final = 1.28
"""Standard deviations by which a gain must exceed the uncertainty: a gain is expected in 90 % of the cases."""
MAX_NNZ: Final = 5_000_000
"""Maximum number of entries that the search, which runs on one thread of the host, may take."""
MIN_SHARE: Final = 0.05
"""Minimum fraction of the entries in each kind of tiles for a plan of two parts."""
MAX_BELOW: Final = 0.1
"""Fraction of the entries in planned blocks that may lie in blocks with less than the partition's fill."""


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """Result of the search: expected time over the best single family's, uncertainty, and why it does not decide.

    `partition` is None where a plan has one kind of tiles only. `reason` is None for a trusted partition.
    """

    partition: Partition | None
    ratio: float
    sigma: float
    reason: str | None
    plan: TilePlan | None = None

    @property
    def is_trusted(self) -> bool:
        """Return whether the partition decides."""
        return self.reason is None


def _unplanned(reason: str) -> PlannedPartition:
    return PlannedPartition(None, 1.0, 0.0, reason)


def planned(
    pattern: Pattern,
    asked: GpuSetting,
    target: DeviceTarget,
    options: GreedyOptions | None = None,
    *,
    max_nnz: int = MAX_NNZ,
) -> PlannedPartition:
    """Return the greedy search's partition of op(A), and whether its planned cost is trusted."""
    fitted = FITTED.get((target.name, asked.dtype), {})
    if asked.kind != "columns" or not asked.has_dots or not {"csr", "block"} <= set(fitted):
        return _unplanned(f"no costs of tiles were fitted for {asked.dtype} on {target.name}")
    if not 0 < pattern.nnz <= max_nnz:
        return _unplanned(f"the search takes 1 to {max_nnz:,} entries")
    found = plan_tiles(pattern, (BLOCK, CSR), costs_of(fitted, asked, target), _native.choose_tiles, options)
    ratio, sigma = compared(pattern, found, fitted, asked, target)
    shares = found.shares()
    if min(shares.get(one, 0.0) for one in (BLOCK, CSR)) < MIN_SHARE:
        return PlannedPartition(None, ratio, sigma, "the plan has one kind of tiles", found)
    partition = Partition((_rule(pattern, found), REST), ratio)
    limit, reason = math.exp(-QUANTILE * sigma), None
    if ratio > limit:
        reason = f"planned time {ratio:.2f} of one layout; {limit:.2f} is trusted"
    return PlannedPartition(partition, ratio, sigma, reason, found)


def costs_of(fitted: Fitted, asked: GpuSetting, target: DeviceTarget) -> PrimitiveCosts:
    """Return the fitted costs of tiles for the number of columns of `asked`, in picoseconds, as the runtime compares.

    A first write of each row of C is a constant of every plan. The search is greedy, and would charge it to blocks.
    """
    columns, unit = asked.n_dense_cols, 1e12
    further_s = 4.0 * columns * max(ITEM_BYTES[asked.dtype], SUM_BYTES) / target.l2_bytes_s
    entry, block = (unit * columns * fitted[family].tile for family in ("csr", "block"))
    return PrimitiveCosts({"csr": Rate(0.0, 0.0, entry), "block": Rate(block, 0.0, 0.0)}, 0.0, unit * further_s)


def compared(
    pattern: Pattern, found: TilePlan, fitted: Fitted, asked: GpuSetting, target: DeviceTarget
) -> tuple[float, float]:
    """Return the planned time over the best single family's, and the standard deviation of its logarithm.

    Both times have the error of the best single family in common. The ratio is uncertain by the fraction of the planned
    time that the other family takes.
    """
    owned = np.array([one == BLOCK for one in found.operators])[found.owner]
    if owned.all() or not owned.any():
        return 1.0, 0.0
    columns, rows, tiles = asked.n_dense_cols, pattern.n_rows, blocks(pattern, BLOCK)
    entry, block = fitted["csr"], fitted["block"]
    single_s = {
        "csr": entry.seconds(pattern.nnz, rows, columns), "block": block.seconds(tiles.n_tiles, rows, columns)
    }  # fmt: skip
    best = min(single_s, key=single_s.__getitem__)
    parts_s = {
        "csr": columns * entry.tile * float((~owned).sum()),
        "block": columns * block.tile * float(np.unique(tiles.tile_of[owned]).size),
    }
    launch_s = max(entry.launch, block.launch) + target.launch_s
    shared_s = columns * 4.0 * SUM_BYTES / target.l2_bytes_s * _n_shared(pattern, owned)
    planned_s = launch_s + columns * max(entry.row, block.row) * rows + shared_s + sum(parts_s.values())
    other = next(family for family in parts_s if family != best)
    return planned_s / single_s[best], parts_s[other] / planned_s * distrust([entry, block])


def _n_shared(pattern: Pattern, owned: Any) -> int:
    """Return the number of rows that hold entries of both kinds of tiles."""
    rows = pattern.rows_of_entries()
    return int(np.intersect1d(rows[owned], rows[~owned]).size)


def _rule(pattern: Pattern, found: TilePlan) -> Blocks:
    """Return the rule that selects the planned blocks, by the fill that nearly all of them have."""
    tiles = blocks(pattern, BLOCK).tile_of
    fill = np.bincount(tiles)[tiles] / (SIDE * SIDE)
    owned = np.array([one == BLOCK for one in found.operators])[found.owner]
    least = float(np.quantile(fill[owned], MAX_BELOW))
    return Blocks(SIDE, SIDE, max(1.0, math.floor(least * 20.0)) / 20.0)
