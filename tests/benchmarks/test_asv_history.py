"""Tests of `benchmarks/asv_history.py`: records hold no facts of the host, and runs of one commit are joined."""

from __future__ import annotations

import json
import math

import asv_history

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def write_run(folder, results, name="run"):
    columns = ["result", "params", "version", "started_at", "duration"]
    run = {
        "commit_hash": COMMIT, "env_name": "existing-home_user_python", "date": 1, "python": "/home/user/python",
        "params": {"machine": "host", "cpu": "chip", "ram": "9"}, "requirements": {}, "env_vars": {},
        "result_columns": columns, "results": results, "durations": {"<build>": 1.0}, "version": 2,
    }  # fmt: skip
    folder.mkdir(exist_ok=True)
    (folder / f"{COMMIT[:8]}-{name}.json").write_text(json.dumps(run), encoding="utf-8")


def test_a_record_names_the_kind_of_machine_and_no_host(tmp_path):
    write_run(tmp_path / "host", {"a.B.time_c": [[0.12345678, math.nan], [["'x'"]], "f" * 64, 1795891712659, 3.25]})
    [path] = asv_history.record(tmp_path / "host", "two-cores", tmp_path / "history")
    text = path.read_text(encoding="utf-8")
    assert not any(word in text for word in ("home", "host", "chip"))
    record = json.loads(text)
    [value, missing], params, version, started_at, _ = record["results"]["a.B.time_c"]
    assert value == 0.12346
    assert math.isnan(missing)
    assert (params, version, started_at) == ([["'x'"]], "f" * 64, 1795891712659)
    assert record["params"]["machine"] == json.loads((path.parent / "machine.json").read_text())["machine"]
    assert record["commit_hash"] == COMMIT


def test_later_runs_of_a_commit_replace_and_add(tmp_path):
    write_run(tmp_path / "host", {"a": [[1.0]], "b": [[2.0]]})
    asv_history.record(tmp_path / "host", "two-cores", tmp_path / "history")
    write_run(tmp_path / "host", {"b": [[3.0]], "c": [[4.0]]})
    [path] = asv_history.record(tmp_path / "host", "two-cores", tmp_path / "history")
    assert json.loads(path.read_text(encoding="utf-8"))["results"] == {"a": [[1.0]], "b": [[3.0]], "c": [[4.0]]}
