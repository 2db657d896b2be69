"""Tests of the whole-program benchmarks at toy size: SciPy's answer, unchanged inputs, rounds and intervals."""

from __future__ import annotations

import copy
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

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "programs.py"


def names() -> list[str]:
    """Return the names of the programs, with the folder of the benchmarks on the path."""
    if str(SCRIPT.parent) not in sys.path:
        sys.path.insert(0, str(SCRIPT.parent))
    return list(importlib.import_module("programlib.catalogue").PROGRAMS)


@pytest.mark.parametrize("name", names())
def test_both_libraries_agree(name: str) -> None:
    import autosparse

    program: Any = importlib.import_module("programlib.catalogue").PROGRAMS[name]
    for module in (*program.modules, *program.made_with):
        pytest.importorskip(module)
    as_arrays = importlib.import_module("programlib.child").as_arrays
    compare = importlib.import_module("programlib.race").compare
    inputs = dict(program.prepare(True))
    theirs = as_arrays(program.run(scipy.sparse, **copy.deepcopy(inputs)))
    ours = as_arrays(program.run(autosparse, **inputs))
    assert sum(array.size for array in theirs) > 0
    compare(name, theirs, ours, program.rtol)


def test_a_wrong_answer_fails() -> None:
    race = importlib.import_module("programlib.race")
    right = [np.ones(3)]
    assert race.compare("p", right, [np.ones(3) + 1e-9], 1e-6) < 1e-8
    with pytest.raises(race.WrongAnswerError):
        race.compare("p", [np.full(3, 1e200)], [np.full(3, 2e200)], 1e-6)
    for wrong in (np.ones(3) * 1.1, np.ones(4), np.full(3, np.nan)):
        with pytest.raises(race.WrongAnswerError):
            race.compare("p", right, [wrong], 1e-6)


def test_variables_reach_both_and_settings_are_spelled_out() -> None:
    found = importlib.import_module("programs").environment_of(["threads=1", "OPENBLAS_NUM_THREADS=1"])
    assert found == {"AUTOSPARSE_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def test_a_round_beside_other_processes_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    race = importlib.import_module("programlib.race")
    others = race.Spent(wall_s=12.0, all_s=7.5, children_s=2.0).others_since(race.Spent(10.0, 5.0, 1.0))
    assert others == pytest.approx(1.5 / 2.0 / (race.os.cpu_count() or 1))
    # load of other processes by round: two rounds are kept, two more are too disturbed
    shares = iter([0.5, 0.0, 0.3, 0.2, 0.1])

    def call(arguments: tuple[object, ...], environment: object) -> str:
        if arguments[0] == "run":
            np.savez(str(arguments[4]), np.ones(3))
        return json.dumps({"wall_s": 1.0, "cpu_s": 1.0, "peak_mb": 1.0})

    monkeypatch.setattr(race, "call", call)
    monkeypatch.setattr(race.Spent, "others_since", lambda self, before: next(shares))
    program = importlib.import_module("programlib.catalogue").PROGRAMS["gmres"]
    found = race.race(program, rounds=2, environment={}).record()
    assert found["n_repeated"] == 2
    assert found["disturbed"] == [0.0, 0.2]
    assert len(found["samples_s"]["autosparse"]) == 2


def test_rounds_go_on_while_the_ratio_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a program whose runs vary more than the libraries differ, and one that is slower in every round."""
    race = importlib.import_module("programlib.race")
    program = importlib.import_module("programlib.catalogue").PROGRAMS["gmres"]
    monkeypatch.setattr(race.Spent, "others_since", lambda self, before: 0.0)
    for theirs, ours, n, low, high in (((1.0, 2.0), (2.0, 1.0), 9, 0.5, 2.0), ((1.0, 1.1), (1.5, 1.4), 3, 0.6, 0.8)):
        times = {"scipy.sparse": itertools.cycle(theirs), "autosparse": itertools.cycle(ours)}

        def call(arguments: tuple[object, ...], environment: object, times: Any = times) -> str:
            if arguments[0] == "run":
                np.savez(str(arguments[4]), np.ones(3))
                return json.dumps({"wall_s": next(times[arguments[3]]), "cpu_s": 1.0, "peak_mb": 1.0})
            return ""

        monkeypatch.setattr(race, "call", call)
        found = race.race(program, rounds=3, most=9, environment={})
        assert len(found.disturbed) == n
        assert low <= found.interval()[0] <= found.ratio() <= found.interval()[1] <= high


def test_versions_have_caches_of_their_own_and_take_turns_in_being_first(monkeypatch: pytest.MonkeyPatch) -> None:
    race = importlib.import_module("programlib.race")
    program = importlib.import_module("programlib.catalogue").PROGRAMS["gmres"]
    monkeypatch.setattr(race.Spent, "others_since", lambda self, before: 0.0)
    calls: list[tuple[str, str]] = []

    def call(arguments: tuple[object, ...], environment: dict[str, str], python: str = "this version") -> str:
        if arguments[0] == "run":
            np.savez(str(arguments[4]), np.ones(3))
            calls.append((python, environment["AUTOSPARSE_CACHE_DIR"]))
        return json.dumps({"wall_s": 1.0, "cpu_s": 1.0, "peak_mb": 1.0})

    monkeypatch.setattr(race, "call", call)
    race.race(program, rounds=2, environment={}, against="other version")
    assert [python for python, _ in calls] == ["this version", "other version", "other version", "this version"]
    assert len({cache for _, cache in calls}) == 4


@pytest.mark.full
def test_the_script_runs_a_program_and_writes_what_it_found(tmp_path: Path) -> None:
    out = tmp_path / "programs.jsonl"
    command = [sys.executable, str(SCRIPT), "--only", "knn_smoothing", "--rounds", "1", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["run", "case"]
    assert lines[1]["ratio"] > 0
    assert "knn_smoothing" in out.with_suffix(".md").read_text()


def test_shares_count_outermost_calls_of_replaced_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = importlib.import_module("programlib.shares")
    ticks = itertools.count()
    monkeypatch.setattr(shares.time, "thread_time", lambda: float(next(ticks)))  # a call takes one second
    clock = shares.Clock()
    row_sums = clock.wrapped(lambda A: A.sum(axis=1), "sum")
    product = clock.wrapped(lambda A, B: (row_sums(A), A @ B)[1], "__matmul__")
    A, D = scipy.sparse.eye_array(3, format="csr"), scipy.sparse.eye_array(3, format="dia")
    found = product(A, A)
    assert clock.seconds == 1.0  # the inner call is a part of the outer one
    row_sums(found)
    assert clock.seconds == 2.0
    scaled = product(D, A)
    row_sums(scaled)
    product(scaled, A)
    assert clock.seconds == 2.0
    assert shares.bounds(0.0) == (1.0, 1.0)
    assert shares.bounds(0.5) == (2.0, 1 / (0.5 + 0.5 / shares.GAIN))
    records = [{"name": name, "what": "", "total_s": 1.0, "share": share} for name, share in (("a", 0.0), ("b", 0.75))]
    assert "Geometric means of the bounds: 2.00" in shares.table(records)
