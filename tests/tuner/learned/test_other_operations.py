"""Tests of learned models of SDDMM and MTTKRP: names, input from tensors, and from measurements to a product."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from autosparse.tuner.learned.names import op_of
from autosparse.tuner.learned.predict import suits
from autosparse.tuner.learned.weights import LearnedWeights
from autosparse.tuner.research.generators.base import generate
from autosparse.tuner.research.generators.coordinates import Coordinates
from autosparse.tuner.research.inference.embeddings import embed_pattern, tensor_cells
from autosparse.tuner.space.own import own_space

import autosparse as asp
from autosparse.config import get_options
from autosparse.core.pattern import Pattern, TensorPattern
from autosparse.core.problem import Problem
from autosparse.core.target import Target
from autosparse.tuning import learned as learned_tier
from tests.tuner.learned.samples import tiny_model


def problem_of(operation: str, pattern, n_columns: int, mode: int = 0) -> Problem:
    return Problem(
        operation=operation, pattern=pattern, transposed=False, n_dense_cols=n_columns, dtype="float32", threads=2,
        deterministic=False, target=Target.host(), mode=mode,
    )  # fmt: skip


def shuffled(found: Coordinates, seed: int = 0) -> TensorPattern:
    """Return the tensor with its entries in random order, as users may have it."""
    order = np.random.default_rng(seed).permutation(found.nnz)
    return TensorPattern(found.shape, np.ascontiguousarray(np.array(found.indices, np.int32)[:, order]))


# -- input from a tensor, without torch


@pytest.mark.parametrize("family", ["tensor_uniform", "tensor_power_law", "tensor_blocks", "tensor_temporal"])
@pytest.mark.parametrize("limit", [200, 3_000, 1 << 17])
def test_cells_of_tensors_in_any_order_are_those_that_training_looks_at(family, limit):
    found = generate(family, nnz=20_000, seed=1)
    expected = found.looked_at(limit)
    for cells, column in zip(tensor_cells(shuffled(found), limit), expected.indices, strict=True):
        np.testing.assert_array_equal(cells, column)


def test_repeated_entries_are_one_cell():
    pattern = TensorPattern((3, 4, 5), np.array([[2, 0, 2], [1, 3, 1], [4, 0, 4]], np.int32))
    assert [column.tolist() for column in tensor_cells(pattern, 100)] == [[0, 2], [3, 1], [0, 4]]
    empty = TensorPattern((3, 4, 5), np.zeros((3, 0), np.int32))
    assert [column.size for column in tensor_cells(empty, 100)] == [0, 0, 0]


def test_any_mode_may_come_first():
    pattern = TensorPattern((3, 4, 5), np.array([[2, 0], [1, 3], [4, 0]], np.int32))
    assert pattern.rows_first(0) is pattern
    moved = pattern.rows_first(1)
    assert moved.shape == (4, 3, 5)
    assert moved.coords.tolist() == [[1, 3], [2, 0], [4, 0]]


def test_names_by_operation_and_width():
    matrix, tensor = (generate(family, nnz=500, seed=1).to_structure() for family in ("mesh", "tensor_uniform"))
    assert [op_of(problem_of("sddmm", matrix, width)) for width in (1, 32, 90, 91, 256)] == [
        "sddmm32",
        "sddmm32",
        "sddmm32",
        "sddmm256",
        "sddmm256",
    ]
    assert [op_of(problem_of("mttkrp", tensor, width)) for width in (1, 16, 256)] == ["mttkrp16"] * 3


def test_sizes_of_schedules_are_compared_with_the_modes_that_they_split():
    pattern = TensorPattern((50, 40, 2000), np.zeros((3, 1), np.int32))
    rng = np.random.default_rng(0)
    panels = [one for one in (own_space("mttkrp").sample(rng) for _ in range(300)) if one.format.split("l") > 1]
    fitting = [suits(problem_of("mttkrp", pattern, 16), one) for one in panels]
    turned = [suits(problem_of("mttkrp", pattern, 16, mode=2), one) for one in panels]  # l is the second mode: 40
    assert any(fitting)
    assert fitting == [one.format.split("l") <= 2000 and one.dense_split("j") < 32 for one in panels]
    assert turned == [one.format.split("l") <= 40 and one.dense_split("j") < 32 for one in panels]


# -- equal to torch


@pytest.mark.parametrize("extractor", ["waconet", "statistics", "human"])
def test_features_of_tensors_equal_pytorchs(tmp_path, extractor):
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: train)")
    from autosparse.tuner.research.training.weights import Meaning, write_weights

    torch.manual_seed(0)
    parameters = own_space_parameters()
    meaning = Meaning(op="mttkrp16", extractor=extractor, dimension=3, parameters=parameters, limit=2_000)
    model = meaning.make_model().eval()
    write_weights(tmp_path / "m.safetensors", model, meaning)
    weights = LearnedWeights.read(tmp_path / "m.safetensors")
    found = generate("tensor_temporal", nnz=6_000, seed=2)
    with torch.no_grad():
        expected = model.extractor(model.extractor.prepare(found)).numpy()[0]
    np.testing.assert_allclose(embed_pattern(shuffled(found), weights), expected, atol=1e-4)
    with pytest.raises(ValueError, match="2 dimensions"):
        embed_pattern(generate("mesh", nnz=500, seed=1).to_pattern(), weights)


def own_space_parameters():
    from autosparse.tuner.space.joint import JointSpace

    return JointSpace((own_space("mttkrp", threads=(0, 1)),)).parameters


# -- end to end


@pytest.mark.full  # the same path as SpMV's in test_learned and mttkrp's below
def test_sddmm_from_measurements_to_a_product(tmp_path, capsys):
    """Run collect, train, tune with the model's candidates, and check a product."""
    models = tiny_model(tmp_path, "sddmm32")
    assert "scale and portfolio from" in capsys.readouterr().out
    theirs = scipy.sparse.random_array(
        (2_000, 2_000), density=0.01, format="csr", dtype=np.float32, random_state=np.random.default_rng(1)
    )
    S = asp.csr(theirs.copy())
    rng = np.random.default_rng(0)
    X, Y = (rng.standard_normal((2_000, 32)).astype(np.float32) for _ in range(2))
    with asp.options(models=models, cache_dir=tmp_path / "cache", effort="measure", budget_s=15):
        plan = S.tune("sddmm", columns=32)
        model = learned_tier.find_model(get_options(), Target.host(), "sddmm32")
        found = asp.sddmm(S, X, Y.T)
    rows, columns = theirs.nonzero()
    expected = theirs.data * np.einsum("ej,ej->e", X[rows], Y[columns])
    np.testing.assert_allclose(found.data, expected, rtol=1e-3, atol=1e-3)
    assert model is not None
    pattern = Pattern(*theirs.shape, theirs.indptr, theirs.indices)
    proposed = model.propose(problem_of("sddmm", pattern, 32), model.features(pattern), lambda operation, one: None)
    assert {one.schedule for one in proposed} <= {one.schedule for one in plan.candidates}


@pytest.mark.full
def test_mttkrp_from_measurements_to_a_product(tmp_path):
    """Check every mode: the product's mode is given to the model as rows, and features are kept for each mode."""
    models = tiny_model(tmp_path, "mttkrp16", "boosted")
    found = generate("tensor_power_law", nnz=20_000, seed=9)
    rng = np.random.default_rng(0)
    values = rng.standard_normal(found.nnz).astype(np.float32)
    T = asp.tensor(shuffled(found, 0).coords, values, found.shape)
    factors = [rng.standard_normal((extent, 16)).astype(np.float32) for extent in found.shape]
    coords = shuffled(found, 0).coords
    with asp.options(models=models, cache_dir=tmp_path / "cache", effort="measure", budget_s=1):
        for mode in (0, 2):
            plan = T.tune("mttkrp", columns=16, mode=mode)
            others = [n for n in range(3) if n != mode]
            expected = np.zeros((found.shape[mode], 16))
            np.add.at(
                expected,
                coords[mode],
                values[:, None] * np.prod([factors[n][coords[n]] for n in others], axis=0, dtype=np.float64),
            )
            M = asp.mttkrp(T, factors, mode=mode)
            np.testing.assert_allclose(M, expected, rtol=1e-3, atol=1e-2)
            assert plan.candidates
        kept = sorted(path.stem[-2:] for path in (tmp_path / "cache").rglob("features-*/**/*.json"))
    assert len(kept) == 2
