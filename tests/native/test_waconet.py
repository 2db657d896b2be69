"""Tests of WACONet in C against a dense reference in NumPy, and against PyTorch where it is installed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from autosparse._native import runtime_api
from autosparse._native.inference.waconet import ConvolutionWeights, pooled_means
from autosparse.tuner.research.generators.base import generate
from autosparse.tuner.research.generators.coordinates import Coordinates

from autosparse.isa import ISAS, isas_of

CHANNELS = 32


def random_weights(n_dims: int, n_layers: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = [(5**n_dims, 1, CHANNELS)] + [(3**n_dims, CHANNELS, CHANNELS)] * (n_layers - 1)
    return {
        f"layer{at}.0.kernel": rng.normal(0.0, np.sqrt(2.0 / shape[0] / shape[1]), shape).astype(np.float32)
        for at, shape in enumerate(shapes, start=1)
    }


def dense_reference(pattern: Coordinates, weights: dict[str, np.ndarray]) -> np.ndarray:
    """Return the result by definition, cell by cell, on dense arrays in double precision."""
    n_dims = len(pattern.shape)
    occupied = np.zeros(pattern.shape, bool)
    occupied[pattern.indices] = True
    values = occupied[..., None].astype(np.float64)
    pooled = []
    for at in range(1, len(weights) + 1):
        kernel = weights[f"layer{at}.0.kernel"].astype(np.float64)
        size, stride = (5, 1) if at == 1 else (3, 2)
        coarse = np.zeros([-(-extent // stride) for extent in occupied.shape], bool)
        coarse[tuple(axis // stride for axis in np.nonzero(occupied))] = True
        results = np.zeros((*coarse.shape, CHANNELS))
        for cell in zip(*np.nonzero(coarse), strict=True):
            for steps in itertools.product(range(size), repeat=n_dims):
                place = tuple(c * stride + step - size // 2 for c, step in zip(cell, steps, strict=True))
                inside = all(0 <= p < extent for p, extent in zip(place, occupied.shape, strict=True))
                if inside and occupied[place]:
                    offset = sum(step * size**axis for axis, step in enumerate(steps))  # the first axis is fastest
                    results[cell] += values[place] @ kernel[offset]
        values, occupied = np.maximum(results, 0.0), coarse
        pooled.append(values[occupied].mean(axis=0))
    return np.concatenate(pooled)


PATTERNS = {
    "random": Coordinates.of((19, 23), np.random.default_rng(0).integers(0, 19, (2, 90))),
    "full": Coordinates.of((7, 9), np.nonzero(np.ones((7, 9)))),
    "one": Coordinates.of((40, 40), (np.array([17]), np.array([33]))),
    "row": Coordinates.of((3, 50), (np.full(50, 1), np.arange(50))),
    "column": Coordinates.of((50, 3), (np.arange(50), np.full(50, 2))),
    "corners": Coordinates.of((33, 65), (np.array([0, 0, 32, 32]), np.array([0, 64, 0, 64]))),
    "tensor": Coordinates.of((9, 11, 13), np.random.default_rng(1).integers(0, 9, (3, 120))),
    "fibre": Coordinates.of((5, 5, 40), (np.full(40, 4), np.full(40, 1), np.arange(40))),
}


@pytest.fixture(params=[row.name for row in isas_of()])
def isa(request):
    """Force each instruction set that this machine has."""
    wanted = ISAS[request.param].level
    if runtime_api.lib.asp_best_isa() < wanted:
        pytest.skip(f"this machine has no {request.param}")
    runtime_api.lib.asp_force_isa(wanted)
    yield request.param
    runtime_api.lib.asp_force_isa(-1)


@pytest.mark.parametrize("name", PATTERNS)
def test_equal_to_the_definition(name, isa):
    pattern = PATTERNS[name]
    weights = random_weights(len(pattern.shape), 5)
    found = pooled_means(pattern.indices, ConvolutionWeights.of(weights), threads=2)
    np.testing.assert_allclose(found, dense_reference(pattern, weights), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", ["mesh", "power_law", "hypersparse", "arrow", "tensor_temporal"])
def test_same_bits_on_any_number_of_threads(family):
    pattern = generate(family, nnz=20_000, seed=3)
    weights = ConvolutionWeights.of(random_weights(len(pattern.shape), 14))
    one = pooled_means(pattern.indices, weights, threads=1)
    assert np.isfinite(one).all()
    assert np.array_equal(one, pooled_means(pattern.indices, weights, threads=4))


@pytest.mark.parametrize("family", ["mesh", "rmat", "hypersparse", "bipartite", "tensor_power_law", "tensor_temporal"])
def test_equal_to_pytorch(family):
    torch = pytest.importorskip("torch")
    from autosparse.tuner.research.networks.waconet import WACONet

    pattern = generate(family, nnz=1_500, seed=5)
    torch.manual_seed(1)
    network = WACONet(len(pattern.shape)).eval()
    with torch.no_grad():
        expected = network.describe(network.prepare(pattern).seen).numpy()[0]
    weights = {name: value.numpy() for name, value in network.state_dict().items()}
    found = pooled_means(pattern.indices, ConvolutionWeights.of(weights), threads=2)
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-4)


def test_no_cells_give_zeros():
    empty = [np.zeros(0, np.int32)] * 2
    assert not pooled_means(empty, ConvolutionWeights.of(random_weights(2, 3)), threads=1).any()


def test_wrong_patterns_and_weights_are_refused():
    weights = ConvolutionWeights.of(random_weights(2, 3))
    one = np.zeros(1, np.int32)
    with pytest.raises(ValueError, match="3 dimensions for weights of 2"):
        pooled_means([one, one, one], weights, threads=1)
    with pytest.raises(ValueError, match="below"):
        pooled_means([one, one + (1 << 30)], weights, threads=1)
    for broken in (
        {},
        {"layer1.0.kernel": np.zeros((9, 1, 32))},
        random_weights(2, 2) | {"layer2.0.kernel": np.ones(3)},
    ):
        with pytest.raises(ValueError, match=r"not"):
            ConvolutionWeights.of(broken)
