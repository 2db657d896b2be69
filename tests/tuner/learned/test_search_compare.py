"""Tests of benchmarks/search_compare.py: every strategy uses the same model; the graph's best is near the optimum."""

from __future__ import annotations

import importlib.util
import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from autosparse.tuner.learned.predict import PORTFOLIO, LearnedModel, RatioScale
from autosparse.tuner.learned.safetensors import read_safetensors
from autosparse.tuner.learned.scorers import BOOSTED, n_inputs
from autosparse.tuner.research.graph import ProgramGraph
from autosparse.tuner.research.training.boosting import trees_of
from autosparse.tuner.research.training.meaning import write_safetensors

from autosparse import _native
from tests.tuner.learned.test_learned import write_model_folder

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "search_compare.py"


def write_boosted_folder(folder):
    """Write a model of one tree, which reads nothing but the analytic model's ratio, and a portfolio."""
    n_codes, first = write_model_folder(folder).codes.shape[1], n_inputs(2)
    tensors, metadata = read_safetensors(folder / "spmv.safetensors")
    trees = trees_of([[(first + n_codes, 0.0, 1, 2), (-1, -0.5, 0, 0), (-1, 0.5, 0, 0)]], 0.0, first)
    tensors = {PORTFOLIO: tensors[PORTFOLIO], **trees.tensors()}
    about = json.dumps({"scale": RatioScale(slope=1.0, anchor=None, anchor_log_ratio=0.0).to_data()})
    write_safetensors(folder / "spmv.safetensors", tensors, {**metadata, "extractor": BOOSTED, "about": about})
    return LearnedModel.read(folder, "spmv")


@pytest.mark.parametrize("written", [write_model_folder, write_boosted_folder])
@pytest.mark.skipif(not SCRIPT.exists(), reason="the benchmarks are not here")
def test_strategies_are_compared_on_one_model(written, tmp_path, monkeypatch, capsys):
    model = written(tmp_path)
    n = len(model.codes)
    ring = ((np.arange(n)[:, None] + np.array([-3, -2, -1, 1, 2, 3])) % n).astype(np.int32)
    graph = ProgramGraph(ring, np.arange(0, n, 10, dtype=np.int32))
    tensors, metadata = read_safetensors(tmp_path / "spmv.safetensors")
    write_safetensors(tmp_path / "spmv.safetensors", {**tensors, **graph.tensors()}, metadata)
    out = tmp_path / "found.jsonl"
    given = [
        "search_compare.py",
        "--models",
        str(tmp_path),
        "--op",
        "spmv",
        "--patterns",
        "1",
        "--trials",
        "40",
        "--out",
        str(out),
    ]
    monkeypatch.setattr(sys, "argv", given)
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    runpy.run_path(str(SCRIPT), run_name="__main__")
    found = {one["strategy"]: one for one in map(json.loads, out.read_text().splitlines())}
    assert {"shipped graph", "exhaustive", "random", "bandit"} <= found.keys()
    assert found["exhaustive"]["best_ratio"] <= found["shipped graph"]["best_ratio"] * (1 + 1e-6)
    assert found["shipped graph"]["n_trials"] < found["exhaustive"]["n_trials"]
    has_wide_graph = written is write_model_folder and importlib.util.find_spec("hnswlib") is not None
    assert ("graph" in found) == has_wide_graph
    assert all(found[name]["n_trials"] >= 40 for name in ("graph", "random", "bandit") if name in found)
    for one in found.values():
        assert 0 < one["model_s"] <= one["seconds"]
        assert [best for _, _, best in one["trace"]] == sorted((best for _, _, best in one["trace"]), reverse=True)
    assert "Searches on the cost model `spmv`" in capsys.readouterr().out


@pytest.mark.skipif(not SCRIPT.exists(), reason="the benchmarks are not here")
def test_every_point_of_the_encoding_is_a_legal_schedule(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from searchlib.encoding import Encoding, legal

    encoding = Encoding(write_model_folder(tmp_path).weights.space.spaces)
    rng, n_illegal = np.random.default_rng(1), 0
    point = encoding.random(rng)
    for _ in range(60):
        point = encoding.crossed(encoding.neighbour(point, rng, n_changes=3), encoding.random(rng), rng)
        which, code = point
        schedule = encoding.schedule(point)
        assert encoding.spaces[which].contains(schedule)
        assert _native.supports(schedule.operation, schedule) is None
        assert encoding.schedule(point) == schedule
        n_illegal += legal(encoding.spaces[which], code) is None
    assert n_illegal, "no drawn point was illegal, so that none was repaired"
