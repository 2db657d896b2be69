"""Tests of the greedy search's partitions for a GPU: fitted costs, trust, and schedules that compute the product."""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("torch")

from autosparse.tuner import registry
from autosparse.tuner.gpu.space import GpuSetting
from autosparse.tuner.research.hybrid import gpu_plan
from autosparse.tuner.research.hybrid.gpu_plan import FITTED, Sample, fit

import autosparse as asp
from autosparse.core.composite import REST, Blocks
from autosparse.core.pattern import Pattern
from autosparse.gpu.target import targets

TARGET = targets()["h100-sxm"]


def pattern_of(*, n: int = 1024, n_blocks: int = 0, scatter: int = 0) -> Pattern:
    """Return a pattern of full blocks of 16 x 16 cells in the upper half, and of scattered entries."""
    rng = np.random.default_rng(0)
    cells = np.zeros((n, n), bool)
    for down, across in zip(rng.integers(0, n // 32, n_blocks), rng.integers(0, n // 16, n_blocks), strict=True):
        cells[16 * down : 16 * down + 16, 16 * across : 16 * across + 16] = True
    cells[rng.integers(n // 2, n, scatter), rng.integers(0, n, scatter)] = True
    made = sp.csr_array(cells)
    return Pattern(n, n, made.indptr, made.indices)


def asked(columns: int = 512, dtype: str = "float16") -> GpuSetting:
    return GpuSetting(operation="matmul", n_dense_cols=columns, dtype=dtype, vector=8)


def test_a_fit_finds_the_costs_and_their_uncertainty() -> None:
    exact = [
        Sample(name, tiles, 100.0, columns, 1e-5 + columns * (2e-12 * tiles + 3e-11 * 100.0))
        for at, name in enumerate("abcdef")
        for columns in (32, 256)
        if (tiles := 10.0 ** (2 + at))
    ]
    found = fit(exact)
    assert found is not None
    np.testing.assert_allclose(found[:3], (1e-5, 2e-12, 3e-11), rtol=1e-6)
    assert found.sigma < 1e-6
    noisy = fit([one._replace(seconds=one.seconds * (1.5 if at % 2 else 1.0)) for at, one in enumerate(exact)])
    assert noisy is not None
    assert noisy.sigma > 0.05
    assert fit(exact[:4]) is None


def test_a_partition_is_trusted_where_its_gain_exceeds_the_uncertainty() -> None:
    found = gpu_plan.planned(pattern_of(n=4096, n_blocks=2400, scatter=150_000), asked(), TARGET)
    assert found.partition is not None
    assert found.partition.selections == (Blocks(16, 16, 1.0), REST)
    assert found.is_trusted
    assert found.ratio <= math.exp(-gpu_plan.QUANTILE * found.sigma)
    narrow = gpu_plan.planned(pattern_of(n=1024, n_blocks=100, scatter=9_000), asked(32), TARGET)
    assert not narrow.is_trusted, "launches take longer than the gain"
    assert "planned time" in str(narrow.reason)


@pytest.mark.parametrize(
    ("pattern", "product", "reason"),
    [
        (pattern_of(scatter=20_000), asked(), "one kind of tiles"),
        (pattern_of(n_blocks=60), asked(), "one kind of tiles"),
        (pattern_of(n_blocks=60, scatter=900), asked(dtype="float32"), "no costs of tiles"),
        (pattern_of(n_blocks=60, scatter=900), asked(dtype="bfloat16"), "no costs of tiles"),
        (pattern_of(), asked(), "entries"),
    ],
)
def test_a_reason_is_given_where_the_search_does_not_decide(pattern: Pattern, product: GpuSetting, reason: str) -> None:
    found = registry.load("partitioner", "greedy")(pattern, product, TARGET)
    assert found.partition is None or not found.is_trusted
    assert reason in str(found.reason)


def test_every_fitted_device_is_described() -> None:
    assert {name for name, _ in FITTED} <= set(targets())


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
def test_a_trusted_partition_replaces_the_rules() -> None:
    torch = pytest.importorskip("torch")
    from autosparse.cuda import composites as offers
    from autosparse.cuda.structure import structure_of

    pattern = pattern_of(n=4096, n_blocks=2400, scatter=150_000)
    crow, col = (torch.from_numpy(one.astype(np.int32)) for one in (pattern.indptr, pattern.indices))
    with asp.options(hybrid=True):
        found = list(offers.offered(structure_of(crow, col, 4096), False, asked(), TARGET))
    assert found
    assert not any(one.is_planned for one in offers.offered(structure_of(crow, col, 4096), False, asked(), TARGET))
    assert all(one.is_planned and "planned 0." in one.name for one in found)
    assert {one.schedule.selections for one in found} == {(Blocks(16, 16, 1.0), REST)}
    half = pattern_of(n=1024, n_blocks=100, scatter=9_000)
    crow, col = (torch.from_numpy(one.astype(np.int32)) for one in (half.indptr, half.indices))
    with asp.options(hybrid=True):
        few = list(offers.offered(structure_of(crow, col, 1024), False, asked(32), TARGET))
    assert not any(one.is_planned for one in few)


def test_a_caller_sets_the_number_of_entries_that_are_searched() -> None:
    pattern = pattern_of(n=512, scatter=3_000)
    refused = gpu_plan.planned(pattern, asked(), TARGET, max_nnz=pattern.nnz - 1)
    assert f"takes 1 to {pattern.nnz - 1:,} entries" in str(refused.reason)
    assert gpu_plan.planned(pattern, asked(), TARGET, max_nnz=pattern.nnz).plan is not None
