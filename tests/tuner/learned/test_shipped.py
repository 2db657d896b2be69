"""Tests of the shipped models: they load, propose schedules that can be lowered, and say how they were made."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest
from autosparse._native import runtime_api
from autosparse.tuner.features.panels import WHOLE
from autosparse.tuner.learned.predict import LearnedModel
from autosparse.tuner.research.collect.operations import MODELS, OPS
from autosparse.tuner.research.generators.base import generate
from autosparse.tuner.research.generators.coordinates import Coordinates

import autosparse as asp
from autosparse import _native
from autosparse.calibration.collection import context_for, proposals
from autosparse.config import get_options, options
from autosparse.core.problem import Problem
from autosparse.core.solver import choice_of
from autosparse.core.target import Target
from autosparse.tuning import learned
from autosparse.tuning.learned import find_model, shipped_folder

SHIPPED = sorted(op for op in MODELS if (shipped_folder(Target.host()) / f"{op}.safetensors").exists())

pytestmark = [
    pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built"),
    pytest.mark.skipif(not SHIPPED, reason=f"no model is shipped for {Target.host().machine}"),
]
COLUMNS = {"spmv": 1, "spmm8": 8, "spmm32": 32, "spmm256": 256, "sddmm32": 32, "sddmm256": 256}


def test_there_is_a_model_of_each_of_the_usual_products():
    assert {*COLUMNS, "mttkrp16"} == set(SHIPPED)


@pytest.mark.parametrize("op", [op for op in SHIPPED if op in COLUMNS])
@pytest.mark.parametrize("family", ["mesh", "rmat", "banded"])
def test_a_shipped_model_proposes_schedules_of_several_formats(op, family):
    model = LearnedModel.read(shipped_folder(Target.host()), op)
    pattern = generate(family, nnz=60_000, seed=11).to_pattern()
    problem = Problem(
        operation="sddmm" if op.startswith("sddmm") else "matmul", pattern=pattern, transposed=False,
        n_dense_cols=COLUMNS[op], dtype="float32", threads=2, deterministic=False,
        target=Target.host().held_to(get_options().isa),
    )  # fmt: skip
    proposals = model.propose(problem, model.features(pattern), _native.supports)
    assert len(proposals) == 10
    assert len({one.schedule for one in proposals}) == 10
    assert len({one.schedule.format for one in proposals}) > 1
    ratios = [one.ratio for one in proposals]
    assert ratios == sorted(ratios)
    assert all(0.01 < ratio < 3 for ratio in ratios)


@pytest.mark.parametrize("op", SHIPPED)
def test_shipped_models_record_their_training(op):
    model = LearnedModel.read(shipped_folder(Target.host()), op)
    about = model.weights.about
    assert about["machines"]
    assert about["n_train"] > 50
    assert about["validation"]["ordered_pairs"] > 0.75
    assert not any("/" in str(value) for value in (about["op"], about["data"]))


@pytest.mark.parametrize(("model", "extractor"), [("boosted", "boosted"), ("waco", "waconet"), ("statistics", None)])
def test_the_cost_model_can_be_chosen(model, extractor, tmp_path):
    """Check that WACO's network runs where it is asked for, and boosted trees for the widths without one."""
    with options(model=model, cache_dir=str(tmp_path)):
        target = Target.host().held_to(get_options().isa)
        found = find_model(get_options(), target, "spmm32")
        assert (found.weights.extractor if found is not None else None) == extractor
        other = find_model(get_options(), target, "spmm8")
        assert (other.weights.extractor if other is not None else None) == ("boosted" if extractor else None)
        if found is not None:
            pattern = generate("mesh", nnz=20_000, seed=11).to_pattern()
            problem = Problem(
                operation="matmul", pattern=pattern, transposed=False, n_dense_cols=32, dtype="float32", threads=2,
                deterministic=False, target=target,
            )  # fmt: skip
            proposals = found.propose(problem, found.features(pattern), _native.supports)
            assert len(proposals) == 10
            assert all(0.01 < one.ratio < 30 for one in proposals)


NETWORKS = sorted(
    path.name.removesuffix(".waco.safetensors") for path in shipped_folder(Target.host()).glob("*.waco.*")
)


def test_networks_of_waco_are_shipped_and_small():
    """Check the operations of the paper, with both widths, and the size of networks and graphs together."""
    assert NETWORKS == ["mttkrp16", "sddmm256", "sddmm32", "spmm256", "spmm32", "spmv"]
    sizes = [(shipped_folder(Target.host()) / f"{op}.waco.safetensors").stat().st_size for op in NETWORKS]
    assert sum(sizes) <= 4_000_000


@pytest.mark.parametrize("op", NETWORKS)
def test_a_shipped_network_reads_whole_patterns_and_searches_its_graph(op):
    model = LearnedModel.read(shipped_folder(Target.host()), f"{op}.waco")
    assert model.weights.limit == WHOLE
    assert model.weights.about["n_patterns"] > 100
    assert model.weights.about["validation"]["ordered_pairs"] > 0.75
    is_tensor, counts = model.weights.dimension == 3, []
    structure = generate("tensor_uniform" if is_tensor else "mesh", nnz=20_000, seed=11).to_structure()
    problem = Problem(
        operation="mttkrp" if is_tensor else "sddmm" if op.startswith("sddmm") else "matmul", pattern=structure,
        transposed=False, n_dense_cols=COLUMNS.get(op, 16), dtype="float32", threads=2, deterministic=False,
        target=Target.host().held_to(get_options().isa),
    )  # fmt: skip
    proposals = model.propose(problem, model.features(structure), _native.supports, note=counts.append)
    assert len(proposals) == 10
    assert all(0.01 < one.ratio < 30 for one in proposals)
    assert counts[0] < 0.7 * len(model.codes)


@pytest.mark.parametrize("columns", [1, 32])
def test_tuning_with_a_shipped_model_gives_the_right_product(columns, tmp_path):
    found = generate("banded", nnz=40_000, seed=3).to_pattern()
    rng = np.random.default_rng(0)
    values = rng.standard_normal(found.nnz).astype(np.float32)
    with options(cache_dir=str(tmp_path)):
        A = asp.csr((values, found.indices, found.indptr), shape=found.shape)
        A.tune("matmul", columns=columns, effort="measure", budget_s=5)
        B = rng.standard_normal((found.shape[1], columns)).astype(np.float32)
        np.testing.assert_allclose(A @ B, A.base @ B, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(
    ("columns", "dtype", "asks"),
    [(256, "float32", True), (32, "float32", True), (1, "float32", True), (256, "complex64", False)],
)
def test_background_tuning_reads_no_model_before_its_cost_is_covered(monkeypatch, columns, dtype, asks):
    """Check that the model is read only when its proposals are paid for.

    Reading the first model takes as long as a thousand products of a vector.
    """
    reads = []
    monkeypatch.setattr(learned, "find_model", lambda *given: reads.append(given) or find_model(*given))
    op = dataclasses.replace(OPS["spmm256"], n_dense_cols=columns)
    with context_for(generate("mesh", nnz=3_000, seed=1), op, dtype) as context:
        context.stats.cost_estimates.rates_s = {}  # prices that this machine's times have not changed
        with monkeypatch.context() as fresh:  # as in a process that has read no model
            fresh.delitem(sys.modules, "autosparse.tuner.learned.predict")
            proposer = learned.proposer_of(context, live=True)
        assert not reads
        assert (proposer is not None) == asks
        if proposer is not None:
            assert proposer.price_s > context.stats.cost_estimates.price_s("rank")
            assert len(proposer()) > 0
            assert reads


def test_only_what_has_room_is_proposed():
    """Check a row of a tenth of the entries, which slices and row blocks pad to many times the matrix."""
    rng, n, n_long = np.random.default_rng(0), 3_000, 1_500
    rows = np.append(np.repeat(np.arange(n), 4), np.zeros(n_long, int))
    cols = np.append((rows[: 4 * n] + rng.integers(0, 30, 4 * n)) % n, rng.choice(n, n_long, replace=False))
    pattern = Coordinates.of((n, n), (rows, cols))
    with options(threads=2), context_for(pattern, OPS["spmv"]) as ample:
        scarce = dataclasses.replace(ample, options=ample.options._replace(extra_memory=1.0))
        proposer = learned.proposer_of(scarce, live=False)
        assert proposer is not None
        assert [one for one in proposals(ample, 10) if not scarce(choice_of(one)).fits()], "all would have had room"
        found = [one.schedule for one in proposer()]
        assert found
        assert all(scarce(choice_of(one)).fits() for one in found)
        assert all(scarce(choice_of(one.schedule)).fits() for one in proposer.more(found))
