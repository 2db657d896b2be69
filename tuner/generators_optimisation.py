"""Patterns of data tables and optimisation: bipartite, arrow, KKT, staircase constraints, hypersparse."""

from __future__ import annotations

import numpy as np
from autosparse.tuner.coordinates import Coordinates, Ints
from autosparse.tuner.generators_graphs import drawn_by_rank


def bipartite(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Many rows of like length over columns of unlike popularity, or the transpose of it."""
    per_row = 2.0 ** rng.uniform(1.0, 8.0)
    n_rows = max(8, int(nnz / per_row))
    n_cols = max(8, int(n_rows * 2.0 ** rng.uniform(-7.0, 1.0)))
    rows = drawn_by_rank(rng, n_rows, nnz, rng.uniform(0.0, 0.4))
    cols = drawn_by_rank(rng, n_cols, nnz, rng.uniform(0.4, 1.1))
    if rng.random() < 0.6:
        cols = rng.permutation(n_cols)[cols]
    rows = rng.permutation(n_rows)[rows]
    if rng.random() < 0.3:
        return Coordinates.of((n_cols, n_rows), (cols, rows))
    return Coordinates.of((n_rows, n_cols), (rows, cols))


def arrow(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Dense blocks along the diagonal, and a border of full rows and columns at the end or the beginning."""
    size = int(rng.integers(2, 33))
    border = int(rng.integers(1, 24))
    n_blocks = max(2, int(nnz / (size * size + 2 * border * size)))
    n = n_blocks * size + border
    inner, across = np.divmod(np.arange(size * size), size)
    starts = np.arange(n_blocks)[:, None] * size
    core_rows, core_cols = (starts + inner).ravel(), (starts + across).ravel()
    long, short = np.divmod(np.arange(n * border), border)
    edge = n - border + short
    kept = rng.random(long.size) < rng.choice([1.0, 0.5, 0.1])
    long, edge = long[kept], edge[kept]
    rows, cols = np.concatenate((core_rows, long, edge)), np.concatenate((core_cols, edge, long))
    if rng.random() < 0.3:  # the border first
        rows, cols = n - 1 - rows, n - 1 - cols
    return Coordinates.of((n, n), (rows, cols))


def _scattered(rng: np.random.Generator, n_rows: int, n_cols: int, nnz: int) -> tuple[Ints, Ints]:
    """Rows of a few entries each, clustered along the diagonal as variables of one stage are."""
    rows = rng.integers(0, n_rows, nnz)
    spread = max(2.0, n_cols * 10.0 ** rng.uniform(-3.0, -0.3))
    cols = rows * (n_cols / n_rows) + rng.normal(0.0, spread, nnz)
    return rows, np.clip(cols.astype(np.int64), 0, n_cols - 1)


def kkt(rng: np.random.Generator, nnz: int) -> Coordinates:
    """A Hessian (diagonal or banded), constraints and their transpose, an empty or diagonal corner."""
    n = max(8, int(nnz / rng.uniform(4.0, 16.0)))
    m = max(4, int(n * rng.uniform(0.1, 0.9)))
    band = int(rng.choice([0, 0, 1, 4, 12]))
    h_rows = np.repeat(np.arange(n), 2 * band + 1)
    h_cols = (np.arange(n)[:, None] + np.arange(-band, band + 1)).ravel()
    inside = (h_cols >= 0) & (h_cols < n)
    a_rows, a_cols = _scattered(rng, m, n, max(m, (nnz - int(inside.sum())) // 2))
    corner = np.arange(m) if rng.random() < 0.5 else np.zeros(0, np.int64)
    rows = np.concatenate((h_rows[inside], n + a_rows, a_cols, n + corner))
    cols = np.concatenate((h_cols[inside], a_cols, n + a_rows, n + corner))
    return Coordinates.of((n + m, n + m), (rows, cols))


def constraints(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Staircase of stages, slack columns, and up to a dozen rows over most variables."""
    n_rows = max(8, int(nnz / rng.uniform(3.0, 20.0)))
    n_cols = max(8, int(n_rows * rng.uniform(0.5, 6.0)))
    n_dense = int(rng.integers(0, 13))
    dense_share = 10.0 ** rng.uniform(-2.0, 0.0)
    per_dense = min(n_cols, int(n_cols * dense_share), nnz // (2 * max(1, n_dense)))
    rows, cols = _scattered(rng, n_rows, n_cols, max(16, nnz - n_rows - n_dense * per_dense))
    wide_rows = np.repeat(rng.integers(0, n_rows, n_dense), per_dense)
    wide_cols = rng.integers(0, n_cols, n_dense * per_dense)
    slack = np.arange(n_rows)
    all_rows = np.concatenate((rows, wide_rows, slack))
    all_cols = np.concatenate((cols, wide_cols, n_cols + slack))
    return Coordinates.of((n_rows, n_cols + n_rows), (all_rows, all_cols))


def hypersparse(rng: np.random.Generator, nnz: int) -> Coordinates:
    """2 to 30 times more rows than entries; entries alone, or many in the few rows that have some."""
    n_rows = max(64, int(nnz * 2.0 ** rng.uniform(1.0, 5.0)))
    n_cols = max(64, int(n_rows * 4.0 ** rng.uniform(-2.0, 0.5)))
    n_used = max(4, int(nnz / 2.0 ** rng.uniform(0.0, 7.0)))
    used = np.unique(rng.integers(0, n_rows, n_used))
    rows = used[drawn_by_rank(rng, used.size, nnz, rng.uniform(0.0, 0.8))]
    return Coordinates.of((n_rows, n_cols), (rows, rng.integers(0, n_cols, nnz)))
