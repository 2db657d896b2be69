"""Tests of the benchmark of short programs that run again: it runs, and its rules name what is wrong."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
import second_run
from second_run import Outcome, Run

FIRST = Run(n=1000, run_s=0.3, median_s=3e-4, life_s=0.6)
TUNED = Run(n=1000, run_s=0.1, median_s=1e-4, life_s=0.4, served_after=0, served_after_ms=0.0)


def outcome(later: Run = TUNED, after: Run = TUNED, *, n_runs: int = 12) -> Outcome:
    return Outcome("a program", [FIRST, *[later] * (n_runs - 1)], TUNED, after, [TUNED] * max(0, n_runs - 9))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (outcome(), []),
        (outcome(replace(TUNED, life_s=0.67)), ["1.1 x the first"]),
        (outcome(replace(TUNED, median_s=1.1e-4)), ["1.10 x tuned ones"]),
        (outcome(replace(TUNED, median_s=1.1e-4), n_runs=9), []),
        (outcome(after=FIRST), ["was not served"]),
        (outcome(after=replace(TUNED, served_after=31, served_after_ms=10.1)), ["after 31 products"]),
        (outcome(after=replace(TUNED, served_after=31, served_after_ms=9.9)), []),
        (outcome(after=replace(TUNED, served_after=30, served_after_ms=90.0)), []),
    ],
)
def test_the_report_names_each_fault(found: Outcome, words: list[str]) -> None:
    assert len(found.reasons()) == len(words)
    assert all(word in reason for word, reason in zip(words, found.reasons(), strict=True))
    assert second_run.report(found).count("\n|") == len(found.runs) + 4


@pytest.mark.full
def test_the_script_runs() -> None:
    command = [sys.executable, second_run.__file__, "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "| after tune |" in done.stdout
