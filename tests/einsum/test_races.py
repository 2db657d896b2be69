"""Tests of the races among programs of an einsum, with scripted times."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

from autosparse.config import Effort
from autosparse.contraction.race import ReadyProgram, fastest


def raced(priced, times_s, effort=Effort.MEASURE):
    """Return the winner, the names of all programs considered, and the runs of each, if a run takes `times_s`."""
    runs = Counter()
    tasks = {name: task for task, name in priced}

    def prepare(choice):
        return ReadyProgram(program=choice.knobs, tasks=tasks[choice.knobs], bound=None)

    def measure(ready):
        runs[ready.program] += 1
        return times_s[ready.program]

    found = fastest([(task, SimpleNamespace(text=name)) for task, name in priced], prepare, measure, effort)
    return found.program, [one.name for one in found.plan.candidates], runs


def test_one_program_of_each_price_is_run_then_variants_of_the_fastest():
    priced = [(10, "a"), (10, "a2"), (12, "b"), (12, "b2"), (15, "c"), (39, "d"), (39.1, "e"), (41, "f")]
    times_s = {"a": 0.02, "a2": 0.02, "b": 0.01, "b2": 0.005, "c": 0.05, "d": 0.03}
    winner, considered, _ = raced(priced, times_s)
    assert winner == "b2"
    assert considered == ["a", "b", "c", "d", "b2"]
    assert raced(priced, times_s | {"b": 0.04})[0] == "a"


def test_slow_programs_run_least_and_ties_keep_the_cheapest():
    winner, _, runs = raced([(1, "a"), (2, "b"), (3, "c")], {"a": 0.01, "b": 0.01, "c": 0.9})
    assert winner == "a"
    assert runs["c"] == 2  # one to warm up, and one round
    assert raced([(1, "a"), (2, "b")], {"a": 0.01, "b": 0.009})[0] == "b"


def test_full_effort_times_programs_of_more_costs():
    priced = [(n, name) for n, name in enumerate("abcdef", start=10)]
    times_s = dict.fromkeys("abcdef", 0.01) | {"f": 0.001}
    assert raced(priced, times_s)[0] == "a"
    assert raced(priced, times_s, Effort.FULL)[0] == "f"
