"""Tests of patterns from generators, files and augmentation: valid, seeded, of about the wanted size."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse
from autosparse.tuner.research.collect.recipes import (
    Recipe,
    is_held_out,
    real_files,
    recipes,
    recipes_in_turn,
    repeated,
    resized,
)
from autosparse.tuner.research.generators.base import FAMILIES, generate
from autosparse.tuner.research.generators.coordinates import Coordinates


def same(a: Coordinates, b: Coordinates) -> bool:
    return a.shape == b.shape and all(np.array_equal(x, y) for x, y in zip(a.indices, b.indices, strict=True))


def assert_canonical(found: Coordinates) -> None:
    """Check that indices lie within the shape, are sorted by rows, and occur once each."""
    assert found.nnz > 0
    for column, extent in zip(found.indices, found.shape, strict=True):
        assert column.min() >= 0
        assert column.max() < extent
    keys = np.ravel_multi_index(found.indices, found.shape)
    assert np.all(np.diff(keys) > 0)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("nnz", [16, 1_000, 40_000])
def test_family_makes_canonical_patterns_again_and_again(family, nnz):
    for seed in range(3):
        found = generate(family, nnz=nnz, seed=seed)
        assert_canonical(found)
        assert len(found.shape) == FAMILIES[family].n_dims
        assert found.nnz <= 4 * nnz + 4_000
        assert same(found, generate(family, nnz=nnz, seed=seed))


@pytest.mark.parametrize("family", FAMILIES)
def test_family_comes_near_the_wanted_size(family):
    sizes = [generate(family, nnz=50_000, seed=seed).nnz for seed in range(5)]
    assert 15_000 < np.median(sizes) < 120_000


@pytest.mark.parametrize("family", FAMILIES)
def test_draws_of_a_family_differ(family):
    assert not same(generate(family, nnz=2_000, seed=1), generate(family, nnz=2_000, seed=2))


def test_there_are_families_enough():
    assert sum(row.n_dims == 2 for row in FAMILIES.values()) >= 8
    assert sum(row.n_dims == 3 for row in FAMILIES.values()) >= 2


def test_coordinates_sort_drop_and_deduplicate():
    found = Coordinates.of((3, 4), ([2, 0, 2, 5, 1, -1], [3, 1, 3, 0, 9, 0]))
    assert [column.tolist() for column in found.indices] == [[0, 2], [1, 3]]


@pytest.mark.parametrize("shape", [(0, 3), (1 << 31, 2), (1 << 30, 1 << 30, 1 << 30)])
def test_coordinates_refuse_what_they_cannot_number(shape):
    with pytest.raises(ValueError, match="extents must be"):
        Coordinates.of(shape, [[0]] * len(shape))


def test_pattern_of_coordinates_is_scipys():
    found = generate("rmat", nnz=2_000, seed=3)
    pattern = found.to_pattern()
    expected = scipy.sparse.coo_array((np.ones(found.nnz), found.indices), shape=found.shape).tocsr()
    assert np.array_equal(pattern.indptr, expected.indptr)
    assert np.array_equal(pattern.indices, expected.indices)


def test_tensor_pattern_is_the_matricisation():
    found = generate("tensor_uniform", nnz=500, seed=3)
    pattern = found.to_pattern()
    i, k, l = found.indices
    assert (pattern.n_rows, pattern.n_cols) == (found.shape[0], found.shape[1] * found.shape[2])
    assert np.array_equal(np.repeat(np.arange(pattern.n_rows), pattern.row_lengths), i)
    assert np.array_equal(pattern.indices, k * found.shape[2] + l)


@pytest.mark.parametrize("change", [resized, repeated])
@pytest.mark.parametrize("family", ["stencil", "power_law", "tensor_temporal"])
def test_augmented_patterns_are_canonical_and_bounded(change, family):
    source = generate(family, nnz=5_000, seed=1)
    for seed in range(4):
        found = change(source, nnz=20_000, rng=np.random.default_rng(seed))
        assert_canonical(found)
        assert found.nnz <= 1.2 * max(20_000, source.nnz)
        assert same(found, change(source, nnz=20_000, rng=np.random.default_rng(seed)))


def test_repeating_keeps_row_lengths():
    """Check that every copy keeps the rows of the source; at least 90 % of the entries must remain."""
    source = generate("mesh", nnz=1_000, seed=2)
    lengths = np.bincount(source.indices[0], minlength=source.shape[0])
    for seed in range(20):
        found = repeated(source, nnz=4_000, rng=np.random.default_rng(seed))
        copies = np.bincount(found.indices[0], minlength=found.shape[0]).reshape(-1, source.shape[0])
        assert np.all(copies <= lengths)
        assert copies.sum() >= 0.9 * lengths.sum() * copies.shape[0]


def test_shrinking_merges_positions():
    source = Coordinates.of((4, 4), (np.arange(4), np.arange(4)))
    found = resized(source, nnz=1, rng=np.random.default_rng(0))
    assert max(found.shape) < 4
    assert found.nnz <= max(found.shape)


# -- recipes


@pytest.fixture
def folder(tmp_path):
    """Write files: two of one group, one of another, one that is too small, and a tensor; return the folder."""
    for name, seed, nnz in (("a1", 1, 6_000), ("a2", 2, 7_000), ("b", 3, 9_000), ("small", 4, 500)):
        found = generate("uniform", nnz=nnz, seed=seed)
        scipy.sparse.save_npz(
            tmp_path / f"{name}.npz",
            scipy.sparse.coo_array((np.ones(found.nnz, np.float32), found.indices), shape=found.shape).tocsr(),
        )
    tensor = generate("tensor_uniform", nnz=6_000, seed=5)
    np.savez(tmp_path / "t.npz", coords=np.stack(tensor.indices), vals=np.ones(tensor.nnz), shape=tensor.shape)
    lines = ["name,group,nnz,rows,is_tensor", "a1,a,6000,1,0", "a2,a,7000,1,0", "b,b,9000,1,0", "t,t,6000,1x1x1,1"]
    (tmp_path / "index.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def first(folder, n, *, n_dims=2, seed=0) -> list[Recipe]:
    stream = recipes(folder, n_dims=n_dims, seed=seed)
    return [next(stream) for _ in range(n)]


def test_index_gives_groups_and_files_without_one_are_their_own(folder):
    found = {one.name: one for one in real_files(folder)}
    assert found["a1.npz"].group == found["a2.npz"].group == "a"
    assert found["small.npz"].group == "small"
    assert found["t.npz"].n_dims == 3


def test_small_real_patterns_are_left_out_where_that_is_wanted(folder):
    stream = itertools.islice(recipes(folder, n_dims=2, seed=0, min_nnz=7_000), 60)
    assert {one.source for one in stream if one.kind == "real"} == {"a2.npz", "b.npz"}


def test_stream_is_the_same_every_time_and_differs_by_seed(folder):
    assert first(folder, 40) == first(folder, 40)
    assert first(folder, 40) != first(folder, 40, seed=1)


def test_stream_names_every_real_pattern_once_and_mixes_kinds(folder):
    found = first(folder, 60)
    real = [one.source for one in found if one.kind == "real"]
    assert sorted(real) == ["a1.npz", "a2.npz", "b.npz"]
    assert {one.kind for one in found} >= {"real", "repeated", "generated"}
    assert len({one.source for one in found if one.kind == "generated"}) == sum(
        r.n_dims == 2 for r in FAMILIES.values()
    )


def test_stream_of_tensors_holds_tensors_only(folder):
    assert {one.n_dims for one in first(folder, 20, n_dims=3)} == {3}


def test_streams_of_several_orders_alternate_and_are_unchanged(folder):
    stream = recipes_in_turn(folder, [3, 2, 2], seed=0)
    both = [next(stream) for _ in range(20)]
    assert both[0::2] == first(folder, 10)
    assert both[1::2] == first(folder, 10, n_dims=3)
    alone = recipes_in_turn(folder, [2], seed=0)
    assert [next(alone) for _ in range(10)] == first(folder, 10)


def test_stream_of_some_families_holds_no_others_and_nothing_real(folder):
    found = list(itertools.islice(recipes_in_turn(folder, [2, 3], seed=0, families=("batch", "control")), 20))
    assert {one.source for one in found} == {"batch", "control"}
    assert {one.kind for one in found} == {"generated"}
    assert list(recipes_in_turn(folder, [3], seed=0, families=("batch",))) == []


def test_made_patterns_belong_to_the_group_of_their_origin(folder):
    groups = {one.name: one.group for one in real_files(folder)}
    made = [one for one in first(folder, 60) if one.kind in ("resized", "repeated")]
    assert made
    assert all(one.group == groups[one.source] and one.is_held_out == is_held_out(one.group) for one in made)


def test_recipe_makes_the_same_pattern_after_a_trip_through_text(folder):
    for recipe in first(folder, 12):
        again = Recipe.from_json(recipe.to_json())
        assert again == recipe
        assert again.digest() == recipe.digest()
        if recipe.nnz < 200_000:
            assert same(recipe.make(folder), again.make(folder))


def test_recipe_of_a_file_needs_the_folder(folder):
    recipe = next(one for one in first(folder, 10) if one.kind == "real")
    with pytest.raises(FileNotFoundError, match="folder of matrices"):
        recipe.make(None)


def test_a_third_of_the_groups_is_held_out_for_ever():
    held = [is_held_out(f"group {n}") for n in range(3_000)]
    assert 0.28 < np.mean(held) < 0.39
    assert [is_held_out(name) for name in ("4elt", "cage", "memplus", "email-Enron")] == HELD_OUT


HELD_OUT = [True, False, False, True]
"""Expected split; it must never change, because models were trained on the patterns that it allows."""
