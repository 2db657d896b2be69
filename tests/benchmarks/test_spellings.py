"""Tests of the benchmark of spellings of products: right answers, goals judged by intervals, a quick run."""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "spellings.py"


def library(name: str) -> Any:
    if str(SCRIPT.parent) not in sys.path:
        sys.path.insert(0, str(SCRIPT.parent))
    return importlib.import_module(f"spellinglib.{name}")


@pytest.mark.parametrize("entries", [300, 10_000])
@pytest.mark.parametrize("name", list(library("catalogue").SPELLINGS))
def test_both_libraries_agree(name: str, entries: int) -> None:
    race = library("race")
    calls = race.calls(library("catalogue").SPELLINGS[name], entries)
    for _ in range(2):
        race.compare(name, calls["scipy"](), calls["ours"]())


def test_a_wrong_answer_fails() -> None:
    race = library("race")
    right = scipy.sparse.csr_array(np.diag([1.0, 2.0]))
    race.compare("same", right, right.copy())
    for wrong in (right * 2, scipy.sparse.csr_array((3, 2)), np.zeros((2, 2))):
        with pytest.raises(race.WrongAnswerError, match="differ"):
            race.compare("wrong", right, wrong)


def test_goals_of_transposed_products_begin_with_the_sizes_of_which_they_speak() -> None:
    spellings = library("catalogue").SPELLINGS
    assert [spellings["A.T @ y"].goal(entries) for entries in (300, 10_000, 400_000)] == [0.97, 0.97, 2.0]
    assert [spellings["A @ x"].goal(entries) for entries in (300, 10_000, 400_000)] == [0.97, 0.97, 0.97]
    assert len(spellings) >= 50


def test_a_goal_is_missed_only_if_the_whole_interval_is_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    race = library("race")
    spelling = library("catalogue").SPELLINGS["A @ x"]
    monkeypatch.setattr(race, "warm_up", lambda run, least_s: 1e-5)
    cases = (([1.0], [2.0], 3, True), ([1.0], [0.5], 3, False), ([1.0, 2.0], [2.0, 1.0], 9, False))
    for theirs, ours, n_rounds, misses in cases:
        samples = {"scipy": itertools.cycle(theirs), "ours": itertools.cycle(ours)}
        monkeypatch.setattr(race, "calls", lambda spelling, entries: {name: lambda: 0 for name in ("scipy", "ours")})
        turns = itertools.cycle(["ours", "scipy", "scipy", "ours"])  # the order is reversed in every round
        monkeypatch.setattr(race, "timed_calls", lambda run, n, clock, s=samples, t=turns: next(s[next(t)]))
        found = race.race(spelling, 300, race.Protocol(rounds=3, most_rounds=9))
        assert len(found.ours_s) == n_rounds
        assert found.misses is misses
        assert found.interval[0] <= found.ratio <= found.interval[1]


def test_the_quick_script_writes_its_results(tmp_path: Path) -> None:
    out = tmp_path / "spellings.jsonl"
    command = [
        sys.executable,
        str(SCRIPT),
        "--quick",
        "--only",
        "A @ x;int64 @ float64, 32 columns",
        "--json",
        str(out),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["run", "case", "case"]
    assert {line["spelling"] for line in lines[1:]} == {"A @ x", "int64 @ float64, 32 columns"}
    assert "int64 @ float64, 32 columns" in out.with_suffix(".md").read_text()


def test_parts_share_the_cases_among_them() -> None:
    library("race")  # puts the folder on the path
    parts = importlib.import_module("peerlib.shares")
    shares = [parts.share(range(7), parts.read_part(f"{k}/3")) for k in (1, 2, 3)]
    assert sorted(itertools.chain(*shares)) == list(range(7))
    for wrong in ("0/3", "4/3", "3", "a/b"):
        with pytest.raises(argparse.ArgumentTypeError):
            parts.read_part(wrong)
