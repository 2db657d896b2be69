"""Tests of several processes on one cache, some of them killed: whole records, one build, no lock left behind."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from autosparse.cache import locks
from autosparse.cache.folder import Folder
from autosparse.cache.store import Store

from tests.cache import writers

pytestmark = pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
N_PROCESSES = 8


def _start(program: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", writers.__file__, program, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _result(process: subprocess.Popen[str]) -> dict[str, object]:
    try:
        out, err = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 0, err
    return dict(json.loads(out))


def test_a_process_killed_at_any_moment_leaves_a_valid_cache(folder: Path) -> None:
    done = _result(_start("kill_loop", folder))
    assert done["kills"] == 60
    assert int(str(done["reports"])) >= 60


def test_processes_at_once_build_once_and_lose_no_update(folder: Path) -> None:
    Store(folder)
    processes = [_start("contend", folder) for _ in range(N_PROCESSES)]
    while len(list(folder.glob("ready.*"))) < N_PROCESSES:
        assert all(process.poll() is None for process in processes)
        time.sleep(0.005)
    (folder / "go").touch()
    results = [_result(process) for process in processes]
    assert len(list(folder.glob("built.*"))) == 1
    assert {str(result["path"]) for result in results} == {str(results[0]["path"])}
    assert all(result["whole"] for result in results)
    assert Store(folder).load("machine", "counter") == {"n": 20 * N_PROCESSES}
    root = Folder.open(folder).root
    assert not list(root.glob("locks/*"))
    assert not list(root.glob("staging/*"))


def test_waiting_too_long_builds_a_private_kernel(folder: Path) -> None:
    from autosparse.cache.artefacts import versioned_key

    store = Store(folder)
    with Folder.open(folder).lock("kernel", versioned_key("k"), wait_s=0.0) as is_held:
        assert is_held
        path = store.artefact("k", lambda path: (path / "k.so").write_bytes(b"mine") and None, wait_s=0.01)
        assert (path / "k.so").read_bytes() == b"mine"
        assert folder not in path.parents
    assert store.stats().access == "read and write"


def test_fork_while_another_thread_holds_locks(folder: Path) -> None:
    done = _result(_start("fork_while_locked", folder))
    assert done == {"child held": False, "child record": {"from": "child"}, "child locks": 0, "parent again": True}


def test_lock_dies_with_its_holder_though_a_child_lives_on(folder: Path) -> None:
    assert _result(_start("orphan_lock", folder)) == {"before": False, "after": True}


def test_lock_on_a_file_that_its_last_holder_removed_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between open and flock, let the holder remove the file and a third process lock a new file of the same name."""
    path, real, opened = tmp_path / "x.lock", locks._try_lock, []

    def late(fd: int) -> bool:
        if not opened:
            path.unlink()
            opened.append(path.open("w"))
            assert real(opened[0].fileno())
        return real(fd)

    monkeypatch.setattr(locks, "_try_lock", late)
    with locks.hold(path, wait_s=0.0) as is_held:
        assert not is_held
    opened[0].close()
    with locks.hold(path, wait_s=0.0) as is_held:
        assert is_held
    assert not path.exists()
