"""Tests of records that are written with a delay: readers find them at once, and the end of the process writes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from autosparse.cache.store import Store


def n_files(folder) -> int:
    return len(list(folder.rglob("*.json")))


def test_a_deferred_record_is_readable_at_once_and_written_soon(tmp_path):
    store = Store(tmp_path)
    store.save_later("features", "ab" * 16, lambda: {"values": [1.0]})
    assert store.load("features", "ab" * 16) == {"values": [1.0]}
    store.save_later("features", "cd" * 16, lambda: {"values": [2.0]})
    deadline = time.monotonic() + 300.0
    while n_files(tmp_path) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert Store(tmp_path).load("features", "cd" * 16) == {"values": [2.0]}


def test_listing_and_clearing_include_deferred_records(tmp_path):
    store = Store(tmp_path)
    store.save_later("features", "ab" * 16, lambda: {"values": [1.0]})
    assert [envelope.record for envelope in store.envelopes(["features"])] == [{"values": [1.0]}]
    store.save_later("features", "cd" * 16, lambda: {"values": [2.0]})
    store.remove("features", "cd" * 16)
    store.flush()
    assert store.load("features", "cd" * 16) is None
    store.save_later("features", "ef" * 16, lambda: {"values": [3.0]})
    store.clear()
    store.flush()
    assert n_files(tmp_path) == 0


def test_the_last_of_several_is_kept(tmp_path):
    store = Store(tmp_path)
    for value in (1.0, 2.0, 3.0):
        store.save_later("features", "ab" * 16, lambda value=value: {"values": [value]})
    store.flush()
    assert Store(tmp_path).load("features", "ab" * 16) == {"values": [3.0]}


PROGRAM = """
import os, signal, sys
from pathlib import Path
from autosparse.cache import late
from autosparse.cache.store import Store
late.DELAY_S = 3600.0
store = Store(Path(sys.argv[1]))
store.save_later("features", "ab" * 16, lambda: {"values": [7.0]})
if sys.argv[2] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def ran(folder, how: str) -> int:
    return subprocess.run([sys.executable, "-c", PROGRAM, str(folder), how], check=False, env=os.environ).returncode


def test_deferred_records_are_written_at_exit(tmp_path):
    assert ran(tmp_path, "end") == 0
    assert Store(tmp_path).load("features", "ab" * 16) == {"values": [7.0]}


def test_a_killed_process_leaves_nothing_half_written(tmp_path):
    assert ran(tmp_path, "kill") != 0
    for path in tmp_path.rglob("*.json"):
        json.loads(path.read_text())
    assert Store(tmp_path).load("features", "ab" * 16) is None
    assert list(tmp_path.rglob("staging/*")) == []


def test_a_forked_child_leaves_writing_to_its_parent(tmp_path):
    store = Store(tmp_path)
    store._late["features", "ab" * 16] = lambda: {"values": [1.0]}
    store.reset_after_fork()
    store.flush()
    assert n_files(tmp_path) == 0
