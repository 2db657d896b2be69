"""Tests that every extractor embeds every pattern, learns, and does not depend on the order of nonzeros."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tuner.research.networks.samples import pattern, torch

from autosparse.errors import OptionError  # isort: skip
from autosparse.tuner.research.generators.coordinates import Coordinates  # isort: skip
from autosparse.tuner.research.generators.base import generate  # isort: skip
from autosparse.tuner.research.networks.extractor import IMAGE_SIZE, images  # isort: skip
from autosparse.tuner.research.networks.cost_model import EXTRACTORS, NetworkCostModel, make_extractor  # isort: skip
from autosparse.tuner.research.networks.cost_model import ProgramEmbedder, flat_codes, permutation_matrices  # isort: skip
from autosparse.tuner.space.template import Categorical, Permutation  # isort: skip

PARAMETERS = (Categorical("train", (1, 2, 4)), Permutation("order", ("i", "j", "k")), Categorical("keys", ("C", "U")))


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("name", EXTRACTORS)
def test_embeddings_have_the_expected_shape_and_gradients(name, dimension):
    extractor = make_extractor(name, dimension)
    for shape, n in (((1, 1, 1), 1), ((70, 3, 40), 50), ((5, 900, 2), 300)):
        seen = pattern(n, shape[:dimension])
        out = extractor(extractor.prepare(seen))
        assert out.shape == (1, 128)
        assert torch.isfinite(out).all()
    out.square().sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in extractor.parameters())
    assert any(weight.grad.abs().max() > 0 for weight in extractor.parameters())


@pytest.mark.parametrize("name", sorted(set(EXTRACTORS) - {"human"}))
def test_patterns_of_equal_size_are_told_apart(name):
    """Compare a band with a scattered pattern of equal shape and size; simple statistics cannot distinguish them."""
    rows = np.repeat(np.arange(500), 4)
    band = Coordinates.of((500, 600), [rows, rows + np.tile(np.arange(4), 500)])
    scattered = Coordinates.of((500, 600), [rows, (rows * 37 + np.tile([0, 151, 307, 449], 500)) % 600])
    assert band.nnz == scattered.nnz
    extractor = make_extractor(name, 2)
    one, other = (extractor(extractor.prepare(seen)) for seen in (band, scattered))
    assert (one - other).abs().max() > 1e-5
    human = make_extractor("human", 2)
    assert torch.equal(human(human.prepare(band)), human(human.prepare(scattered)))


def test_images_hold_every_nonzero():
    seen = pattern(3000, (1000, 77, 500))
    pictures = images(seen)
    assert pictures.shape == (3, IMAGE_SIZE, IMAGE_SIZE)
    np.testing.assert_allclose(np.expm1(pictures.astype(np.float64)).sum(axis=(1, 2)), seen.nnz, rtol=1e-5)


def test_invalid_extractor_arguments_are_refused():
    with pytest.raises(OptionError, match="waconet"):
        make_extractor("resnet", 2)
    with pytest.raises(ValueError, match="3 dimensions for a network of 2"):
        make_extractor("human", 2).prepare(pattern(5, (4, 4, 4)))


def test_permutations_enter_as_matrices():
    matrices = permutation_matrices(torch.tensor([[2, 0, 1], [-1, -1, -1]]))
    assert matrices[0].view(3, 3).tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    assert matrices[1].abs().sum() == 0


def test_programs_are_embedded_by_their_codes():
    """Check parameter names that are also names of methods of containers."""
    codes = [(0, (0, 1, 2), 1), (2, (2, 1, 0), 0), (0, (0, 1, 2), 1)]
    rows = flat_codes(codes, PARAMETERS)
    assert rows.tolist() == [[0, 0, 1, 2, 1], [2, 2, 1, 0, 0], [0, 0, 1, 2, 1]]
    embedded = ProgramEmbedder(PARAMETERS)(torch.from_numpy(rows))
    assert embedded.shape == (3, 128)
    assert torch.equal(embedded[0], embedded[2])
    assert not torch.equal(embedded[0], embedded[1])


def test_costs_from_kept_embeddings_are_those_of_the_whole_model():
    model = NetworkCostModel(make_extractor("statistics", 2), ProgramEmbedder(PARAMETERS))
    observed = model.extractor.prepare(pattern())
    codes = torch.from_numpy(flat_codes([(0, (0, 1, 2), 1), (2, (2, 1, 0), 0)], PARAMETERS))
    kept = model.predict(model.extractor(observed), model.program(codes))
    torch.testing.assert_close(model(observed, codes), kept)
    copy = NetworkCostModel(make_extractor("statistics", 2), ProgramEmbedder(PARAMETERS))
    copy.load_weights(model.weights())
    assert torch.equal(copy(observed, codes), model(observed, codes))


@pytest.mark.parametrize("family", ["mesh", "uniform", "banded", "rmat"])
def test_untrained_networks_hear_something_in_every_layer(family):
    """Check that the output of each of fourteen layers is large enough to learn from."""
    torch.manual_seed(0)
    network = make_extractor("waconet", 2)
    with torch.no_grad():
        described = network.describe(network.observe(generate(family, nnz=20_000, seed=2)))
    assert (described.view(14, 32).abs().mean(dim=1) > 1e-4).all()
