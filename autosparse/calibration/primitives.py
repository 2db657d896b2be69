"""Measurement of the primitive costs of hybrid formats on this machine, in under a minute; kernels are compiled once.

Every probe is a matrix of one kind of tile, repeated: rows of compressed entries, full blocks of one shape, dense rows
in panels of four, and blocks with scattered entries that a second part adds. The numbers of tiles, rows of B and slots
of each probe are known. The rates of all families follow from the timings by non-negative least squares of relative
errors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse.calibration.collection import context_for
from autosparse.calibration.probing import seconds_each
from autosparse.config import options
from autosparse.core.composite import REST, Blocks, Composite, Part, Schedule
from autosparse.core.target import Target
from autosparse.errors import BuildError
from autosparse.ops import MATMUL
from autosparse.tuner.hybrid.costs import PrimitiveCosts, Rate
from autosparse.tuner.hybrid.schedules import runtime, tried
from autosparse.tuner.research.collect.operations import OPS
from autosparse.tuner.research.generators.coordinates import Coordinates
from autosparse.tuning.memory.cost_table import CostClass, streaming_bytes

Array = NDArray[Any]  # indices of rows or columns
Product = Callable[[Coordinates, int, Schedule], float]
"""Type of a timing function: (pattern, columns of B, schedule) -> seconds of a product."""

ENTRIES: Final = {1: 400_000, 32: 100_000, 256: 24_000}
"""Number of entries of a probe, by columns of B."""
RESIDENT_SHARE: Final = 0.5
"""Fraction of the L2 cache that B fills where the cost class has B in that cache."""
ROW_LENGTHS: Final = (4, 16, 64)
"""Entries per row of the probes of compressed rows."""
SHAPES: Final = ((2, 2), (2, 8), (4, 4), (8, 2), (8, 8))
"""Block shapes of the probes of blocks."""
DENSITIES: Final = (0.1, 0.6)
"""Densities of the probes of dense rows."""
PANEL_ROWS: Final = 4
"""Rows of a panel of dense rows."""
SCATTERED: Final = (2, 8)
"""Numbers of scattered entries per row in the part that adds to the blocks."""
TERMS: Final = ("csr", "tile", "read", "multiply", "panel", "first row", "further row")
"""Primitives whose costs are fitted, in the order of the unknowns."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Benchmark of the primitive costs: a matrix, its schedule, and how often one product pays each of `TERMS`."""

    pattern: Coordinates
    schedule: Schedule
    counts: dict[str, float]


def measured_costs(target: Target, one: CostClass, product_s: Product | None = None) -> PrimitiveCosts:
    """Measure the primitive costs, in ns, of products of the class `one` (width, size of B) with the current threads.

    `product_s` measures the seconds of one probe; by default it runs the kernel.
    """
    measure = product_s or _product_s
    with options(effort="off"):
        found = [
            (probe.counts, measure(probe.pattern, one.n_dense_cols, probe.schedule)) for probe in probes(target, one)
        ]
    return fitted(found)


def fitted(found: list[tuple[dict[str, float], float]]) -> PrimitiveCosts:
    """Fit the primitive costs to the probes' times in seconds and counts of `TERMS`.

    ELL costs are derived: a slot costs as much as an entry of CSR and a tile as much as a block, since ELL is not
    measured. Vectors have no kernel for panels, whose columns then cost four entries of CSR each.
    """
    from scipy.optimize import nnls

    times_ns = np.array([1e9 * seconds for _, seconds in found])
    counts = np.array([[one.get(term, 0.0) for term in TERMS] for one, _ in found])
    solved, _ = nnls(counts / times_ns[:, None], np.ones(times_ns.size))
    at = dict(zip(TERMS, map(float, solved), strict=True))
    multiply = min(at["multiply"], at["csr"])
    rates = {
        "csr": Rate(0.0, at["csr"] - multiply, multiply),
        "block": Rate(at["tile"], at["read"], at["multiply"]),
        "ell": Rate(at["tile"], at["csr"] - multiply, multiply),
        "panel": Rate(0.0, at["panel"] or PANEL_ROWS * at["csr"], 0.0),
    }
    return PrimitiveCosts(rates, at["first row"], at["further row"])


def n_columns_of(target: Target, one: CostClass) -> int:
    """Return how many rows B needs to fit in L2, or to exceed it, as the class `one` states; a multiple of 64."""
    n_bytes = streaming_bytes(target.l2_bytes) if one.is_streaming else RESIDENT_SHARE * target.l2_bytes
    return max(64, int(n_bytes) // (4 * one.n_dense_cols) // 64 * 64)


def probes(target: Target, one: CostClass) -> Iterator[Probe]:
    """Yield the probes of the class `one`: CSR rows, blocks, panels, and blocks with scattered entries."""
    rng, n_cols = np.random.default_rng(0), n_columns_of(target, one)
    nnz = ENTRIES[one.n_dense_cols]
    yield from (_rows(rng, nnz // length, length, n_cols) for length in ROW_LENGTHS if length < n_cols)
    for r, c in SHAPES:
        yield _blocks(rng, (r, c), nnz, n_cols, one.n_dense_cols)
    if one.n_dense_cols > 1:
        for density in DENSITIES:
            yield _panels(rng, density, nnz, n_cols, one.n_dense_cols)
    for scattered in SCATTERED:
        yield _added(rng, scattered, nnz, n_cols, one.n_dense_cols)


def _rows(rng: np.random.Generator, n_rows: int, length: int, n_cols: int) -> Probe:
    pattern = _scattered(rng, n_rows, length, n_cols)
    return Probe(pattern, runtime(MATMUL.name), {"csr": pattern.nnz, "first row": n_rows})


def _scattered(rng: np.random.Generator, n_rows: int, length: int, n_cols: int) -> Coordinates:
    rows = np.repeat(np.arange(n_rows), length)
    return Coordinates.of((n_rows, n_cols), (rows, rng.integers(0, n_cols, rows.size)))


def _blocks(rng: np.random.Generator, shape: tuple[int, int], nnz: int, n_cols: int, width: int) -> Probe:
    r, c = shape
    per_row = max(2, 32 // c)
    n_down = max(1, nnz // (r * c * per_row))
    pattern, n_tiles = _planted(rng, shape, n_down, per_row, n_cols)
    schedule = tried(MATMUL.name)("blocks", Blocks(r, c, 1.0), width)[0]
    return Probe(pattern, schedule, {**_block_counts(shape, n_tiles), "first row": r * n_down})


def _block_counts(shape: tuple[int, int], n_tiles: int) -> dict[str, float]:
    r, c = shape
    return {"tile": n_tiles, "read": n_tiles * c, "multiply": n_tiles * r * c}


def _planted(
    rng: np.random.Generator, shape: tuple[int, int], n_down: int, per_row: int, n_cols: int
) -> tuple[Coordinates, int]:
    """Return a random matrix of full aligned blocks of `shape`, and the number of its blocks.

    There are `n_down` rows of blocks, with at most `per_row` distinct blocks each.
    """
    r, c = shape
    drawn = np.repeat(np.arange(n_down), per_row) * (n_cols // c) + rng.integers(0, n_cols // c, n_down * per_row)
    down, across = np.divmod(np.unique(drawn), n_cols // c)
    rows = (down[:, None, None] * r + np.arange(r)[:, None] + np.zeros(c, int)).ravel()
    columns = (across[:, None, None] * c + np.zeros((r, 1), int) + np.arange(c)).ravel()
    return Coordinates.of((r * n_down, n_cols), (rows, columns)), int(down.size)


def _panels(rng: np.random.Generator, density: float, nnz: int, n_cols: int, width: int) -> Probe:
    n_cols = min(n_cols, nnz)
    n_groups = max(1, int(nnz / (density * n_cols * PANEL_ROWS)))
    kept = np.flatnonzero(rng.random(n_groups * PANEL_ROWS * n_cols) < density)
    rows, columns = np.divmod(kept, n_cols)
    n_blocks = np.unique(rows // PANEL_ROWS * n_cols + columns).size
    n_rows = n_groups * PANEL_ROWS
    counts = {"panel": float(n_blocks), "first row": float(n_rows)}
    pattern = Coordinates.of((n_rows, n_cols), (rows, columns))
    return Probe(pattern, tried(MATMUL.name)("dense", REST, width)[0], counts)


def _added(rng: np.random.Generator, length: int, nnz: int, n_cols: int, width: int) -> Probe:
    """Return a probe of 4 x 4 blocks plus `length` scattered entries per row, added by a second part."""
    shape, per_row = (4, 4), 4
    n_down = max(1, nnz // (4 * (4 * per_row + length)))
    planted, _ = _planted(rng, shape, n_down, per_row, n_cols)
    scattered = _scattered(rng, 4 * n_down, length, n_cols)
    both = [np.concatenate(pair) for pair in zip(planted.indices, scattered.indices, strict=True)]
    pattern = Coordinates.of(planted.shape, both)
    blocks, rest = Blocks(4, 4, 1.0), tried(MATMUL.name)("adds", REST, width)[0]
    composite = Composite(parts=(Part(blocks, tried(MATMUL.name)("blocks", blocks, width)[0]), Part(REST, rest)))
    keys = pattern.indices[0] // 4 * n_cols + pattern.indices[1] // 4
    n_full = int((np.unique(keys, return_counts=True)[1] == 16).sum())
    counts = {**_block_counts(shape, n_full), "csr": pattern.nnz - 16 * n_full, "first row": 4 * n_down}
    return Probe(pattern, composite, {**counts, "further row": 4 * n_down})


def _product_s(pattern: Coordinates, n_dense_cols: int, schedule: Schedule) -> float:
    """Measure the seconds of one product with `n_dense_cols` columns by the kernels of `schedule`.

    Raises BuildError where there are none.
    """
    product = next(op for op in OPS.values() if op.operation == MATMUL.name)
    with context_for(pattern, dataclasses.replace(product, n_dense_cols=n_dense_cols)) as bench:
        trial = bench(schedule)
        bench.build([trial])
        if trial.failed is None:
            trial.pack()
        run = bench.runner(trial)
        if run is None:
            raise BuildError(f"no kernel to measure: {trial.failed}")

        def repeat(rounds: int) -> None:
            for _ in range(rounds):
                run()

        return seconds_each(repeat)
