"""Tests of the fit of the learned correction of the analytic GPU model."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from autosparse.tuner.gpu import correction
from paperlib.device import DeviceSample, fit_device_correction

from tests.tuner.test_gpu_correction import SIZES, TARGET, offered, pattern


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
