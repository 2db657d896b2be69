"""Families of synthetic patterns that resemble sparse matrices and tensors from applications.

A row of `FAMILIES` turns a random generator and a target number of nonzeros into Coordinates. Draws of a family vary in
shape, density and order, so that a model cannot identify the family by its size. Equal seeds give equal patterns
(NumPy's PCG64); raise GENERATOR_VERSION when a family changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from autosparse.tuner.research.generators import graphs, meshes, optimisation, tensors
from autosparse.tuner.research.generators.coordinates import Coordinates

GENERATOR_VERSION: Final = 1

Generator = Callable[[np.random.Generator, int], Coordinates]


@dataclass(frozen=True, slots=True)
class PatternFamily:
    """A generator of patterns with about `nnz` entries: ``make(rng, nnz)``."""

    name: str
    make: Generator
    n_dims: int
    what: str


FAMILIES: Final[Mapping[str, PatternFamily]] = {
    row.name: row
    for row in (
        PatternFamily(
            "stencil", meshes.stencil, 2, "finite differences on a 2-D or 3-D grid, one or more unknowns per point"
        ),
        PatternFamily(
            "mesh", meshes.mesh, 2, "nearest neighbours of random points: finite elements, natural or mixed order"
        ),
        PatternFamily("banded", meshes.banded, 2, "entries within a band, dense or not, or on a few diagonals"),
        PatternFamily("blocks", meshes.blocks, 2, "small dense blocks at random places, aligned or not"),
        PatternFamily("power_law", graphs.power_law, 2, "row and column degrees with heavy tails"),
        PatternFamily("rmat", graphs.rmat, 2, "recursive matrix (Kronecker) graphs"),
        PatternFamily("small_world", graphs.small_world, 2, "a ring of neighbours, some edges rewired"),
        PatternFamily("community", graphs.community, 2, "groups of unlike size, dense inside, sparse between"),
        PatternFamily("batch", graphs.batch, 2, "many small graphs side by side"),
        PatternFamily("uniform", graphs.uniform, 2, "every cell alike; rectangular ones too"),
        PatternFamily("bipartite", optimisation.bipartite, 2, "ratings and bags of words: few popular columns"),
        PatternFamily("arrow", optimisation.arrow, 2, "block diagonal with dense borders"),
        PatternFamily("kkt", optimisation.kkt, 2, "saddle points [[H, A'], [A, 0]]"),
        PatternFamily(
            "control", optimisation.control, 2, "optimal control: stages or a grid, constraints or KKT systems"
        ),
        PatternFamily("constraints", optimisation.constraints, 2, "linear programs: staircase, a few dense rows"),
        PatternFamily("hypersparse", optimisation.hypersparse, 2, "far fewer entries than rows"),
        PatternFamily("tensor_uniform", tensors.uniform, 3, "every cell of a tensor alike"),
        PatternFamily("tensor_power_law", tensors.power_law, 3, "popular slices in each mode"),
        PatternFamily("tensor_temporal", tensors.temporal, 3, "a graph that repeats over time with changes"),
        PatternFamily("tensor_blocks", tensors.blocks, 3, "dense bricks at random places"),
    )
}


def generate(family: str, *, nnz: int, seed: int) -> Coordinates:
    """Return the pattern of `family` for this seed, with about `nnz` entries; repeated draws of a position coincide.

    Raises KeyError when there is no such family.
    """
    row = FAMILIES[family]
    rng = np.random.default_rng([GENERATOR_VERSION, seed & (1 << 63) - 1, sum(map(ord, family))])
    return row.make(rng, max(16, int(nnz)))
