"""Tests that MinkowskiEngine and our convolution are one network: names, numbers and gradients agree within 1e-4."""

from __future__ import annotations

import pytest

from tests.tuner.research.networks.samples import pattern, torch

from autosparse.errors import MissingExtraError, OptionError  # isort: skip
from autosparse.tuner.research.networks import cost_model, waconet  # isort: skip
from autosparse.tuner.research.networks.convolution import open_backend  # isort: skip


@pytest.fixture(scope="module", autouse=True)
def _engine():
    try:
        open_backend("minkowski")
    except MissingExtraError as error:
        pytest.skip(f"MinkowskiEngine is not installed: {error}")


def both(name, dimension):
    """Return the same network from both backends, with the same weights."""
    torch.manual_seed(7)
    ours = cost_model.make_extractor(name, dimension, "own")
    theirs = cost_model.make_extractor(name, dimension, "minkowski")
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("name", ["waconet", "minkowski"])
@pytest.mark.parametrize("n", [1, 40, 3000])
def test_embeddings_and_gradients_agree(name, dimension, n):
    ours, theirs = both(name, dimension)
    seen = pattern(n, (300, 200, 100)[:dimension], seed=n)
    upper = torch.randn(1, 128, generator=torch.Generator().manual_seed(1))
    embeddings = [one(one.prepare(seen)) for one in (ours, theirs)]
    torch.testing.assert_close(*embeddings, rtol=1e-4, atol=1e-4)
    for embedding in embeddings:
        embedding.backward(upper)
    gradients = dict(theirs.named_parameters())
    for weight_name, weight in ours.named_parameters():
        torch.testing.assert_close(weight.grad, gradients[weight_name].grad, rtol=1e-4, atol=1e-4)


def test_every_layer_agrees_cell_by_cell():
    ours, theirs = both("waconet", 2)
    seen = pattern(2000, (300, 200)).shape, pattern(2000, (300, 200))
    grid = waconet.lattice_of(seen[1])
    for depth, (one, other) in enumerate(zip(ours.layers_of(grid), theirs.layers_of(grid), strict=True)):
        scale = 1 << depth  # MinkowskiEngine's coordinates are multiples of the stride
        rows = {tuple(at): n for n, at in enumerate((other.C[:, 1:] // scale).tolist())}
        order = [rows[tuple(at)] for at in one.lattice.coordinates.tolist()]
        torch.testing.assert_close(one.values, other.F[order], rtol=1e-4, atol=1e-4)


def test_unknown_backend():
    with pytest.raises(OptionError, match="own, minkowski"):
        open_backend("spconv")
