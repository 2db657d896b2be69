"""Generators of patterns of data tables and optimisation: bipartite, arrow, KKT, control, constraints, hypersparse."""

from __future__ import annotations

import numpy as np
from autosparse.tuner.research.generators.coordinates import Coordinates, Ints
from autosparse.tuner.research.generators.graphs import drawn_by_rank

from autosparse.core.dtypes import WideIndex


def bipartite(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Generate many rows of similar length over columns of unequal popularity, or the transpose."""
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
    """Generate dense diagonal blocks with a border of full rows and columns at the end or the beginning."""
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
    if rng.random() < 0.3:  # the border comes first
        rows, cols = n - 1 - rows, n - 1 - cols
    return Coordinates.of((n, n), (rows, cols))


def _scattered(rng: np.random.Generator, n_rows: int, n_cols: int, nnz: int) -> tuple[Ints, Ints]:
    """Draw `n_rows` short rows whose entries cluster around the diagonal, like the variables of one stage."""
    rows = rng.integers(0, n_rows, nnz)
    spread = max(2.0, n_cols * 10.0 ** rng.uniform(-3.0, -0.3))
    cols = rows * (n_cols / n_rows) + rng.normal(0.0, spread, nnz)
    return rows, np.clip(cols.astype(WideIndex), 0, n_cols - 1)


def kkt(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Generate a KKT matrix: Hessian (diagonal or banded), constraints and transpose, empty or diagonal corner."""
    n = max(8, int(nnz / rng.uniform(4.0, 16.0)))
    m = max(4, int(n * rng.uniform(0.1, 0.9)))
    band = int(rng.choice([0, 0, 1, 4, 12]))
    h_rows = np.repeat(np.arange(n), 2 * band + 1)
    h_cols = (np.arange(n)[:, None] + np.arange(-band, band + 1)).ravel()
    inside = (h_cols >= 0) & (h_cols < n)
    a_rows, a_cols = _scattered(rng, m, n, max(m, (nnz - int(inside.sum())) // 2))
    corner = np.arange(m) if rng.random() < 0.5 else np.zeros(0, WideIndex)
    rows = np.concatenate((h_rows[inside], n + a_rows, a_cols, n + corner))
    cols = np.concatenate((h_cols[inside], a_cols, n + a_rows, n + corner))
    return Coordinates.of((n + m, n + m), (rows, cols))


def _dynamics(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Generate stage constraints x[t+1] = A x[t] + B u[t], A dense or bidiagonal, or differences of order k."""
    if rng.random() < 0.3:
        order = int(rng.integers(1, 6))
        n = max(order + 2, nnz // (order + 1))
        rows = np.repeat(np.arange(n - order), order + 1)
        return Coordinates.of((n - order, n), (rows, rows + np.tile(np.arange(order + 1), n - order)))
    n_states, n_controls = int(rng.integers(1, 9)), int(rng.integers(1, 5))
    is_dense = rng.random() < 0.5
    state, other = np.divmod(np.arange(n_states * n_states), n_states)
    kept = np.flatnonzero(is_dense | (state == other) | (state + 1 == other))
    inner_rows = np.concatenate((state[kept], np.arange(n_states), np.repeat(np.arange(n_states), n_controls)))
    at_controls = n_states + np.tile(np.arange(n_controls), n_states)
    width = n_states + n_controls
    inner_cols = np.concatenate((other[kept], width + np.arange(n_states), at_controls))
    n_stages = max(2, nnz // inner_rows.size)
    stage = np.arange(n_stages)[:, None]
    rows, cols = (stage * n_states + inner_rows).ravel(), (stage * width + inner_cols).ravel()
    shape = (n_stages * n_states, n_stages * width + n_states)
    if rng.random() < 0.4:  # all states come first, then all controls
        place = np.arange(shape[1])
        stage_of, inner = np.divmod(place, width)
        n_all = (n_stages + 1) * n_states
        cols = np.where(
            inner < n_states, stage_of * n_states + inner, n_all + stage_of * n_controls + inner - n_states
        )[cols]
    return Coordinates.of(shape, (rows, cols))


def _state_equation(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Generate constraints of a discretised equation on a 2-D grid: one row per point.

    Its columns are a stencil of states, and controls, everywhere or on the border only.
    """
    is_box, everywhere = rng.random() < 0.3, rng.random() < 0.5
    offsets = [(i, k) for i in (-1, 0, 1) for k in (-1, 0, 1) if is_box or abs(i) + abs(k) <= 1]
    n_points = max(9, nnz // (len(offsets) + everywhere))
    side = max(3, int(np.sqrt(n_points * 2.0 ** rng.uniform(-1.5, 1.5))))
    sides = (side, max(3, n_points // side))
    n = sides[0] * sides[1]
    i, k = np.divmod(np.arange(n), sides[1])
    rows, cols = [], []
    for down, across in offsets:
        inside = (i + down >= 0) & (i + down < sides[0]) & (k + across >= 0) & (k + across < sides[1])
        rows.append(np.flatnonzero(inside))
        cols.append(((i + down) * sides[1] + k + across)[inside])
    on_border = np.flatnonzero((i == 0) | (i == sides[0] - 1) | (k == 0) | (k == sides[1] - 1))
    controlled = np.arange(n) if everywhere else on_border
    rows.append(controlled)
    cols.append(n + np.arange(controlled.size))
    return Coordinates.of((n, n + controlled.size), (np.concatenate(rows), np.concatenate(cols)))


def control(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Generate optimal-control constraints of a chain of stages or of a grid, or their KKT system.

    The Hessian of the KKT system is diagonal, couples neighbours, or covers only some of the variables.
    """
    is_system = rng.random() < 0.7
    make = _dynamics if rng.random() < 0.5 else _state_equation
    found = make(rng, int(nnz / rng.uniform(2.1, 3.0)) if is_system else nnz)
    if not is_system:
        return found
    (m, n), (a_rows, a_cols) = found.shape, found.indices
    kind = int(rng.integers(3))
    known = np.flatnonzero(rng.random(n) < 0.5) if kind == 2 else np.arange(n)
    near = np.arange(n - 1) if kind == 1 else np.zeros(0, WideIndex)
    corner = np.arange(m) if rng.random() < 0.3 else np.zeros(0, WideIndex)
    rows = np.concatenate((known, near, near + 1, n + a_rows, a_cols, n + corner))
    cols = np.concatenate((known, near + 1, near, a_cols, n + a_rows, n + corner))
    return Coordinates.of((n + m, n + m), (rows, cols))


def constraints(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Generate linear-program constraints: a staircase of stages, slack columns, and up to 12 long rows."""
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
    """Generate a matrix with 2 to 32 times more rows than entries; entries are isolated or clustered in few rows."""
    n_rows = max(64, int(nnz * 2.0 ** rng.uniform(1.0, 5.0)))
    n_cols = max(64, int(n_rows * 4.0 ** rng.uniform(-2.0, 0.5)))
    n_used = max(4, int(nnz / 2.0 ** rng.uniform(0.0, 7.0)))
    used = np.unique(rng.integers(0, n_rows, n_used))
    rows = used[drawn_by_rank(rng, used.size, nnz, rng.uniform(0.0, 0.8))]
    return Coordinates.of((n_rows, n_cols), (rows, rng.integers(0, n_cols, nnz)))
