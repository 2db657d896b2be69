"""Tests of export and import: round trips, better plans win, and no content of a file does harm."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from autosparse.cache import open_store, wisdom, wisdom_export, wisdom_forget, wisdom_import
from autosparse.cache.envelope import Envelope
from autosparse.cache.records import KINDS, WISDOM_KINDS, plan_from_record, plan_to_record
from autosparse.cache.store import Store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autosparse import config
from autosparse.config import Effort
from autosparse.core.plan import Plan
from autosparse.core.solver import DEFAULT
from autosparse.errors import CacheError, InputTypeError, OptionError
from tests.cache.conftest import failure, files_in, plans

fixtures_are_fine = settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])


@fixtures_are_fine
@given(stored=st.dictionaries(st.text(max_size=10), plans, max_size=4))
def test_export_and_import_round_trip(tmp_path: Path, stored: dict[str, Plan]) -> None:
    here, there = Store(None), Store(None)
    for key, plan in stored.items():
        here.save("plan", key, plan_to_record(plan))
    assert wisdom.write(here, tmp_path / "w.json", kinds=WISDOM_KINDS) == len(stored)
    assert wisdom.read(there, tmp_path / "w.json") == len(stored)
    for key, plan in stored.items():
        assert plan_from_record(there.load("plan", key) or {}) == dataclasses.replace(plan, remembered=True)
    assert wisdom.read(there, tmp_path / "w.json") == 0  # a second import changes nothing


@pytest.mark.parametrize("theirs", Effort)
@pytest.mark.parametrize("ours", Effort)
@pytest.mark.parametrize("newer", ["ours", "theirs"])
def test_higher_effort_wins_then_the_newer(tmp_path: Path, ours: Effort, theirs: Effort, newer: str) -> None:
    now = {"ours": 10.0, "theirs": 10.0} | {newer: 20.0}
    here = Store(tmp_path / "here", clock=lambda: now["ours"])
    there = Store(None, clock=lambda: now["theirs"])
    here.save("plan", "k", plan_to_record(Plan(choice=DEFAULT, why="ours", effort=ours.value)))
    there.save("plan", "k", plan_to_record(Plan(choice=DEFAULT, why="theirs", effort=theirs.value)))
    wisdom.write(there, tmp_path / "w.json", kinds=WISDOM_KINDS)
    theirs_wins = (theirs.rank, now["theirs"]) > (ours.rank, now["ours"])
    assert wisdom.read(here, tmp_path / "w.json") == theirs_wins
    for store in (here, Store(tmp_path / "here")):
        record = store.load("plan", "k")
        assert record is not None
        assert record["why"] == ("theirs" if theirs_wins else "ours")


def test_an_imported_plan_replaces_a_cached_miss(tmp_path: Path) -> None:
    there, here = Store(None), Store(tmp_path / "here")
    assert here.load("plan", "k") is None
    there.save("plan", "k", plan_to_record(Plan(choice=DEFAULT, why="w")))
    wisdom.write(there, tmp_path / "w.json", kinds=WISDOM_KINDS)
    wisdom.read(here, tmp_path / "w.json")
    assert here.load("plan", "k") is not None
    assert Store(tmp_path / "here").load("plan", "k") is not None


def test_wisdom_contains_no_machine_rates_failures_or_kernels(tmp_path: Path) -> None:
    store = Store(tmp_path / "here")
    store.save("machine", "m", {"compile": 1.0})
    store.save("failure", "f", failure())
    store.artefact("k", lambda path: (path / "k.so").write_bytes(b"code") and None)
    assert wisdom.write(store, tmp_path / "w.json", kinds=WISDOM_KINDS) == 0
    assert wisdom.write(store, tmp_path / "w.json", kinds=["failure"]) == 1
    with pytest.raises(OptionError, match="kinds"):
        wisdom.write(store, tmp_path / "w.json", kinds=["kernel"])


def test_broken_records_are_not_exported(tmp_path: Path) -> None:
    store = Store(tmp_path / "here")
    for key in ("a", "b"):
        store.save("plan", key, plan_to_record(Plan(choice=DEFAULT, why="w")))
    next(path for path in files_in(tmp_path / "here") if "plan-" in str(path)).write_text("{}")
    assert wisdom.write(Store(tmp_path / "here"), tmp_path / "w.json", kinds=WISDOM_KINDS) == 1


def _sealed(kind: str, key: str, record: dict[str, object], schema: int | None = None) -> dict[str, object]:
    schema = KINDS[kind].schema if schema is None and kind in KINDS else schema or 1
    return Envelope.seal(kind, key, record, schema=schema, saved_at=1.0).to_json()


GOOD = _sealed("plan", "good", plan_to_record(Plan(choice=DEFAULT, why="w")))
BAD_ENTRIES = {
    "not an object": 7,
    "checksum": {**GOOD, "checksum": "0" * 32},
    "more fields": {**GOOD, "path": "/etc/passwd"},
    "prices of another machine": _sealed("machine", "k", {"rates_s": {"pack": [1e-9, 3]}}),
    "failures of another machine": _sealed("failure", "k", failure()),
    "features": _sealed("features", "k", {"values": [1.0]}),
    "times that are no floats": _sealed("plan", "k", {"schedule": None, "why": "w", "tune_s": 10**400}),
    "times that are no numbers": _sealed("plan", "k", {"schedule": None, "why": "w", "measured_s": float("nan")}),
    "history of an earlier version": _sealed("history", "k", {"n_calls": 3}),
    "negative samples": _sealed("plan", "k", {"schedule": None, "why": "w", "candidates": [{"n_samples": -3}]}),
    "a date that is none": {**GOOD, "saved_at": 10**400},
    "unknown kind": _sealed("kernel", "k", {"files": {}}),
    "path as kind": _sealed("../../evil", "k", {}),
    "other schema": _sealed("plan", "k", plan_to_record(Plan(choice=DEFAULT, why="w")), schema=999),
    "not a plan": _sealed("plan", "k", {"schedule": {"version": 1, "unroll": 0}, "why": "w"}),
    "wrong type": _sealed("plan", "k", {"schedule": None, "why": 3}),
    "long key": _sealed("plan", "k" * 100_000, plan_to_record(Plan(choice=DEFAULT, why="w"))),
}


@pytest.mark.parametrize("bad", BAD_ENTRIES)
def test_bad_entry_is_left_out_and_the_rest_kept(tmp_path: Path, bad: str) -> None:
    (tmp_path / "w.json").write_text(json.dumps({"autosparse_wisdom": 1, "entries": [BAD_ENTRIES[bad], GOOD]}))
    store = Store(tmp_path / "here")
    assert wisdom.read(store, tmp_path / "w.json") == 1
    assert [(item.kind, item.key) for item in store.envelopes()] == [("plan", "good")]


@pytest.mark.parametrize("key", ["../../../evil", "/etc/evil", "a/b", "..", "C:\\evil", "evil\x00", "\udc80"])
def test_keys_cannot_leave_the_folder(tmp_path: Path, key: str) -> None:
    entry = _sealed("plan", key, plan_to_record(Plan(choice=DEFAULT, why="w")))
    (tmp_path / "w.json").write_text(json.dumps({"autosparse_wisdom": 1, "entries": [entry]}))
    store = Store(tmp_path / "deep" / "er" / "here")
    assert wisdom.read(store, tmp_path / "w.json") == 1
    assert Store(tmp_path / "deep" / "er" / "here").load("plan", key) is not None
    assert {path.parts[len(tmp_path.parts)] for path in files_in(tmp_path)} == {"w.json", "deep"}
    assert all("evil" not in path.name for path in files_in(tmp_path))


def test_a_broken_record_of_ours_is_no_reason_to_refuse_a_good_one(tmp_path: Path) -> None:
    there, here = Store(None), Store(tmp_path / "here")
    here.save("plan", "k", {"effort": [1], "why": 3})
    there.save("plan", "k", plan_to_record(Plan(choice=DEFAULT, why="w")))
    wisdom.write(there, tmp_path / "w.json", kinds=WISDOM_KINDS)
    assert wisdom.read(here, tmp_path / "w.json") == 1


@pytest.mark.parametrize("path", [3, None, b"w.json", [], 1.5])
@pytest.mark.parametrize("act", [wisdom_export, wisdom_import])
def test_a_value_that_is_not_a_path_is_refused(act: Callable[[object], int], path: object) -> None:
    with pytest.raises(InputTypeError, match=r"(?s)kept in a file.*Given: .*Hint: ") as caught:
        act(path)
    assert isinstance(caught.value, TypeError)


BAD_FILES = {
    "empty": "",
    "not JSON": "{",
    "nested": "[" * 100_000,
    "not wisdom": "[]",
    "other version": '{"autosparse_wisdom": 999, "entries": []}',
    "no entries": '{"autosparse_wisdom": 1}',
}


@pytest.mark.parametrize("bad", BAD_FILES)
def test_bad_file_says_what_is_wrong(tmp_path: Path, bad: str) -> None:
    (tmp_path / "w.json").write_text(BAD_FILES[bad])
    with pytest.raises(CacheError, match=r"cannot import wisdom from .*w.json(.|\n)*Hint:"):
        wisdom.read(Store(None), tmp_path / "w.json")


def test_absent_folder_pipe_and_large_file_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large.json").write_bytes(bytes(1001))
    monkeypatch.setattr(wisdom, "MAX_WISDOM_BYTES", 1000)
    for name, reason in {"absent": "No such file", "pipe": "regular", ".": "regular", "large.json": "1,001"}.items():
        with pytest.raises(CacheError, match=reason):
            wisdom.read(Store(None), tmp_path / name)


def test_too_many_entries_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wisdom, "MAX_WISDOM_ENTRIES", 1)
    (tmp_path / "w.json").write_text(json.dumps({"autosparse_wisdom": 1, "entries": [GOOD, GOOD]}))
    with pytest.raises(CacheError, match="at most 1"):
        wisdom.read(Store(None), tmp_path / "w.json")


def test_public_functions_use_the_store_in_force(tmp_path: Path) -> None:
    with config.options(cache_dir=tmp_path / "here"):
        open_store().save("plan", "k", plan_to_record(Plan(choice=DEFAULT, why="w")))
        open_store().save("failure", "k", failure())
        assert wisdom_export(tmp_path / "w.json") == 1
        wisdom_forget()
        assert open_store().load("plan", "k") is None
        assert Store(tmp_path / "here").load("plan", "k") is None
        assert Store(tmp_path / "here").load("failure", "k") == failure()
        assert wisdom_import(tmp_path / "w.json") == 1
        assert Store(tmp_path / "here").load("plan", "k") is not None
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]
