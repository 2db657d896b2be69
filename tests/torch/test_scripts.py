"""Tests of the examples and benchmarks of torch, end to end on small graphs."""

from __future__ import annotations

import importlib
import json
import runpy
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from tests.torch.samples import torch

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = ("gcn", "graphsage", "gat", "pruned_mlp")


@pytest.fixture
def folder(tmp_path):
    if not (REPOSITORY / "benchmarks").is_dir():
        pytest.skip("the benchmarks are not installed with the package")
    m = scipy.sparse.random_array((200, 200), density=0.02, format="csr", random_state=np.random.default_rng(0))
    scipy.sparse.save_npz(tmp_path / "small.npz", m.astype(np.float32))
    return tmp_path


def run_script(*command):
    done = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.full
def test_product_benchmark_measures_once_and_resumes(folder):
    out = folder / "out.jsonl"
    given = ("--matrices", folder, "--min-nnz", 1, "--widths", "3,16", "--rounds", 3, "--most-s", 0.1, "--threads", 1)
    text = run_script(REPOSITORY / "benchmarks" / "bench_torch.py", *given, "--json", out)
    assert "geomean" in text
    assert "A @ B, 8 x 8" in text
    records = out.read_text().splitlines()
    kinds = [json.loads(line)["kind"] for line in records]
    assert kinds == ["run", "overhead"] + ["case"] * 6  # 3 cases, 2 widths
    assert {json.loads(line)["case"] for line in records[2:]} == {"forward", "training", "sampled"}
    run_script(REPOSITORY / "benchmarks" / "bench_torch.py", *given, "--json", out)
    assert out.read_text().splitlines() == records


@pytest.mark.full
def test_graph_network_benchmark_compares_loss_curves(folder):
    out = folder / "out.jsonl"
    given = ("--matrices", folder, "--graphs", "small", "--large", "", "--epochs", 7, "--hidden", 16, "--threads", 1)
    run_script(REPOSITORY / "benchmarks" / "gnn.py", *given, "--no-compile", "--no-mlp", "--json", out)
    run, *records = [json.loads(line) for line in out.read_text().splitlines()]
    assert run["kind"] == "run"
    assert [record["model"] for record in records] == ["gcn", "sage", "gat"]
    for record in records:
        assert {"torch.sparse", "autosparse override", "autosparse"} <= set(record["epoch_s"])
        assert all(gap < 1e-4 for gap in record["loss_gap"].values())


@pytest.mark.full
def test_loss_curves_are_measured_beside_torchs_own(folder):
    out = folder / "curves.jsonl"
    given = ("--matrices", folder, "--graphs", "small", "--models", "gcn,gat", "--epochs", 4, "--hidden", 16)
    text = run_script(REPOSITORY / "benchmarks" / "loss_curves.py", *given, "--threads", 1, "--json", out)
    run, *records = [json.loads(line) for line in out.read_text().splitlines()]
    assert run["kind"] == "run"
    assert [record["model"] for record in records] == ["gcn", "gat"]
    for record in records:
        assert record["to_torch"]["torch.sparse again"] == 0.0, "one thread sums in one order"
        assert 0 < record["to_float64"]["torch.sparse"] < 1e-4
        assert record["to_torch"]["autosparse"] < 1e-4
        assert record["float64"] < 1e-12
        assert f"{record['model']} small" in text


@pytest.mark.full
def test_comparison_with_pytorchs_own_tests_tells_right_from_wrong(tmp_path):
    """Run two tests in the form of PyTorch's: both agree under the override, and wrong products are noticed."""
    script, file = Path(__file__).with_name("upstream.py"), tmp_path / "test_small.py"
    file.write_text(
        "import torch\n"
        "def test_mm():\n    A = torch.eye(3)\n    assert torch.equal(A.to_sparse_csr() @ A, A)\n"
        "def test_mm_that_pytorch_fails():\n    assert not torch.ones(1)\n"
        "def test_other():\n    assert False\n"
    )
    text = run_script(script, file)
    assert "override: 2 tests, 1 passed, 1 failed" in text
    assert "override: matrix 1" in text
    assert "the long way: multiply 1" in text
    assert "0 tests differ" in text
    assert "1 tests differ" in run_script(script, file, "--control")


@pytest.mark.filterwarnings("ignore:Sparse", "ignore:index_reduce")
@pytest.mark.parametrize(
    "name", ["gcn", *(pytest.param(one, marks=pytest.mark.full) for one in EXAMPLES if one != "gcn")]
)
def test_examples_run_on_a_small_graph(name, monkeypatch, capsys):
    examples = REPOSITORY / "examples"
    if not examples.is_dir():
        pytest.skip("the examples are not installed with the package")
    monkeypatch.syspath_prepend(examples)
    for module in ("graph", "training"):  # modules of other folders may have these names
        monkeypatch.delitem(sys.modules, module, raising=False)
    graph = importlib.import_module("graph")
    monkeypatch.setattr(graph, "communities", partial(graph.communities, n=300))
    runpy.run_path(str(examples / f"{name}.py"), run_name="__main__")
    assert "autosparse" in capsys.readouterr().out


@pytest.mark.full
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name, tmp_path):
    if not (REPOSITORY / "examples").is_dir():
        pytest.skip("the examples are not installed with the package")
    assert "autosparse" in run_script(REPOSITORY / "examples" / f"{name}.py")
    assert torch.__version__
