"""Tests that sparse convolution equals the dense one at the occupied cells, with gradients, in any dimension."""

from __future__ import annotations

import numpy as np
import pytest

from tests.covering import covering
from tests.tuner.research.networks.samples import cells, dense_convolution, lattice, torch

from autosparse.tuner.research.networks import convolution  # isort: skip
from autosparse.tuner.research.networks.convolution import SparseConvolution, SparseFeatures, global_average  # isort: skip
from autosparse.tuner.research.networks.lattice import Lattice  # isort: skip

EXTENTS = {1: (40,), 2: (13, 9), 3: (8, 7, 6)}


@covering(
    dimension=EXTENTS,
    n_in=[1, 6],
    way=["offset by offset", "in one product"],
    kernel_size=[1, 2, 3, 4, 5],
    stride=[1, 2, 3],
    n=[1, 30, 200],
)
def test_convolution_and_its_gradients_equal_the_dense_ones(dimension, n_in, way, kernel_size, stride, n, monkeypatch):
    monkeypatch.setattr(convolution, "FEW_NUMBERS", 0 if way == "offset by offset" else 1 << 30)
    torch.manual_seed(dimension)
    grid = lattice(n, EXTENTS[dimension], seed=n)
    layer = SparseConvolution(n_in, 5, kernel_size=kernel_size, stride=stride, dimension=dimension)
    values = torch.randn(len(grid), n_in, requires_grad=True)
    out = layer(SparseFeatures(grid, values))
    want = dense_convolution(grid, values, layer.kernel, kernel_size, stride)
    torch.testing.assert_close(out.values, want, rtol=1e-4, atol=1e-5)
    upper = torch.randn_like(want)
    got_gradients = torch.autograd.grad(out.values, [values, layer.kernel], upper)
    want_gradients = torch.autograd.grad(want, [values, layer.kernel], upper)
    for got_one, want_one in zip(got_gradients, want_gradients, strict=True):
        torch.testing.assert_close(got_one, want_one, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dimension", EXTENTS)
def test_a_lattice_is_the_sorted_set_of_its_cells(dimension):
    extents = EXTENTS[dimension]
    for n in (0, 1, 50, 300):
        drawn = cells(n, extents, seed=n)
        grid = Lattice.of(drawn, extents)
        np.testing.assert_array_equal(grid.coordinates.numpy(), np.unique(drawn, axis=0))
        for stride in (2, 3, 1):
            coarser = grid.coarser(stride)
            np.testing.assert_array_equal(coarser.coordinates.numpy(), np.unique(drawn // stride, axis=0))
        again = Lattice.of(grid.coordinates.flip(0), extents)
        assert torch.equal(again.keys, grid.keys)


def test_no_cells_give_no_result_and_a_mean_of_zero():
    grid = lattice(0, (5, 5))
    out = SparseConvolution(3, 4, kernel_size=3, stride=2)(SparseFeatures(grid, torch.ones(0, 3)))
    assert out.values.shape == (0, 4)
    assert torch.equal(global_average(out), torch.zeros(1, 4))


def test_grids_beyond_what_a_64_bit_number_can_count():
    """Check a grid of 2**90 cells, whose numbers no integer holds: cells are distinguished by their row."""
    extents = (1 << 30,) * 3
    near = cells(60, (12, 9, 7))
    shift = np.array([(1 << 30) - 12, 5 << 20, (1 << 30) - 8])  # a multiple of 4: strides fall on the same cells
    small, large = Lattice.of(near, (12, 9, 7)), Lattice.of(near + shift, extents)
    for stride, kernel_size in ((1, 3), (2, 3), (4, 5)):
        one, other = small.kernel_map(kernel_size, stride), large.kernel_map(kernel_size, stride)
        assert one.starts == other.starts
        assert torch.equal(one.inputs, other.inputs)
        assert torch.equal(one.outputs, other.outputs)


def test_every_cell_meets_itself():
    """Check many cells in a wide grid, with keys beyond 32 bits."""
    grid = lattice(20_000, (100_000, 1_000_000))
    pairs = grid.kernel_map(3, 1)
    assert pairs.starts[5] - pairs.starts[4] == len(grid)


def test_invalid_layer_arguments_are_refused():
    with pytest.raises(ValueError, match="kernel_size=9"):
        lattice(3, (5, 5)).kernel_map(9, 1)
    with pytest.raises(ValueError, match="3 dimensions for a kernel of 2"):
        SparseConvolution(1, 1, kernel_size=3)(SparseFeatures(lattice(3, (5, 5, 5)), torch.ones(3, 1)))


@pytest.mark.parametrize("dimension", EXTENTS)
def test_a_pattern_as_input_needs_only_its_distinct_neighbourhoods(dimension):
    """Check that implicit ones give the results and gradients of explicit ones."""
    grid = lattice(200, EXTENTS[dimension])
    layer = SparseConvolution(1, 4, kernel_size=5, dimension=dimension)
    ones = SparseFeatures.ones(grid)
    outs = [layer(one).values for one in (ones, SparseFeatures(grid, ones.values))]
    torch.testing.assert_close(*outs)
    upper = torch.randn_like(outs[0])
    torch.testing.assert_close(*(torch.autograd.grad(out, layer.kernel, upper)[0] for out in outs))
    band = Lattice.of(np.stack([np.arange(1000)] * 2, axis=1), (1000, 1000))
    assert len(band.occupancy(5).neighbours) == 5


def test_maps_are_made_once_and_counted():
    grid = lattice(50, (9, 9))
    before = grid.n_bytes
    assert grid.kernel_map(3, 2) is grid.kernel_map(3, 2)
    assert grid.coarser(2) is grid.coarser(2)
    assert grid.n_bytes > before
