"""Tests of DASH's network: shapes, pooling, loss, fine-tuned parameters; and of the autoencoder of latent codes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from autosparse.tuner.research.generators.coordinates import Coordinates  # noqa: E402
from autosparse.tuner.research.networks.autoencoder import trained_autoencoder  # noqa: E402
from autosparse.tuner.research.networks.convolution import SparseFeatures  # noqa: E402
from autosparse.tuner.research.networks.dash import (  # noqa: E402
    PREDICTORS,
    DashModel,
    InputFeaturizer,
    MaxPool,
    StatisticsFeaturizer,
)
from autosparse.tuner.research.networks.waconet import lattice_of  # noqa: E402
from autosparse.tuner.research.targets.mapper import OneHotParts  # noqa: E402
from autosparse.tuner.research.training.few_shot import FewShotSettings, TransferCase, costs_of, fine_tuned, train  # noqa: E402


def pattern(seed, nnz=60, size=30):
    rng = np.random.default_rng(seed)
    return Coordinates.of((size, size), (rng.integers(0, size, nnz), rng.integers(0, size, nnz)))


def model(seed=0, **how):
    torch.manual_seed(seed)
    return DashModel(InputFeaturizer(limit=256), **how)


def cases(made, n=3):
    """Return cases whose costs depend on one number of p and one of z."""
    rng = np.random.default_rng(1)
    found = []
    for seed in range(n):
        p = rng.standard_normal((40, 53)).astype(np.float32)
        z = np.eye(64, dtype=np.float32)[rng.integers(0, 2, 40)]
        found.append(TransferCase(made.featurizer.prepare(pattern(seed)), p, z, np.exp(p[:, 3] + 2 * z[:, 1])))
    return found


def test_twelve_layers_with_the_papers_weights():
    made = model()
    kernels = [value for name, value in made.named_parameters() if name.endswith("kernel")]
    assert len(kernels) == 12
    assert sum(kernel.numel() for kernel in kernels) == 2_535_200
    s = made.featurizer(made.featurizer.prepare(pattern(0)))
    assert s.shape == (1, 128)
    assert made.costs(s, torch.zeros(7, 53), torch.zeros(7, 64)).shape == (7,)


def test_patterns_together_have_the_embeddings_that_each_has_alone():
    made = model()
    patterns = [pattern(seed, nnz=40 + 9 * seed, size=25 + 7 * seed) for seed in range(4)]
    together = made.featurizer(made.featurizer.prepare_together(patterns, [1, 2, 0, 3]))
    alone = torch.cat([made.featurizer(made.featurizer.prepare(patterns[at])) for at in (0, 1, 1, 3, 3, 3)])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


def test_max_pool_is_the_maximum_over_blocks_that_exist():
    seen = lattice_of(pattern(3))
    values = torch.randn(len(seen), 4)
    pooled = MaxPool()(SparseFeatures(seen, values))
    wanted = {}
    for cell, row in zip((seen.coordinates // 2).tolist(), values, strict=True):
        wanted[tuple(cell)] = torch.maximum(wanted[tuple(cell)], row) if tuple(cell) in wanted else row
    assert [tuple(cell) for cell in pooled.lattice.coordinates.tolist()] == sorted(wanted)
    assert torch.equal(pooled.values, torch.stack([wanted[cell] for cell in sorted(wanted)]))


def test_parts_that_are_left_out_are_not_read():
    made = model(parts=("configuration", "latent"))
    p, z = torch.randn(5, 53), torch.randn(5, 64)
    assert torch.equal(made.costs(torch.zeros(1, 128), p, z), made.costs(torch.ones(1, 128), p, z))
    with pytest.raises(ValueError, match="parts"):
        model(parts=("sketch",))


@pytest.mark.full
def test_training_orders_programs():
    made = model()
    given = cases(made)
    losses = []
    train(made, given, FewShotSettings(epochs=1, batch=40))  # trains every layer once
    settings = FewShotSettings(epochs=25, rate=3e-3, mode="heads")
    train(made, given, settings, lambda epoch, loss: losses.append(loss))
    assert losses[-1] < 0.3 * losses[0]
    s = made.featurizer(given[0].seen)
    costs = costs_of(made, s, given[0].p, given[0].z)
    assert np.corrcoef(costs, np.log(given[0].ratios))[0, 1] > 0.8


@pytest.mark.parametrize(("mode", "stays"), [("heads", "featurizer."), ("last layers", "configuration.")])
def test_fine_tuning_changes_what_its_mode_says_and_never_the_source(mode, stays):
    source = model()
    before = {name: value.clone() for name, value in source.state_dict().items()}
    tuned = fine_tuned(source, cases(source, 2), FewShotSettings(epochs=2, mode=mode))
    assert all(torch.equal(value, before[name]) for name, value in source.state_dict().items())
    changed = {name for name, value in tuned.state_dict().items() if not torch.equal(value, before[name])}
    assert not any(name.startswith(stays) for name in changed)
    assert any(name.startswith("latent.") for name in changed)
    assert any(name.startswith("predictor.4") for name in changed)


def test_no_sample_is_zero_shot_and_seeds_repeat():
    source = model()
    same = fine_tuned(source, [], FewShotSettings())
    assert all(torch.equal(a, b) for a, b in zip(source.state_dict().values(), same.state_dict().values(), strict=True))
    one, other = (fine_tuned(source, cases(source, 1), FewShotSettings(epochs=2, mode="heads")) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


@pytest.mark.full
def test_an_autoencoder_tells_categories_apart():
    known = list(itertools.product((0, 1), ("a", "b", "c"), (8, 16)))
    encoder = trained_autoencoder(known, epochs=300)
    codes = encoder.codes(known)
    assert codes.shape == (12, 64)
    rows = OneHotParts.of(known).rows(known)
    with torch.no_grad():
        decoded = encoder.decoder(torch.from_numpy(codes)).numpy()
    assert np.array_equal(decoded > 0.5, rows > 0.5)


def statistics_model(seed=0):
    torch.manual_seed(seed)
    return DashModel(StatisticsFeaturizer(4))


def several_products(n=24):
    """Return a case of three products of one pattern, whose times differ by a factor of 1,000."""
    rng = np.random.default_rng(2)
    p, z = rng.standard_normal((n, 53)).astype(np.float32), np.zeros((n, 64), np.float32)
    products = np.arange(n) % 3
    seen = torch.from_numpy(np.eye(4, dtype=np.float32)[products])
    return TransferCase(seen, p, z, (np.exp(p[:, 3]) * 1000.0**products).astype(np.float32), products)


def test_only_programs_of_one_product_are_compared():
    case, settings = several_products(), FewShotSettings(epochs=3, rate=1e-2, batch=64)
    scaled = replace(case, ratios=(case.ratios / 1000.0**case.products).astype(np.float32))
    one, other = (train(statistics_model(), [given], settings) for given in (case, scaled))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_costs_of_another_model_are_the_start_of_training():
    case = several_products()
    exact = replace(case, base=(10 * np.log(case.ratios)).astype(np.float32))
    losses = []
    for given in (case, exact):
        settings = FewShotSettings(epochs=1, rate=1e-5, batch=64)
        train(statistics_model(), [given], settings, lambda epoch, loss: losses.append(loss))
    assert losses[1] < 0.5 * losses[0]


def test_an_interrupted_training_continues(tmp_path):
    case, settings = several_products(), FewShotSettings(epochs=4, rate=1e-2, batch=5)
    whole = train(statistics_model(), [case], settings)
    state = tmp_path / "of" / "training.state"
    train(statistics_model(), [case], replace(settings, epochs=2), state=state)
    seen = []
    resumed = train(statistics_model(), [case], settings, lambda epoch, loss: seen.append(epoch), state=state)
    assert seen == [2, 3]
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))


@pytest.mark.parametrize("kind", sorted(PREDICTORS))
def test_predictors_learn_and_read_each_program_alone(kind):
    torch.manual_seed(0)
    made = DashModel(StatisticsFeaturizer(4), predictor=kind)
    case, losses = several_products(), []
    train(made, [case], FewShotSettings(epochs=30, rate=1e-2, batch=64), lambda _, loss: losses.append(loss))
    assert losses[-1] < 0.5 * losses[0]
    s, p, z = torch.ones(1, 128), torch.from_numpy(case.p), torch.from_numpy(case.z)
    alone = torch.cat([made.costs(s, p[at : at + 1], z[at : at + 1]) for at in range(len(p))])
    torch.testing.assert_close(made.costs(s, p, z), alone, rtol=1e-4, atol=1e-5)
