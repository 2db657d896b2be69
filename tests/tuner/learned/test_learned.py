"""Tests of learned models: NumPy and C equal PyTorch; proposals suit the problem; from measurements to a product."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import scipy.sparse
from autosparse._native.storage.packing import reason_unfit
from autosparse.tuner.features.setting import RunSetting
from autosparse.tuner.learned.codes import code_of, code_rows
from autosparse.tuner.learned.names import op_of
from autosparse.tuner.learned.predict import PORTFOLIO, LearnedModel, RatioScale, suits
from autosparse.tuner.learned.safetensors import read_safetensors
from autosparse.tuner.learned.scorers import scorer_of
from autosparse.tuner.learned.weights import LearnedWeights
from autosparse.tuner.research.generators.base import generate
from autosparse.tuner.research.inference.embeddings import embed_pattern, looked_at_cells
from autosparse.tuner.research.space.waco import waco_space
from autosparse.tuner.research.training.meaning import write_safetensors
from autosparse.tuner.research.training.scale import fit_scale
from autosparse.tuner.space import families as space
from autosparse.tuner.space import spaces
from autosparse.tuner.space.joint import JointSpace
from autosparse.tuner.space.own import own_space

import autosparse as asp
from autosparse import _native
from autosparse.config import get_options
from autosparse.core.pattern import Pattern
from autosparse.core.problem import Problem
from autosparse.core.schedule import RUNTIME
from autosparse.core.target import Target
from autosparse.errors import RecordError
from autosparse.tuning import learned as learned_tier
from tests.tuner.learned.samples import tiny_model

SPACE = JointSpace((own_space("spmv", threads=(0, 1, 2)), waco_space("spmv", threads=(1, 2))))


def some_schedules(n: int, seed: int = 0) -> list:
    rng = np.random.default_rng(seed)
    return [SPACE.spaces[at % 2].sample(rng, _native.supports) for at in range(n)]


def write_random_model(path, extractor: str = "waconet", space: JointSpace = SPACE, op: str = "spmv"):
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: train)")
    from autosparse.tuner.research.training.weights import Meaning, write_weights

    torch.manual_seed(0)
    meaning = Meaning(op=op, extractor=extractor, dimension=2, parameters=space.parameters)
    model = meaning.make_model().eval()
    write_weights(path, model, meaning)
    return torch, model


# -- codes and cells, without torch


def test_rows_of_codes_go_back_to_schedules():
    schedules = some_schedules(40)
    codes = [SPACE.encode(one) for one in schedules]
    rows = code_rows(codes, SPACE.parameters)
    assert [code_of(row, SPACE.parameters) for row in rows] == codes
    assert [SPACE.decode(code) for code in codes] == schedules


@pytest.mark.parametrize("family", ["mesh", "rmat", "hypersparse"])
@pytest.mark.parametrize("limit", [500, 1 << 17])
def test_cells_of_compressed_rows_are_those_that_training_looks_at(family, limit):
    found = generate(family, nnz=20_000, seed=1)
    rows, columns = looked_at_cells(found.to_pattern(), limit)
    expected = found.looked_at(limit)
    assert np.array_equal(rows, expected.indices[0])
    assert np.array_equal(columns, expected.indices[1])


def test_unsorted_and_repeated_columns_are_put_in_order():
    pattern = Pattern(2, 9, np.array([0, 4, 5], np.int32), np.array([7, 1, 7, 0, 3], np.int32))
    rows, columns = looked_at_cells(pattern, 100)
    assert rows.tolist() == [0, 0, 0, 1]
    assert columns.tolist() == [0, 1, 7, 3]


# -- equal to torch


@pytest.mark.parametrize("extractor", ["waconet", "statistics", "human"])
@pytest.mark.parametrize("family", ["stencil", "power_law"])
def test_costs_equal_pytorchs(tmp_path, extractor, family):
    torch, model = write_random_model(tmp_path / "m.safetensors", extractor)
    from autosparse.tuner.research.networks.cost_model import flat_codes

    weights = LearnedWeights.read(tmp_path / "m.safetensors")
    found = generate(family, nnz=3_000, seed=2)
    schedules = some_schedules(30)
    codes = [SPACE.encode(one) for one in schedules]
    with torch.no_grad():
        observed = model.extractor.prepare(found)
        expected = model(observed, torch.from_numpy(flat_codes(codes, SPACE.parameters))).numpy()
        pattern_expected = model.extractor(observed).numpy()[0]
    pattern = embed_pattern(found.to_pattern(), weights)
    np.testing.assert_allclose(pattern, pattern_expected, atol=1e-4)
    rows = code_rows(codes, SPACE.parameters)
    scorer = scorer_of(weights)
    setting = RunSetting(target=Target.host(), dtype="float32", n_dense_cols=1, threads=1)
    shares, costs = scorer.programs(rows), scorer.on(pattern, setting)
    np.testing.assert_allclose(costs(shares, None), expected, atol=1e-4)
    ids = np.array([7, 0, 7], np.int32)
    np.testing.assert_allclose(costs(shares, ids), expected[ids], atol=1e-4)
    narrow = weights.tensors | {"final.2.weight": np.zeros((32, 128), np.float32)}
    with pytest.raises(RecordError, match="layers of shapes"):
        scorer_of(dataclasses.replace(weights, tensors=narrow))


def test_models_of_other_spaces_are_refused(tmp_path):
    write_random_model(tmp_path / "m.safetensors")
    tensors, metadata = read_safetensors(tmp_path / "m.safetensors")
    for change in ({"op": "spmm32"}, {"format": "x"}, {"parameters": "[]"}, {"limit": "many"}):
        write_safetensors(tmp_path / "other.safetensors", tensors, {**metadata, **change})
        with pytest.raises(RecordError):
            LearnedWeights.read(tmp_path / "other.safetensors")


# -- the scale


@dataclasses.dataclass
class FakeMeasurements:
    """Ratios that follow a rule, with the part of the interface of Measurements that fitting reads."""

    schedules: list
    ratios: np.ndarray
    offset: float

    def __getitem__(self, column):
        return {"status": np.zeros(len(self.schedules), int), "ratio": self.ratios}[column]


def test_scale_is_found_where_there_is_one():
    rng = np.random.default_rng(0)
    schedules = [one.to_json() for one in dict.fromkeys(some_schedules(30))]
    anchor = own_space("spmv", threads=(0,)).sample(rng)
    plain = next(one for one in some_schedules(3_000, seed=5) if str(one.format) == "i1:U,k1:C")
    del anchor
    base = rng.normal(0.0, 1.0, len(schedules) + 1)
    found, truth = [], {}
    for _ in range(6):
        logs = 0.5 * base + 0.1  # the anchor, last, has ratio exp(0.1 + base/2)
        one = FakeMeasurements([*schedules, plain.to_json()], np.exp(logs).astype(np.float32), float(rng.normal()))
        truth[id(one)] = base + one.offset * 7  # the costs of each pattern have an offset of their own
        found.append(one)
    scale = fit_scale(found, lambda one, _: truth[id(one)])
    assert scale.slope == pytest.approx(0.5, rel=1e-4)
    assert str(scale.anchor.format) == "i1:U,k1:C"
    assert RatioScale.from_data(scale.to_data()) == scale
    with pytest.raises(RecordError, match="do not increase"):
        fit_scale(found, lambda one, _: -truth[id(one)])
    with pytest.raises(RecordError, match="patterns"):
        fit_scale(found[:2], lambda one, _: truth[id(one)])


# -- proposals


def problem_of(pattern: Pattern, n_columns: int = 1) -> Problem:
    return Problem(
        operation="matmul",
        pattern=pattern,
        transposed=False,
        n_dense_cols=n_columns,
        dtype="float32",
        threads=2,
        deterministic=False,
        target=Target.host(),
    )


def write_model_folder(folder, n_nodes: int = 300) -> LearnedModel:
    """Write random weights and a portfolio into `folder`; return the model."""
    write_random_model(folder / "spmv.safetensors")
    tensors, metadata = read_safetensors(folder / "spmv.safetensors")
    schedules = list(dict.fromkeys(some_schedules(n_nodes)))
    anchor = next(one for one in schedules if str(one.format) == "i1:U,k1:C")
    scale = RatioScale(slope=1.0, anchor=anchor, anchor_log_ratio=0.0).to_data()
    tensors[PORTFOLIO] = code_rows([SPACE.encode(one) for one in schedules], SPACE.parameters)
    write_safetensors(folder / "spmv.safetensors", tensors, {**metadata, "about": json.dumps({"scale": scale})})
    return LearnedModel.read(folder, "spmv")


def test_proposals_suit_the_problem_and_are_the_best_predicted(tmp_path):
    model = write_model_folder(tmp_path)
    pattern = generate("mesh", nnz=5_000, seed=1).to_pattern()
    problem = problem_of(pattern)
    features = model.features(pattern)
    proposals = model.propose(problem, features, _native.supports)
    assert 1 <= len(proposals) <= 10
    ratios = [one.ratio for one in proposals]
    assert ratios == sorted(ratios)
    assert all(suits(problem, one.schedule) and _native.supports("matmul", one.schedule) is None for one in proposals)
    everything = [model.schedule(node) for node in range(len(model.codes))]
    fitting = [one for one in everything if one is not None and suits(problem, one)]
    assert ratios[0] == pytest.approx(min(model.ratios(problem, features, fitting)), rel=1e-4)
    assert model.ratios(problem, features, [model.scale.anchor])[0] == pytest.approx(1.0)


class Preferring:
    """Scorer that gives each program the same cost for every pattern."""

    reads_guesses = False

    def __init__(self, costs):
        self.costs = costs

    def programs(self, rows):
        return rows

    def on(self, features, setting):
        return lambda programs, ids: self.costs if ids is None else self.costs[ids]


def test_at_most_half_of_the_proposals_have_rows_in_the_dear_order(tmp_path):
    """Check that estimates, which exclude reverse Cuthill-McKee, have other proposals where the model prefers it."""
    model = write_model_folder(tmp_path)
    problem = problem_of(generate("mesh", nnz=400_000, seed=1).to_pattern(), 256)
    everything = spaces.everything(problem, _native.supports)
    dear = [one for one in everything if one.format.rows == "rcm"][:20]
    others = [one for one in everything if one.format.rows != "rcm"]
    assert len(dear) == 20
    model = dataclasses.replace(model, scorer=Preferring(np.arange(len(model.codes), dtype=np.float32)))
    model._decoded.update(enumerate([*dear, *others][: len(model.codes)]))
    features = np.zeros(0, np.float32)
    proposals = model.propose(problem, features, _native.supports, 10, per_format=10)
    assert [one.schedule.format.rows == "rcm" for one in proposals] == [True] * 5 + [False] * 5


def test_more_than_the_proposals_are_named_and_what_has_no_code_is_not_predicted(tmp_path):
    model = write_model_folder(tmp_path)
    pattern = generate("mesh", nnz=5_000, seed=1).to_pattern()
    problem, features = problem_of(pattern), model.features(pattern)
    first = model.propose(problem, features, _native.supports)
    named = model.propose(problem, features, _native.supports, 100, per_format=100)
    assert len(named) > len(first)
    assert {one.schedule for one in first} <= {one.schedule for one in named}
    foreign = space.schedule("matmul", "csr", {}, tile=32)
    predicted = model.predict(problem, features, [foreign, *(one.schedule for one in first)])
    assert [one.schedule for one in predicted] == [one.schedule for one in first]
    np.testing.assert_allclose([one.ratio for one in predicted], [one.ratio for one in first], rtol=0.05)


def test_costs_without_an_anchor_are_log_ratios(tmp_path):
    model = write_model_folder(tmp_path)
    plain = dataclasses.replace(model, scale=RatioScale())
    assert RatioScale.from_data(RatioScale().to_data()) == RatioScale()
    pattern = generate("mesh", nnz=5_000, seed=1).to_pattern()
    features = plain.features(pattern)
    proposals = plain.propose(problem_of(pattern), features, _native.supports)
    again = plain.ratios(problem_of(pattern), features, [one.schedule for one in proposals])
    np.testing.assert_allclose([one.ratio for one in proposals], again, rtol=1e-4)


def test_loops_of_the_runtime_are_proposed_for_large_dense_operands_only():
    mesh = generate("mesh", nnz=5_000, seed=1).to_pattern()
    whole = space.schedule("matmul", "csr", {}, implementation=RUNTIME, prefetch=8)
    far = dataclasses.replace(problem_of(mesh, 256), target=dataclasses.replace(Target.host(), l2_bytes=1 << 16))
    near = dataclasses.replace(far, target=dataclasses.replace(Target.host(), l2_bytes=1 << 30))
    assert suits(far, whole)
    assert not suits(near, whole)
    assert not suits(problem_of(mesh), whole)
    wide = Pattern(*mesh.shape, mesh.indptr.astype(np.int64), mesh.indices.astype(np.int64))
    assert not suits(dataclasses.replace(far, pattern=wide), whole)


@pytest.mark.parametrize(("n_cols", "are_narrow"), [(1 << 16, True), ((1 << 16) + 1, False)])
@pytest.mark.parametrize(("algorithm", "width"), [("spmv", 1), ("spmm", 32)])
def test_formats_that_suit_hold_the_coordinates(algorithm, width, n_cols, are_narrow):
    n_rows = 100  # several blocks of rows, so that splits suit
    pattern = Pattern(n_rows, n_cols, np.arange(n_rows + 1), np.full(n_rows, n_cols - 1, np.int32))
    problem, rng = problem_of(pattern, width), np.random.default_rng(0)
    fitting = [one for one in (own_space(algorithm).sample(rng) for _ in range(1_000)) if suits(problem, one)]
    assert all(reason_unfit(pattern, one.format, transposed=False) is None for one in fitting)
    narrow = {one.format.order for one in fitting if one.format.index_bits == 16 and not one.format.is_sliced}
    assert ("i1", "k1") in narrow if are_narrow else ("i1", "k1") not in narrow
    assert {one.format.is_sliced for one in fitting} == {algorithm == "spmv", False}


def test_a_model_without_a_portfolio_is_refused(tmp_path):
    write_random_model(tmp_path / "spmv.safetensors")
    with pytest.raises(RecordError, match="no portfolio"):
        LearnedModel.read(tmp_path, "spmv")


def test_operations_by_width():
    pattern = generate("mesh", nnz=500, seed=1).to_pattern()
    names = {width: op_of(problem_of(pattern, width)) for width in (1, 2, 8, 9, 32, 90, 91, 256, 1_000)}
    assert names == {
        1: "spmv",
        2: "spmm8",
        8: "spmm8",
        9: "spmm32",
        32: "spmm32",
        90: "spmm32",
        91: "spmm256",
        256: "spmm256",
        1_000: "spmm256",
    }


@pytest.mark.parametrize("broken", [None, b"not a file of weights"])
def test_tuning_goes_on_without_a_model_that_can_be_used(tmp_path, broken):
    if broken is not None:
        (tmp_path / "spmv.safetensors").write_bytes(broken)
    A = asp.csr(
        scipy.sparse.random_array(
            (200, 200), density=0.05, format="csr", dtype=np.float32, random_state=np.random.default_rng(1)
        )
    )
    with asp.options(models=tmp_path, cache=False):
        plan = A.tune("matmul", columns=1, effort="estimate")
        assert learned_tier.find_model(get_options(), Target.host(), "spmv") is None
    assert plan.why


def test_tuning_measures_what_the_model_proposes(tmp_path):
    write_model_folder(tmp_path)
    theirs = scipy.sparse.random_array(
        (3_000, 3_000), density=0.004, format="csr", dtype=np.float32, random_state=np.random.default_rng(1)
    )
    A = asp.csr(theirs.copy())
    x = np.random.default_rng(0).standard_normal(3_000).astype(np.float32)
    settings = {"models": tmp_path, "cache_dir": tmp_path / "cache", "effort": "measure", "budget_s": 20}
    with asp.options(**settings, extra_memory=100.0):  # room for every format
        plan = A.tune("matmul", columns=1)
        model = learned_tier.find_model(get_options(), Target.host(), "spmv")
        proposed = model.propose(problem_of(Pattern(*theirs.shape, theirs.indptr, theirs.indices)), model.features(
            Pattern(*theirs.shape, theirs.indptr, theirs.indices)), _native.supports)  # fmt: skip
        np.testing.assert_allclose(A @ x, theirs @ x, rtol=1e-3, atol=1e-3)
        kept = list((tmp_path / "cache").rglob("features-*/**/*.json"))
    tried = {one.schedule for one in plan.candidates}
    assert {one.schedule for one in proposed} <= tried
    assert len(kept) == 1, "features are computed once and kept under the hash of the structure"


# -- end to end


@pytest.mark.full  # trees take the same path in test_boosted.py
def test_from_measurements_to_a_product(tmp_path, capsys):
    """Run collect, train and tune with real kernels, and check a product."""
    models = tiny_model(tmp_path, "spmv")
    assert "scale and portfolio from" in capsys.readouterr().out
    found = generate("stencil", nnz=30_000, seed=9)
    theirs = scipy.sparse.coo_array((np.ones(found.nnz, np.float32), found.indices), shape=found.shape).tocsr()
    A = asp.csr(theirs.copy())
    x = np.random.default_rng(0).standard_normal(theirs.shape[1]).astype(np.float32)
    with asp.options(models=models, effort="measure", budget_s=15):
        plan = A.tune("matmul", columns=1)
        np.testing.assert_allclose(A @ x, theirs @ x, rtol=1e-3, atol=1e-3)
        model = learned_tier.find_model(get_options(), Target.host(), "spmv")
    assert model is not None
    space = model.weights.space.spaces[0]
    assert sum(one.schedule is not None and space.contains(one.schedule) for one in plan.candidates) >= 10
