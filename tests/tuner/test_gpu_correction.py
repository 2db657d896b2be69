"""Tests of the learned correction of the analytic GPU model: its domain and its reordering."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from autosparse.tuner.gpu import correction, model, space  # noqa: E402
from autosparse.tuner.gpu.facts import facts_of  # noqa: E402

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


def test_the_shipped_file_has_finite_weights_for_every_feature():
    facts = pattern()
    for operation, known in correction.corrections().items():
        _, phi = correction.features(facts, offered(facts, operation)[0][1], SIZES, TARGET)
        assert len(known.weights) == len(phi)
        assert all(math.isfinite(one) for one in known.weights)
