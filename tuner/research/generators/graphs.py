"""Generators of graph patterns: heavy tails, recursive matrices, small worlds, communities, batches, uniform noise."""

from __future__ import annotations

import numpy as np
from autosparse.tuner.research.generators.coordinates import Coordinates, Ints
from autosparse.tuner.research.generators.meshes import shuffled

from autosparse.core.dtypes import WideIndex


def drawn_by_rank(rng: np.random.Generator, n: int, size: int, exponent: float) -> Ints:
    """Draw `size` numbers below n, number k with weight about ``(k + 1) ** -exponent``, by inverting the integral."""
    u = rng.random(size)
    if abs(exponent - 1.0) < 1e-6:
        ranks = np.exp(u * np.log(n)) - 1.0
    else:
        top = float(n) ** (1.0 - exponent)
        ranks = (1.0 + u * (top - 1.0)) ** (1.0 / (1.0 - exponent)) - 1.0
    found: Ints = np.minimum(ranks.astype(WideIndex), n - 1)
    return found


def power_law(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Draw rows and columns by rank with exponents 0 to 1.1; sorted by popularity or shuffled; maybe symmetric."""
    n = max(8, int(nnz / 2.0 ** rng.uniform(1.0, 7.0)))
    row_exponent, col_exponent = rng.uniform(0.0, 0.9), rng.uniform(0.3, 1.1)
    rows, cols = drawn_by_rank(rng, n, nnz, row_exponent), drawn_by_rank(rng, n, nnz, col_exponent)
    if rng.random() < 0.7:
        rows, cols = rng.permutation(n)[rows], rng.permutation(n)[cols]
    if rng.random() < 0.4:
        rows, cols = np.concatenate((rows, cols)), np.concatenate((cols, rows))
    return Coordinates.of((n, n), (rows, cols))


def rmat(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Generate an R-MAT graph (Chakrabarti, Zhan, Faloutsos 2004): quadrant weights draw each bit of a position."""
    n_bits = max(3, int(np.log2(max(8, nnz / 2.0 ** rng.uniform(1.5, 6.0)))))
    a, b = rng.uniform(0.3, 0.65), rng.uniform(0.1, 0.2)
    edges = np.array([a, a + b, a + 2 * b])
    rows, cols = np.zeros(nnz, WideIndex), np.zeros(nnz, WideIndex)
    for _ in range(n_bits):
        quadrant = np.searchsorted(edges, rng.random(nnz))
        rows, cols = rows * 2 + quadrant // 2, cols * 2 + quadrant % 2
    n = 1 << n_bits
    if rng.random() < 0.5:
        order = rng.permutation(n)
        rows, cols = order[rows], order[cols]
    return Coordinates.of((n, n), (rows, cols))


def small_world(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Generate a Watts-Strogatz (1998) ring of `k` neighbours, each edge rewired with probability 0.001 to 0.5."""
    k = int(rng.integers(2, 33))
    n = max(2 * k + 1, nnz // (2 * k))
    rows = np.repeat(np.arange(n), k)
    cols = (rows + np.tile(np.arange(1, k + 1), n)) % n
    rewired = rng.random(rows.size) < 10.0 ** rng.uniform(-3, -0.3)
    cols[rewired] = rng.integers(0, n, int(rewired.sum()))
    order = shuffled(rng, n, float(rng.choice([0.0, 0.0, 1.0])))
    rows, cols = order[rows], order[cols]
    return Coordinates.of((n, n), (np.concatenate((rows, cols)), np.concatenate((cols, rows))))


def community(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Generate groups of lognormal sizes with most edges inside a group, members adjacent or scattered."""
    n = max(16, int(nnz / 2.0 ** rng.uniform(2.0, 6.5)))
    n_groups = max(2, int(n / 2.0 ** rng.uniform(3.0, 9.0)))
    sizes = rng.lognormal(0.0, rng.uniform(0.2, 1.2), n_groups)
    bounds = np.concatenate(([0.0], np.cumsum(sizes / sizes.sum()))) * n
    rows = rng.integers(0, n, nnz)
    group = np.searchsorted(bounds, rows, side="right") - 1
    low, high = bounds[group], bounds[np.minimum(group + 1, n_groups)]
    cols = (low + rng.random(nnz) * (high - low)).astype(WideIndex)
    outside = rng.random(nnz) < 10.0 ** rng.uniform(-2.5, -0.3)
    cols[outside] = drawn_by_rank(rng, n, int(outside.sum()), rng.uniform(0.0, 0.8))
    order = shuffled(rng, n, float(rng.choice([0.0, 0.0, 0.1, 1.0])))
    return Coordinates.of((n, n), (order[rows], order[np.minimum(cols, n - 1)]))


def batch(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Generate many small graphs side by side, as for graph classification: cliques with a hub, random, rings."""
    kind, typical, spread = int(rng.integers(3)), 2.0 ** rng.uniform(3.0, 7.0), rng.uniform(0.0, 0.6)
    density, with_loops = 10.0 ** rng.uniform(-1.3, -0.1), rng.random() < 0.4
    rows: list[Ints] = []
    cols: list[Ints] = []
    found = n = 0
    while found < nnz:
        size = max(2, int(typical * rng.lognormal(0.0, spread)))
        own, other = (
            _cliques(rng, size) if kind == 0 else _pairs(rng, size, density) if kind == 1 else _rings(rng, size)
        )
        rows += [own + n, other + n]
        cols += [other + n, own + n]
        found += 2 * own.size + with_loops * size
        n += size
    loops = np.arange(n if with_loops else 0)
    return Coordinates.of((n, n), (np.concatenate((*rows, loops)), np.concatenate((*cols, loops))))


def _cliques(rng: np.random.Generator, size: int) -> tuple[Ints, Ints]:
    """Generate an ego network: one to five cliques, and one member connected to all."""
    group = rng.integers(0, rng.integers(1, 6), size)
    own, other = np.triu_indices(size, 1)
    known = (group[own] == group[other]) | (own == 0)
    return own[known], other[known]


def _pairs(rng: np.random.Generator, size: int, density: float) -> tuple[Ints, Ints]:
    """Generate an Erdos-Renyi (1959) graph: every pair is an edge with the same probability."""
    own, other = np.triu_indices(size, 1)
    known = rng.random(own.size) < density
    return own[known], other[known]


def _rings(rng: np.random.Generator, size: int) -> tuple[Ints, Ints]:
    """Generate a molecule-like graph: a tree of short edges with a few rings."""
    children = np.arange(1, size)
    parents = children - 1 - np.minimum(children - 1, rng.geometric(0.6, size - 1) - 1)
    ends = np.arange(5, size)[rng.random(max(0, size - 5)) < 0.1]
    return np.concatenate((children, ends)), np.concatenate((parents, ends - 5))


def uniform(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Generate independent uniform positions in a matrix up to 16 times wider or taller than square."""
    n_cells = nnz / 10.0 ** rng.uniform(-5.0, -1.0)
    aspect = 4.0 ** rng.uniform(-2.0, 2.0) if rng.random() < 0.5 else 1.0
    n_rows, n_cols = max(8, int(np.sqrt(n_cells * aspect))), max(8, int(np.sqrt(n_cells / aspect)))
    return Coordinates.of((n_rows, n_cols), (rng.integers(0, n_rows, nnz), rng.integers(0, n_cols, nnz)))
