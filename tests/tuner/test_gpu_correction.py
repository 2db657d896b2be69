"""Tests of the learned correction of the analytic GPU model: its domain, its reordering, and its fit."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from autosparse.tuner.gpu import correction, model, space  # noqa: E402
from autosparse.tuner.gpu.facts import facts_of  # noqa: E402
from autosparse.tuner.research.transfer.device import DeviceSample, fit_device_correction  # noqa: E402

from autosparse.gpu.target import target_of  # noqa: E402

TARGET = target_of("NVIDIA H200")
SIZES = model.ProductSizes(n_dense_cols=64, dtype="float32")


def pattern(seed=0, n=600, per_row=9):
    """Return the counts of a random matrix."""
    rng = np.random.default_rng(seed)
    lengths = torch.from_numpy(rng.integers(0, 2 * per_row, n))
    crow = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    return facts_of(crow, torch.from_numpy(rng.integers(0, n, int(crow[-1]))), n)


def offered(facts, operation="matmul", dtype="float32"):
    """Return the candidates as the analytic model ranks them."""
    sizes = dataclasses.replace(SIZES, dtype=dtype)
    asked = space.GpuSetting(operation=operation, n_dense_cols=64, dtype=dtype, vector=4, target=TARGET)
    found = list(space.offered(asked))
    return sorted(found, key=lambda one: model.predicted_s(facts, one[1], sizes, TARGET))


@pytest.mark.parametrize("operation", ["matmul", "sddmm"])
def test_only_favourites_change_places(operation):
    facts = pattern()
    before = offered(facts, operation)
    after = correction.reordered(before, facts, SIZES, TARGET)
    plain = before[: correction.RERANKED]
    n = len(plain)
    assert {str(one) for one in after[:n]} == {str(one) for one in plain}
    assert after[n:] == before[n:]
    known = correction.corrections()[operation]
    costs = [known.log_seconds(facts, one, SIZES, TARGET) for _, one in after[:n]]
    assert costs == sorted(costs)


@pytest.mark.parametrize(
    ("sizes", "device"),
    [
        (SIZES, "NVIDIA A100-SXM4-80GB"),
        (dataclasses.replace(SIZES, n_dense_cols=8), "NVIDIA H200"),
        (dataclasses.replace(SIZES, dtype="float64"), "NVIDIA H200"),
    ],
)
def test_products_without_samples_keep_the_analytic_order(sizes, device):
    facts = pattern()
    before = offered(facts)
    assert correction.reordered(before, facts, sizes, target_of(device)) == before


def test_tensor_cores_and_no_candidates_keep_the_analytic_order():
    facts = pattern()
    tf32 = [(name, dataclasses.replace(one, precision="tf32")) for name, one in offered(facts)]
    assert correction.reordered(tf32, facts, SIZES, TARGET) == tf32
    assert correction.reordered([], facts, SIZES, TARGET) == []


def samples(k, theta, *, factor=1.0):
    """Return products whose times are the analytic model's by the factor exp(theta . phi)."""
    found = []
    for seed in range(k):
        facts = pattern(seed, n=300 + 100 * seed, per_row=4 + 3 * seed)
        schedules = [one for _, one in offered(facts)]
        made = [correction.features(facts, one, SIZES, TARGET) for one in schedules]
        seconds = factor * np.exp([base + float(np.dot(theta, phi)) for base, phi in made])
        found.append(DeviceSample(facts, SIZES, TARGET, schedules, seconds))
    return found


def test_a_linear_error_is_found_and_scale_does_not_matter():
    facts = pattern()
    n = len(correction.features(facts, offered(facts)[0][1], SIZES, TARGET)[1])
    theta = np.random.default_rng(1).standard_normal(n) * 0.05
    fitted = fit_device_correction(samples(6, theta), strength=1e-6)
    again = fit_device_correction(samples(6, theta, factor=3.0), strength=1e-6)
    (held_out,) = samples(7, theta)[6:]
    costs = [fitted.log_seconds(held_out.pattern, one, SIZES, TARGET) for one in held_out.schedules]
    away = np.array(costs) - np.log(held_out.seconds)
    assert np.ptp(away) < 0.05
    assert np.allclose(fitted.weights, again.weights, atol=1e-6)
    assert fitted.covers(held_out.schedules[0], SIZES, TARGET)


def test_the_shipped_file_has_finite_weights_for_every_feature():
    facts = pattern()
    for operation, known in correction.corrections().items():
        _, phi = correction.features(facts, offered(facts, operation)[0][1], SIZES, TARGET)
        assert len(known.weights) == len(phi)
        assert all(math.isfinite(one) for one in known.weights)
