"""Cells, features and a plain convolution for comparison."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra: train)")

from autosparse.tuner.research.generators.coordinates import Coordinates  # noqa: E402
from autosparse.tuner.research.networks.lattice import Lattice  # noqa: E402

DENSE_CONVOLUTIONS = {1: torch.nn.functional.conv1d, 2: torch.nn.functional.conv2d, 3: torch.nn.functional.conv3d}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Run torch on one thread, because several threads wait for each other on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def cells(n, extents, seed=0):
    """Return `n` random cells in no order, some of them repeated, as an array (n, D)."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, extent, n) for extent in extents], axis=1)


def lattice(n, extents, seed=0):
    return Lattice.of(cells(n, extents, seed), extents)


def pattern(n=400, extents=(60, 50), seed=0):
    return Coordinates.of(extents, list(cells(n, extents, seed).T))


def dense_convolution(grid, values, kernel, kernel_size, stride):
    """Return the convolution of the whole grid, zeros included, at the coarser cells: (n coarser, channels)."""
    at = grid.coordinates
    n_dims, n_in = at.shape[1], values.shape[1]
    extents = [int(extent) + 1 for extent in at.max(dim=0).values]
    image = torch.zeros(*extents, n_in).index_put(tuple(at.T), values).movedim(-1, 0)[None]
    weight = kernel.view(*[kernel_size] * n_dims, n_in, -1).permute(n_dims + 1, n_dims, *reversed(range(n_dims)))
    before = kernel_size // 2 if kernel_size % 2 else 0
    image = torch.nn.functional.pad(image, [before, kernel_size] * n_dims)
    out = DENSE_CONVOLUTIONS[n_dims](image, weight, stride=stride)[0].movedim(0, -1)
    return out[tuple(torch.unique(at // stride, dim=0).T)]
