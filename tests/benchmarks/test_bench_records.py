"""Tests of ratios, distributions, and result files that survive a killed process."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peerlib.records import ResultFile, given_arguments
from peerlib.summary import Distribution, best_peer, ratios
from peerlib.table import aligned, seconds, worst

from tests.conftest import REPOSITORY

OURS = {False: "autosparse", True: "autosparse-out"}


def test_ratios_compare_calls_with_the_same_output_mode() -> None:
    times_s = {"autosparse": 2.0, "autosparse-out": 1.0, "scipy": 6.0, "mkl": 1.5}
    fills = {"autosparse": False, "autosparse-out": True, "scipy": False, "mkl": True}
    assert ratios(times_s, fills, OURS) == {"scipy": 3.0, "mkl": 1.5}
    assert best_peer("m", ratios(times_s, fills, OURS)).peer == "mkl"


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=40))
def test_distribution_is_ordered_and_scales(found: list[float]) -> None:
    dist, twice = Distribution.of(found), Distribution.of([2 * ratio for ratio in found])
    slack = 1 + 1e-9
    assert dist.least <= dist.p5 * slack
    assert dist.p5 <= dist.p50 * slack <= dist.p95 * slack**2
    assert min(found) <= dist.geomean * slack
    assert dist.geomean <= max(found) * slack
    assert twice.geomean == pytest.approx(2 * dist.geomean)
    assert Distribution.of(found[::-1]) == dist


def test_result_file_keeps_the_newest_of_each_key_and_survives_a_torn_line(tmp_path: Path) -> None:
    results = ResultFile(tmp_path / "deep" / "r.jsonl")
    assert results.cases() == []
    results.append({"kind": "run", "run": "x"})
    results.append({"kind": "case", "key": "a", "ratio": 1.0, "effort": "off"})
    with results.path.open("a") as stream:  # type: ignore[union-attr]
        stream.write('{"kind": "case", "key": "b", "rat')
    results.append({"kind": "case", "key": "a", "ratio": 2.0, "effort": "off"})
    assert results.cases() == [{"kind": "case", "key": "a", "ratio": 2.0, "effort": "off"}]
    assert results.cases(effort="full") == []


def test_no_path_keeps_nothing() -> None:
    results = ResultFile(None)
    results.append({"kind": "case", "key": "a"})
    assert results.cases() == []


@pytest.mark.parametrize(("value_s", "text"), [(1.5, "1.5 s"), (2e-3, "2 ms"), (3.14159e-6, "3.14 us"), (None, "-")])
def test_seconds_are_formatted_with_units(value_s: float | None, text: str) -> None:
    assert seconds(value_s) == text


def test_tables_line_up() -> None:
    lines = aligned([["a", "bb"], ["ccc", "d"]]).split("\n")
    assert lines == ["a    bb", "ccc   d"]
    assert worst([best_peer("x", {"p": 2.0}), best_peer("y", {"p": 0.5})], n=1) == "worst: y 0.500 (p)"


def test_results_name_no_folder_of_a_machine(tmp_path: Path) -> None:
    line = ["--matrices", str(tmp_path / "matrices"), "--only", "wiki-Vote", "--json", "-"]
    assert given_arguments(line) == ["--matrices", "matrices", "--only", "wiki-Vote", "--json", "-"]
    results = REPOSITORY / "benchmarks" / "results"
    files = [path for path in results.rglob("*") if path.suffix in {".json", ".jsonl", ".md"}]
    assert files
    assert [path.name for path in files if re.search(r"/(home|root|tmp|work)/", path.read_text(encoding="utf-8"))] == []
