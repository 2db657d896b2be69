"""Tests of ``model="waco"`` from the option to a product: network, graph search, measured candidates, explanation.

The networks are random and small graphs are made by hand, so that neither torch nor hnswlib is needed.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import warnings

import numpy as np
import pytest
import scipy.sparse
from autosparse._native import runtime_api
from autosparse.cache.records import plan_from_record, plan_to_record
from autosparse.tuner.features.panels import WHOLE
from autosparse.tuner.learned.codes import code_rows
from autosparse.tuner.learned.predict import PORTFOLIO, LearnedModel, RatioScale
from autosparse.tuner.learned.weights import LearnedWeights
from autosparse.tuner.research.generators.base import generate
from autosparse.tuner.research.graph import ProgramGraph
from autosparse.tuner.research.graph.search import search_of
from autosparse.tuner.research.inference.embeddings import dequantised, looked_at_cells, tensor_cells
from autosparse.tuner.research.training.meaning import Meaning, write_model
from autosparse.tuner.space.joint import JointSpace
from autosparse.tuner.space.own import own_space
from autosparse.tuner.space.template import Categorical

import autosparse as asp
from autosparse import _native
from autosparse.config import get_options, options
from autosparse.core.pattern import TensorPattern
from autosparse.core.plan import Plan
from autosparse.core.solver import DEFAULT
from autosparse.core.target import Target
from autosparse.errors import RecordError
from autosparse.tuning import planner
from autosparse.tuning.learned import find_model

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")

N_PROGRAMS = 60
CHANNELS, LAYERS = 32, 14


def random_network(space: JointSpace, dimension: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Return random weights of a network by the names and shapes that inference reads."""
    rng = np.random.default_rng(seed)
    shapes = {"layer1.0.kernel": (5**dimension, 1, CHANNELS)}
    shapes |= {f"layer{at}.0.kernel": (3**dimension, CHANNELS, CHANNELS) for at in range(2, LAYERS + 1)}
    dense = {
        "feature.0": (64, dimension + 1), "feature.2": (32, 64), "matrix_embedding.0": (256, CHANNELS * LAYERS + 32),
        "matrix_embedding.2": (128, 256), "schedule_embedding.0": (128, 32 * len(space.parameters)),
        "schedule_embedding.2": (128, 128), "final.0": (128, 256), "final.2": (64, 128), "final.4": (1, 64),
    }  # fmt: skip
    for one in space.parameters:
        if isinstance(one, Categorical):
            shapes[f"{one.name}.weight"] = (one.size, 32)
        else:
            dense |= {f"{one.name}.0": (64, len(one.items) ** 2), f"{one.name}.2": (32, 64)}
    for name, shape in dense.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return {
        name: (rng.standard_normal(shape) / np.sqrt(shape[-2 if "kernel" in name else -1])).astype(np.float32)
        for name, shape in shapes.items()
    }


def write_waco(folder, op: str, dimension: int = 2, n_programs: int = N_PROGRAMS) -> LearnedModel:
    """Write a random network of `op` with a graph in which each program leads to 6 others; return the model."""
    algorithm = op.rstrip("0123456789")
    own = own_space(algorithm, threads=(0, 1))
    space, rng = JointSpace((own,)), np.random.default_rng(3)
    schedules = list(dict.fromkeys(own.sample(rng, _native.supports) for _ in range(4 * n_programs)))[:n_programs]
    n = len(schedules)
    around = (np.arange(n)[:, None] + np.array([-3, -2, -1, 1, 2, 3])) % n
    graph = ProgramGraph(around.astype(np.int32), np.arange(0, n, 8, dtype=np.int32))
    codes = code_rows([space.encode(one) for one in schedules], space.parameters)
    anchor = next(one for one in schedules if str(one.format).startswith("i1:U,k1:C"))
    scale = RatioScale(slope=0.1, anchor=anchor, anchor_log_ratio=-1.0).to_data()
    meaning = Meaning(
        op=op,
        extractor="waconet",
        dimension=dimension,
        parameters=space.parameters,
        limit=WHOLE,
        about={"scale": scale},
    )
    tensors = {**random_network(space, dimension), PORTFOLIO: codes.astype(np.int8), **graph.tensors()}
    write_model(folder / f"{op}.waco.safetensors", tensors, meaning)
    return LearnedModel.read(folder, f"{op}.waco")


def matrix(n: int = 200) -> scipy.sparse.csr_array:
    rng = np.random.default_rng(1)
    return scipy.sparse.random_array((n, n), density=0.05, format="csr", dtype=np.float32, random_state=rng)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Let each reading of the planner's clock advance it by 1 ms, so that budgets end at the same step everywhere."""
    readings = itertools.count()
    monkeypatch.setitem(planner.plan.__kwdefaults__, "clock", lambda: 1e-3 * next(readings))


@pytest.fixture(autouse=True)
def settings(tmp_path):
    """Tune with the models in `tmp_path`, with room for every format."""
    with asp.options(model="waco", models=tmp_path, cache_dir=tmp_path / "cache", extra_memory=100.0, threads=1):
        yield


def tune(operand, *given, **named):
    return operand.tune(*given, effort="measure", budget_s=0.5, **named)


def check(plan) -> None:
    """Check that the graph was searched and that the programs it found are candidates of the plan."""
    assert plan.proposed_by.startswith("WACO's network and graph: ")
    n_scored = int(plan.proposed_by.split(" programs by ")[1].split()[0])
    assert 0 < n_scored <= N_PROGRAMS
    assert sum(one.schedule is not None and one.predicted_ratio is not None for one in plan.candidates) >= 5


@pytest.mark.parametrize(("op", "columns"), [("spmv", 1), ("spmm32", 32)])
def test_products_with_the_best_of_the_graph(op, columns, tmp_path):
    write_waco(tmp_path, op)
    theirs = matrix()
    A, B = asp.csr_array(theirs.copy()), np.random.default_rng(0).standard_normal((200, columns)).astype(np.float32)
    check(tune(A, "matmul", columns=columns))
    np.testing.assert_allclose(A @ B, theirs @ B, rtol=1e-4, atol=1e-4)
    found = str(A.explain(B))
    assert "proposed by" in found
    assert "cost evaluations" in found


def test_sddmm_with_the_best_of_the_graph(tmp_path):
    write_waco(tmp_path, "sddmm32")
    theirs, rng = matrix(), np.random.default_rng(0)
    S = asp.csr_array(theirs.copy())
    X, Y = (rng.standard_normal((200, 32)).astype(np.float32) for _ in range(2))
    check(tune(S, "sddmm", columns=32))
    np.testing.assert_allclose(asp.sddmm(S, X, Y.T).toarray(), theirs.toarray() * (X @ Y.T), rtol=1e-3, atol=1e-3)


def test_mttkrp_with_the_best_of_the_graph(tmp_path):
    write_waco(tmp_path, "mttkrp16", 3)
    found, rng = generate("tensor_uniform", nnz=2_000, seed=1), np.random.default_rng(0)
    coords = np.array(found.indices, np.int32)
    values = rng.standard_normal(found.nnz).astype(np.float32)
    T = asp.tensor(coords, values, found.shape)
    factors = [rng.standard_normal((extent, 16)).astype(np.float32) for extent in found.shape]
    check(tune(T, "mttkrp", columns=16, mode=0))
    expected = np.zeros((found.shape[0], 16))
    np.add.at(expected, coords[0], values[:, None] * np.float64(factors[1][coords[1]]) * factors[2][coords[2]])
    np.testing.assert_allclose(asp.mttkrp(T, factors, mode=0), expected, rtol=1e-3, atol=1e-3)


def test_a_remembered_plan_says_who_proposed():
    plan = Plan(choice=DEFAULT, why="none", proposed_by="WACO's network and graph: 10 of 60 programs")
    assert plan_from_record(plan_to_record(plan)).proposed_by == plan.proposed_by
    old = {name: value for name, value in plan_to_record(plan).items() if name != "proposed_by"}
    assert plan_from_record(old).proposed_by == ""


def test_the_graph_is_searched_and_not_scored_as_a_whole(tmp_path):
    model = write_waco(tmp_path, "spmv", n_programs=400)
    found = generate("mesh", nnz=3_000, seed=1)
    pattern = found.to_pattern()
    with options(threads=1):
        from autosparse.tuner.research.collect.operations import OPS

        from autosparse.calibration.collection import context_for

        with context_for(found, OPS["spmv"]) as context:
            problem = context.problem
    features, counts = model.features(pattern), []
    proposals = model.propose(problem, features, _native.supports, note=counts.append)
    assert 0 < counts[0] < len(model.codes)
    whole = dataclasses.replace(model, search=None)
    best = whole.propose(problem, features, _native.supports, note=counts.append)
    assert counts[1] == len(model.codes)
    assert len({one.schedule for one in best} & {one.schedule for one in proposals}) >= len(best) // 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"graph.neighbours": np.zeros((9, 2), np.int16), "graph.entries": np.zeros(1, int)},
            "9 nodes for 60 programs",
        ),
        ({"graph.entries": np.array([99])}, "outside"),
    ],
)
def test_graphs_that_do_not_fit_are_refused(change, reason, tmp_path):
    weights = write_waco(tmp_path, "spmv").weights
    with pytest.raises(RecordError, match=reason):
        search_of(dataclasses.replace(weights, tensors={**weights.tensors, **change}), N_PROGRAMS)


# -- the option


def test_the_old_name_warns_and_means_the_same():
    with pytest.warns(DeprecationWarning, match='model="waconet" is now model="waco"'), options(model="waconet"):
        assert get_options().model == "waco"
    with warnings.catch_warnings(), options(model="waco"):
        warnings.simplefilter("error")
        assert get_options().model == "waco"


def test_operations_without_a_network_have_trees(tmp_path):
    with options(model="waco", cache_dir=tmp_path):
        found = find_model(get_options(), Target.host().held_to(get_options().isa), "spmm8")
    assert found is None or found.weights.extractor == "boosted"


# -- patterns as a whole


def test_every_entry_is_read():
    found = generate("uniform", nnz=60_000, seed=1)
    cells = looked_at_cells(found.to_pattern(), WHOLE)
    for one, column in zip(cells, found.indices, strict=True):
        np.testing.assert_array_equal(one, column)
    tensor = generate("tensor_uniform", nnz=50_000, seed=1)
    order = np.random.default_rng(0).permutation(tensor.nnz)
    coords = np.array(tensor.indices, np.int32)[:, order]
    shuffled = TensorPattern(tensor.shape, np.ascontiguousarray(coords))
    for one, column in zip(tensor_cells(shuffled, WHOLE), tensor.indices, strict=True):
        np.testing.assert_array_equal(one, column)


# -- the file


def test_rounded_weights_are_near_the_exact_ones():
    pytest.importorskip("torch", reason="torch is not installed (extra: train)")
    from autosparse.tuner.research.training.weights import quantised

    rng = np.random.default_rng(0)
    weights = {
        "final.0.weight": (rng.standard_normal((128, 256)) * rng.uniform(0.001, 10, 256)).astype(np.float32),
        "layer2.0.kernel": rng.standard_normal((9, 32, 32)).astype(np.float32),
        "final.4.bias": rng.standard_normal(1).astype(np.float32),
    }
    stored = quantised(weights)
    assert stored["final.0.weight"].dtype == stored["layer2.0.kernel"].dtype == np.int8
    again = dequantised(stored)
    assert again.keys() == weights.keys()
    for name, value in weights.items():
        largest = np.abs(value).max(axis=tuple(axis for axis in range(value.ndim) if axis != 1) or None, keepdims=True)
        assert (np.abs(again[name] - value) <= largest / 250).all()
        assert again[name].dtype == np.float32


def test_a_file_names_its_operation_and_limit(tmp_path):
    weights = write_waco(tmp_path, "spmv").weights
    assert LearnedWeights.read(tmp_path / "spmv.waco.safetensors").limit == WHOLE
    assert json.loads(json.dumps(weights.about["scale"]))["slope"] == 0.1
