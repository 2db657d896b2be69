"""Tests that the weights published by WACO's authors load into this network, in either backend."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import REPOSITORY
from tests.tuner.research.networks.samples import pattern, torch

from autosparse.errors import MissingExtraError  # isort: skip
from autosparse.tuner.research.networks.convolution import open_backend  # isort: skip
from autosparse.tuner.research.networks.cost_model import flat_codes  # isort: skip
from autosparse.tuner.research.networks.published import PUBLISHED, published_model, read_published  # isort: skip

FOLDER = Path(os.environ.get("AUTOSPARSE_WACO") or REPOSITORY.parent / "shared" / "waco")


def published_file(algorithm):
    path = FOLDER / f"{algorithm}.npz"
    if not path.exists():
        pytest.skip("no published weights: set AUTOSPARSE_WACO to the folder of SpMV.npz, SpMM.npz, SDDMM.npz")
    return path


def drawn_codes(algorithm, n=5):
    rng = np.random.default_rng(3)
    parameters = PUBLISHED[algorithm]
    codes = [tuple(parameter.code(parameter.draw(rng)) for parameter in parameters) for _ in range(n)]
    return torch.from_numpy(flat_codes(codes, parameters))


@pytest.mark.parametrize("algorithm", PUBLISHED)
def test_every_array_has_its_place(algorithm):
    path = published_file(algorithm)
    model = read_published(path)
    with np.load(path) as file:
        assert model.weights().keys() == set(file.files)
        for name, value in model.weights().items():
            np.testing.assert_array_equal(value, file[name])
    with torch.no_grad():
        costs = model(model.extractor.prepare(pattern()), drawn_codes(algorithm))
    assert costs.shape == (5,)
    assert torch.isfinite(costs).all()
    assert costs.unique().numel() == 5


@pytest.mark.parametrize("algorithm", PUBLISHED)
def test_both_backends_predict_alike(algorithm):
    try:
        open_backend("minkowski")
    except MissingExtraError as error:
        pytest.skip(f"MinkowskiEngine is not installed: {error}")
    path = published_file(algorithm)
    codes = drawn_codes(algorithm)
    costs = []
    for backend in ("own", "minkowski"):
        model = read_published(path, backend=backend)
        with torch.no_grad():
            costs.append(model(model.extractor.prepare(pattern(3000, (400, 300))), codes))
    torch.testing.assert_close(*costs, rtol=1e-4, atol=1e-4)


def test_weights_of_another_model_are_refused():
    weights = published_model("SpMV").weights()
    other = published_model("SpMM")
    with pytest.raises(KeyError, match="jsplit"):
        other.load_weights(weights)
    weights["final.4.bias"] = np.zeros(2, np.float32)
    with pytest.raises(ValueError, match=r"final\.4\.bias has shape"):
        published_model("SpMV").load_weights(weights)
