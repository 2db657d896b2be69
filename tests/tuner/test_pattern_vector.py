"""Tests of the statistics of a pattern as a vector: length, invariances, and patterns that it distinguishes."""

from __future__ import annotations

import numpy as np
import pytest
from autosparse.tuner.features.pattern_vector import VECTOR_WIDTHS, matrix_vector, tensor_vector
from autosparse.tuner.research.generators.base import FAMILIES, generate
from autosparse.tuner.research.generators.coordinates import Coordinates


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_finite_statistics_of_moderate_size(family):
    made = generate(family, nnz=20_000, seed=5)
    vector = made.vector()
    assert vector.shape == (VECTOR_WIDTHS[len(made.shape)],)
    assert vector.dtype == np.float32
    assert np.abs(vector).max() < 8


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 9), (1, 1, 1), (2, 5, 3)])
@pytest.mark.parametrize("n", [0, 1])
def test_tiny_patterns_have_statistics_too(shape, n):
    vector = Coordinates.of(shape, [np.zeros(n, np.int64)] * len(shape)).vector()
    assert np.isfinite(vector).all()


def test_matrices_and_coordinates_agree():
    made = generate("rmat", nnz=20_000, seed=5)
    np.testing.assert_array_equal(matrix_vector(made.to_pattern()), made.vector())


def test_orders_without_statistics_are_refused():
    with pytest.raises(ValueError, match="4 dimensions"):
        Coordinates.of((2, 2, 2, 2), [np.zeros(1, np.int64)] * 4).vector()


def test_the_order_of_a_tensors_entries_does_not_matter():
    made = generate("tensor_power_law", nnz=20_000, seed=5)
    order = np.random.default_rng(0).permutation(made.nnz)
    mixed = [column[order].astype(np.int32) for column in made.indices]
    np.testing.assert_array_equal(tensor_vector(made.shape, mixed), made.vector())


@pytest.mark.parametrize("family", ["tensor_power_law", "tensor_temporal", "tensor_blocks"])
def test_counting_some_pairs_only_gives_nearly_the_same_shares(family, monkeypatch):
    from autosparse.tuner.features import pattern_vector as module

    made = generate(family, nnz=60_000, seed=5)
    exact = made.vector()
    monkeypatch.setattr(module, "MAX_COUNTED", 10_000)
    np.testing.assert_allclose(made.vector(), exact, atol=0.1)


def test_counting_some_columns_only_gives_nearly_the_same_shares(monkeypatch):
    from autosparse.tuner.features import pattern_vector as module

    made = generate("mesh", nnz=60_000, seed=5)
    exact = made.vector()
    monkeypatch.setattr(module, "MAX_COUNTED", 6_000)
    np.testing.assert_allclose(made.vector(), exact, atol=0.1)
