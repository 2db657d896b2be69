"""Tests of the benchmark of ways to hold a matrix: each runs with SciPy, untuned and tuned, and makes a table row."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "holding.py"


def ways() -> dict[str, Any]:
    """Return the ways by name, with the folder of the benchmarks on the path."""
    if str(SCRIPT.parent) not in sys.path:
        sys.path.insert(0, str(SCRIPT.parent))
    return dict(importlib.import_module("holdinglib.ways").WAYS)


@pytest.mark.parametrize("name", ways())
@pytest.mark.parametrize("columns", [1, 4])
def test_both_libraries_compute_the_same(name: str, columns: int) -> None:
    library = importlib.import_module("holdinglib.ways").Library
    way = ways()[name]
    m = scipy.sparse.random_array((70, 70), density=0.2, format="csr", random_state=np.random.default_rng(0))
    x = np.random.default_rng(1).random((70, columns))
    x = x[:, 0].copy() if columns == 1 else x
    ours, theirs = (way.make(library(is_ours, x), m.copy()) for is_ours in (True, False))
    for _ in range(60):  # one of the ways drops its matrix after fifty steps
        np.testing.assert_allclose(ours.step(), theirs.step(), rtol=1e-12)
    if ours.A is not None:
        assert ours.A.shape == m.shape


def test_at_least_twenty_usage_patterns_include_those_on_the_page() -> None:
    found = ways()
    assert len(found) >= 20
    assert {"set all", "scaled"} <= {name for name, way in found.items() if way.writes}
    assert not any(way.owns and way.writes for way in found.values())


@pytest.mark.full
def test_the_script_makes_a_table(tmp_path: Path) -> None:
    out = tmp_path / "holding.jsonl"
    given = ["--quick", "--only", "owned,set all,anew", "--columns", "1,2", "--dtypes", "float32", "--out", str(out)]
    done = subprocess.run([sys.executable, str(SCRIPT), *given], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    cases = [record for record in map(json.loads, out.read_text().splitlines()) if record["kind"] == "case"]
    assert [(case["way"], case["columns"]) for case in cases] == [
        (way, columns) for way in ("owned", "set all", "anew") for columns in (1, 2)
    ]
    assert all(set(case["median_us"]) == {"scipy", "default", "tuned"} for case in cases)
    assert [case["look_us"] is None for case in cases] == [False] * 4 + [True] * 2
    table = out.with_suffix(".md").read_text()
    assert table.count("\n| `") == 6
    assert "6 cases: gain over the default kernel" in table


def test_rounds_go_on_while_the_gain_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ways()
    holding = importlib.import_module("holding")
    tuned = iter([10.0, 10.5, 9.8, 10.4, 10.1, 10.2, 9.9, 9.7])

    def run_once(way: object, case: object, *, quick: bool) -> dict[str, Any]:
        return {"median_us": {"scipy": 20.0, "default": 10.0, "tuned": next(tuned)}, "look_us": 1.0}

    monkeypatch.setattr(holding, "run_once", run_once)
    args = holding.arguments(["--rounds", "3", "--most-rounds", "5"])
    case = {"matrix": "grid", "columns": 1, "dtype": "float32"}
    record = holding.measured(found["owned"], case, args)
    assert len(record["rounds"]) == 5
    assert record["interval"][0] < holding.ENOUGH <= record["interval"][1]
    assert record["gain"] == pytest.approx(10.0 / 10.1)
    assert record["look_us"] == 1.0
