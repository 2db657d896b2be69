"""Tests of sampled panels: bounded, disjoint, spread over all rows, and whole patterns when they are small."""

from __future__ import annotations

import numpy as np
import pytest
from autosparse.tuner.features.panels import ALIGNMENT, N_PANELS, panel_spans
from autosparse.tuner.research.generators.base import generate


@pytest.mark.parametrize("seed", range(20))
def test_spans_are_disjoint_bounded_and_spread(seed):
    rng = np.random.default_rng(seed)
    n_rows = int(rng.integers(1, 5000))
    lengths = rng.poisson(rng.choice([0.3, 4, 60]), n_rows)
    lengths[rng.integers(n_rows)] += int(rng.choice([0, 3000]))  # a very long row in some cases
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    for limit in (10, 100, 1000, 10_000):
        spans = panel_spans(indptr, limit)
        assert (spans[:, 0] <= spans[:, 1]).all()
        assert (spans[1:, 0] >= spans[:-1, 1]).all()
        kept = int((spans[:, 1] - spans[:, 0]).sum())
        assert kept == indptr[-1] if indptr[-1] <= limit else kept <= 2 * limit
        assert spans[-1, 1] <= indptr[-1]


def test_equal_rows_give_about_the_limit_in_aligned_panels():
    indptr = np.arange(100_001) * 7
    spans = panel_spans(indptr, 50_000)
    assert len(spans) == N_PANELS
    assert 45_000 <= (spans[:, 1] - spans[:, 0]).sum() <= 50_000
    assert (spans % (7 * ALIGNMENT) == 0).all()
    assert spans[0, 0] == 0
    assert spans[-1, 1] > 0.99 * indptr[-1]


@pytest.mark.parametrize("family", ["mesh", "rmat", "tensor_blocks"])
def test_sampled_entries_keep_their_coordinates(family):
    pattern = generate(family, nnz=50_000, seed=1)
    assert pattern.looked_at(pattern.nnz) is pattern
    seen = pattern.looked_at(5_000)
    assert seen.shape == pattern.shape
    assert seen.nnz <= 10_000
    whole = set(zip(*(column.tolist() for column in pattern.indices), strict=True))
    assert set(zip(*(column.tolist() for column in seen.indices), strict=True)) <= whole
