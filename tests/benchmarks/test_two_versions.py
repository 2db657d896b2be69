"""Tests of the comparison of two versions: ratios, intervals, the second run of the old version, and all operations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
import two_versions as script
from autosparse._native import runtime_api

REPOSITORY = Path(__file__).resolve().parent.parent.parent


def rounds(old: list[float], new: list[float], again: list[float]) -> list[dict[str, Any]]:
    sides = zip(old, new, again, strict=True)
    return [
        {name: {"spmv": {"a.npz": s, "b.npz": 2 * s}} for name, s in zip(script.SIDES, one, strict=True)}
        for one in sides
    ]


def test_ratios_are_of_medians_and_the_second_run_is_beside_them() -> None:
    (line,) = script.lines_of(rounds([2.0, 4.0, 3.0], [1.0, 2.0, 1.5], [3.0, 3.0, 3.0]))
    assert line["geomean"] == pytest.approx(2.0)
    assert line["again"] == pytest.approx(1.0)
    assert [one["name"] for one in line["matrices"]] == ["a.npz", "b.npz"]
    low, high = line["matrices"][0]["interval"]
    assert low <= 2.0 <= high
    assert len(script.shown(line, per_matrix=True).splitlines()) == 3
    assert "below" not in script.shown(line, per_matrix=True)


def test_a_slower_matrix_is_marked() -> None:
    (line,) = script.lines_of(rounds([1.0, 1.1, 1.0], [1.3, 1.3, 1.4], [1.0, 1.0, 1.0]))
    assert script.shown(line, per_matrix=True).count("below 0.97") == 2


def test_each_version_is_imported_from_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment that runs the script has a checkout installed, and the current folder is one."""
    names = ("autosparse", *(f"autosparse.{name}" for name in script.BESIDE))
    code = f"import importlib\nout['files'] = {{importlib.import_module(name).__file__: 0.0 for name in {names}}}\n"
    monkeypatch.setitem(script.CHILDREN, "small", code)
    monkeypatch.chdir(REPOSITORY)
    folder = script.whole_package(REPOSITORY, tmp_path / "links")
    found = script.measured("small", folder, {}, {})
    assert len(found["files"]) == len(names)
    assert all(file.startswith(str(tmp_path / "links")) for file in found["files"])
    assert script.whole_package(tmp_path / "links", tmp_path / "more") == folder, "no checkout"


@pytest.mark.full
@pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")
def test_every_operation_is_compared(tmp_path: Path) -> None:
    folder, found = tmp_path / "matrices", tmp_path / "found.jsonl"
    folder.mkdir()
    for n in (60, 80):
        m = sps.random_array((n, n), density=0.1, format="csr", random_state=np.random.default_rng(n))
        sps.save_npz(folder / f"{n}.npz", m)
    texts = [str(REPOSITORY), str(REPOSITORY), "--matrices", str(folder), "--count", "2", "--json", str(found)]
    texts += ["--only", "untuned", "--operations", "all", "--dtypes", "float32", "float64", "--rounds", "1"]
    script.main([*texts, "--isa", "avx2"])
    lines = [json.loads(line) for line in found.read_text(encoding="utf-8").splitlines()]
    wanted = {f"untuned {name}, {dtype}" for name in script.OPERATIONS for dtype in ("float32", "float64")}
    assert {line["kind"] for line in lines} == wanted
    assert all(line["n"] == 2 and line["isa"] == "avx2" for line in lines)
