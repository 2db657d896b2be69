"""The examples and the benchmarks of torch, end to end on small graphs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from tests.torch.world import torch

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = ("gcn", "graphsage", "gat", "pruned_mlp")


@pytest.fixture
def folder(tmp_path):
    if not (REPOSITORY / "benchmarks").is_dir():
        pytest.skip("the benchmarks are not installed with the package")
    m = scipy.sparse.random_array((200, 200), density=0.02, format="csr", rng=np.random.default_rng(0))
    scipy.sparse.save_npz(tmp_path / "small.npz", m.astype(np.float32))
    return tmp_path


def run_script(*command):
    done = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_product_benchmark_measures_once_and_resumes(folder):
    out = folder / "out.jsonl"
    given = ("--matrices", folder, "--min-nnz", 1, "--widths", "3,16", "--rounds", 3, "--most-s", 0.1, "--threads", 1)
    text = run_script(REPOSITORY / "benchmarks" / "bench_torch.py", *given, "--json", out)
    assert "geomean" in text
    assert "A @ B, 8 x 8" in text
    records = out.read_text().splitlines()
    assert len(records) == 6  # 3 cases, 2 widths
    assert {json.loads(line)["case"] for line in records} == {"forward", "training", "sampled"}
    run_script(REPOSITORY / "benchmarks" / "bench_torch.py", *given, "--json", out)
    assert out.read_text().splitlines() == records


def test_graph_network_benchmark_compares_loss_curves(folder):
    out = folder / "out.jsonl"
    given = ("--matrices", folder, "--graphs", "small", "--large", "", "--epochs", 7, "--hidden", 16, "--threads", 1)
    run_script(REPOSITORY / "benchmarks" / "gnn.py", *given, "--no-compile", "--no-mlp", "--json", out)
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [record["model"] for record in records] == ["gcn", "sage", "gat"]
    for record in records:
        assert {"torch.sparse", "autosparse override", "autosparse"} <= set(record["epoch_s"])
        assert all(gap < 1e-4 for gap in record["loss_gap"].values())


@pytest.mark.full
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name, tmp_path):
    if not (REPOSITORY / "examples").is_dir():
        pytest.skip("the examples are not installed with the package")
    assert "autosparse" in run_script(REPOSITORY / "examples" / f"{name}.py")
    assert torch.__version__
