"""Tests of tuning in several processes, concurrent or killed: products stay right, and no lock stays held."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

import pytest
from autosparse.cache.folder import Folder
from autosparse.cache.store import Store

from tests.tuning import tuners

fcntl = pytest.importorskip("fcntl", reason="locks and signals of POSIX")


def _start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, tuners.__file__, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _result(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for the process, check that it ended well, and return the JSON that it printed last."""
    try:
        out, err = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    assert found["is_right"]
    return found


def _assert_clean(folder: Path) -> None:
    """Check that no lock is held and no record was found damaged."""
    root = Folder.open(folder).root
    assert Store(folder).stats().n_quarantined == 0
    assert Store(folder).stats().access == "read and write"
    for path in root.glob("kernels/*/*"):
        assert not path.is_dir() or any(path.iterdir()), "a kernel was published empty"
    for path in root.glob("locks/*"):  # a lock's file may outlive the process, the lock may not
        with path.open("r+b") as file:
            _take(file)


def _take(file: IO[bytes]) -> None:
    """Lock the file, and fail if another process keeps it locked for 20 s.

    A killed process may have been starting a compiler: the child keeps copies of its descriptors until it has closed
    them, which takes a moment longer than the parent's death.
    """
    for _ in range(200):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"{file.name} stays locked after the death of the process that locked it")


@pytest.mark.parametrize("n_processes", [2, pytest.param(8, marks=pytest.mark.full)])
def test_processes_tune_one_matrix_at_once(tmp_path: Path, n_processes: int) -> None:
    processes = [_start(tmp_path) for _ in range(n_processes)]
    found = [_result(process) for process in processes]
    assert len(found) == n_processes
    _assert_clean(tmp_path)
    again = _result(_start(tmp_path))  # a later process finds what they stored
    assert again["schedule"] in {one["schedule"] for one in found}, again["not_remembered"]
    assert not list(Folder.open(tmp_path).root.glob("locks/*"))
    assert not list(Folder.open(tmp_path).root.glob("staging/*"))


@pytest.mark.parametrize("n_kills", [2, pytest.param(80, marks=pytest.mark.full)])
def test_tuning_killed_at_any_moment(tmp_path: Path, n_kills: int) -> None:
    rng = random.Random(1)
    n_killed = 0
    for _ in range(n_kills):
        process = _start(tmp_path)
        assert process.stdout is not None
        assert process.stdout.readline() == "tuning\n"
        time.sleep(rng.uniform(0.0, 1.5))
        process.kill()
        process.communicate()
        n_killed += process.returncode == -signal.SIGKILL
        _assert_clean(tmp_path)
    assert n_killed
    found = _result(_start(tmp_path))
    assert found["why"]
    _assert_clean(tmp_path)
