"""Fuzz tests of forks: a child computes, whatever other threads of its parent were doing (see `forks`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from autosparse._native import runtime_api

from tests.fuzz import forks

pytestmark = [
    pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is POSIX"),
]


def _run(kind: str, n_forks: int, seed: int, folder: Path) -> None:
    command = [sys.executable, forks.__file__, kind, str(n_forks), str(seed)]
    environment = {**os.environ, "AUTOSPARSE_CACHE_DIR": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-5000:]}"


@pytest.mark.parametrize(("kind", "n_forks"), [("busy", 12), ("importing", 3)])
def test_children_compute(kind: str, n_forks: int, tmp_path: Path) -> None:
    _run(kind, n_forks, 0, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1, 5))
def test_many_children_compute(seed: int, tmp_path: Path) -> None:
    _run("busy", 2450, seed, tmp_path)
    _run("importing", 50, seed, tmp_path)
