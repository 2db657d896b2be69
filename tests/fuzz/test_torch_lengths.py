"""Fuzz tests of the public calls of `autosparse.torch` with wrong lengths, ids, dtypes, dimensions and objects."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.house.sources import REPOSITORY

pytest.importorskip("torch", reason="torch is not installed (extra: torch)")

N_CASES = 12_000
PARTS = 4


@pytest.fixture
def small_products_as_they_were():
    from autosparse.torch import thresholds

    kept = thresholds.DIRECT_PRODUCT, thresholds.DIRECT_SAMPLE
    yield
    thresholds.DIRECT_PRODUCT, thresholds.DIRECT_SAMPLE = kept


@pytest.mark.usefixtures("small_products_as_they_were")
def test_a_hundred_calls_are_right_or_refused():
    from tests.fuzz.torch_calls import run_all

    outcomes = run_all(120, seed=7)
    assert sum(n for outcome, n in outcomes.items() if outcome.endswith("right")) > 30
    assert sum(n for outcome, n in outcomes.items() if outcome.endswith("refused")) > 30


@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
def test_thousands_of_calls_are_right_or_refused(part):
    """The calls run in another process, so that a crash fails the test only."""
    n = N_CASES // PARTS
    command = [sys.executable, "-m", "tests.fuzz.torch_calls", str(n), str(1000 + part * n)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
