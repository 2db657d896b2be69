"""Fuzz tests of the torch override with malformed and unusual tensors: refused or PyTorch's answer, and no crash."""

from __future__ import annotations

import ast

import pytest

from tests.house.sources import REPOSITORY
from tests.processes import run_with_torch

pytest.importorskip("torch", reason="torch is not installed (extra: torch)")

N_QUICK = 500
N_CASES = 9_500
PARTS = 2


def run(n: int, seed: int) -> dict[str, int]:
    """Return the outcomes of cases that run in another process, so that a crash fails the test only."""
    program = "import runpy; runpy.run_module('tests.fuzz.override_calls', run_name='__main__', alter_sys=True)"
    done = run_with_torch(program, str(n), str(seed), folder=REPOSITORY, seconds=3600)
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes: dict[str, int] = ast.literal_eval(done.stdout)
    return outcomes


def test_five_hundred_calls_of_the_override_are_right_or_refused():
    outcomes = run(N_QUICK, seed=0)
    for kind in ("right", "refused", "malformed"):
        assert sum(n for outcome, n in outcomes.items() if outcome.endswith(kind)) > 30
    assert sum(outcomes.values()) == N_QUICK


@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
def test_thousands_of_calls_of_the_override_are_right_or_refused(part):
    n = N_CASES // PARTS
    run(n, N_QUICK + part * n)
