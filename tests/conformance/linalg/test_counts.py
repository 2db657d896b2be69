"""Test of the share of calls of SciPy's tests that our solvers compute, in a process that runs all these tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.linalg import differences

KRYLOV = ("cg", "cgs", "bicgstab", "minres", "gmres", "qmr", "lsqr", "lsmr")
MIN_KRYLOV_SHARE = 0.95
MIN_SHARE = 0.95
"""Minimum share of the calls of all solvers that our code must compute or refuse."""


@pytest.fixture
def matrices_made_ours() -> None:
    """Do nothing, so that the test of the folder runs once: the tests in it switch their matrices themselves."""


@pytest.mark.full
def test_calls_of_scipys_tests_ran_ours(tmp_path: Path) -> None:
    file = tmp_path / "counts.json"
    command = [sys.executable, "-m", "pytest", "-q", "--full", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line"]
    run = subprocess.run(
        [*command, "--ignore", __file__, str(differences.FOLDER)], cwd=differences.FOLDER.parents[2],
        env={**os.environ, differences.COUNTS: str(file)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-3000:]
    rows = json.loads(file.read_text(encoding="utf-8"))
    assert share([row for row in rows if row[0] in KRYLOV]) >= MIN_KRYLOV_SHARE, rows
    assert share(rows) >= MIN_SHARE, rows


def share(rows: list[Any]) -> float:
    """Return the share of the calls that our code computed or refused."""
    ran: Counter[str] = Counter()
    for _, kind, n in rows:
        ran[kind] += n
    assert ran["ours"] >= 1000
    return (ran["ours"] + ran["arguments"]) / (ran.total() - ran["as given"])
