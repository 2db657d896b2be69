"""Fit of the learned correction of the analytic GPU model to samples of a few patterns; NumPy only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from autosparse.tuner.gpu.correction import Correction, features
from autosparse.tuner.gpu.facts import DevicePattern
from autosparse.tuner.gpu.model import ProductSizes
from numpy.typing import NDArray

from autosparse.core.dtypes import Real
from autosparse.gpu.schedule import DeviceSchedule
from autosparse.gpu.target import DeviceTarget

STRENGTH: Final = 100.0
"""Strength of the ridge, for features of unit variance."""


@dataclass(frozen=True, eq=False)
class DeviceSample:
    """Measured candidates of one product of one pattern on one device."""

    pattern: DevicePattern = field(repr=False)
    product: ProductSizes
    target: DeviceTarget = field(repr=False)
    schedules: Sequence[DeviceSchedule] = field(repr=False)
    seconds: NDArray[Real] = field(repr=False)


def fit_device_correction(samples: Sequence[DeviceSample], strength: float = STRENGTH) -> Correction:
    """Return the ridge regression of the analytic model's log error on its features, each centred on its product.

    Centring leaves ratios of candidates alone, so a factor on all times of a product changes nothing.
    """
    rows, errors = [], []
    for one in samples:
        made = [features(one.pattern, schedule, one.product, one.target) for schedule in one.schedules]
        phi = np.array([row for _, row in made])
        error = np.log(one.seconds) - np.array([base for base, _ in made])
        rows.append(phi - phi.mean(axis=0))
        errors.append(error - error.mean())
    phi, error = np.vstack(rows), np.concatenate(errors)
    scale = phi.std(axis=0) + 1e-9
    scaled = phi / scale
    gram = scaled.T @ scaled + strength * np.eye(scaled.shape[1])
    theta = np.linalg.solve(gram, scaled.T @ error) / scale
    theta[phi.std(axis=0) == 0] = 0.0
    return Correction(
        tuple(theta.tolist()),
        tuple(sorted({one.target.name for one in samples})),
        tuple(sorted({one.product.dtype for one in samples})),
        (min(one.product.n_dense_cols for one in samples), max(one.product.n_dense_cols for one in samples)),
    )
