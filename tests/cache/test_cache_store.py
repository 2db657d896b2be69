"""Tests of the store: every process loads what was saved, and memory follows the disk."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from autosparse.cache import close_stores, open_store, stores
from autosparse.cache.envelope import Envelope
from autosparse.cache.folder import Folder
from autosparse.cache.memory import ABSENCE_LIFE_S, Memory
from autosparse.cache.records import KINDS, plan_to_record
from autosparse.cache.store import Store
from autosparse.cache.trust import LAYOUT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autosparse import config
from autosparse.core.plan import Plan
from autosparse.notices import CacheWarning, forget_warnings
from tests.cache.conftest import cache_warnings, failure, files_in, plans

Opener = Callable[..., Store]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=plans, key=st.text(max_size=20))
def test_saved_records_are_loaded_in_this_and_other_stores(open_again: Opener, plan: Plan, key: str) -> None:
    store = open_again()
    store.save("plan", key, plan_to_record(plan))
    assert store.load("plan", key) == open_again().load("plan", key) == open_again(max_bytes=1).load("plan", key)
    assert open_again().load("machine", key) is None


def test_record_is_the_same_before_and_after_the_disk(open_again: Opener) -> None:
    store = open_again()
    store.save("failure", "k", {"a": (1, 2)})
    assert store.load("failure", "k") == open_again().load("failure", "k") == {"a": [1, 2]}


def test_second_lookup_does_not_touch_the_disk(open_again: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    open_again().save("failure", "k", failure())
    store = open_again()
    first, absent = store.load("failure", "k"), store.load("failure", "other")
    monkeypatch.setattr(Folder, "read_record", lambda *_: pytest.fail("the disk was read"))
    assert store.load("failure", "k") is first
    assert store.load("failure", "other") is absent is None


def test_fresh_sees_what_another_process_wrote(open_again: Opener) -> None:
    here, there = open_again(), open_again()
    assert here.load("failure", "k") is None
    there.save("failure", "k", failure("one"))
    assert here.load("failure", "k", fresh=True) == failure("one")
    there.save("failure", "k", failure("two"))
    assert here.load("failure", "k") == failure("one")
    assert here.load("failure", "k", fresh=True) == failure("two")


def test_memory_is_bounded_and_absence_expires() -> None:
    now_s = 0.0
    memory = Memory(clock=lambda: now_s, max_entries=8)
    for number in range(100):
        memory.put(Envelope.seal("plan", str(number), {}, schema=1, saved_at=0))
        memory.put_absent(("machine", str(number)))
    assert len(memory.envelopes()) <= 8
    assert memory.get(("plan", "99")) is not None
    assert memory.is_absent(("machine", "99"))
    now_s = ABSENCE_LIFE_S + 1
    assert not memory.is_absent(("machine", "99"))


def test_update_sees_the_newest_record_and_gives_a_copy(open_again: Opener) -> None:
    here, there = open_again(), open_again()
    here.load("failure", "k")
    there.save("failure", "k", failure("newest"))

    def change(old: dict[str, object] | None) -> dict[str, object]:
        assert old == failure("newest")
        old["reason"] = "changed"
        return old

    assert here.update("failure", "k", change)["reason"] == "changed"
    assert open_again().load("failure", "k") == failure("changed")


@pytest.mark.parametrize("on_disk", [True, False])
def test_update_from_many_threads_loses_nothing(open_again: Opener, on_disk: bool) -> None:
    store = open_again() if on_disk else Store(None)

    def count() -> None:
        for _ in range(20):
            store.update("failure", "k", lambda old: {"n": (old or {"n": 0})["n"] + 1})

    threads = [threading.Thread(target=count) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.load("failure", "k") == {"n": 120}


def test_update_that_raises_leaves_the_old_record_and_no_lock(open_again: Opener) -> None:
    store = open_again()
    store.save("failure", "k", failure())
    with pytest.raises(ZeroDivisionError):
        store.update("failure", "k", lambda _: {"x": 1 / 0})
    assert store.load("failure", "k") == failure()
    with open_again().exclusive("failure", "k") as is_held:
        assert is_held


@pytest.mark.parametrize("on_disk", [True, False])
def test_exclusive_is_held_by_one_at_a_time(open_again: Opener, on_disk: bool) -> None:
    store = open_again() if on_disk else Store(None)
    with store.exclusive("plan", "k") as first, store.exclusive("plan", "k") as second, store.exclusive("plan", "j"):
        assert first
        assert not second
    with store.exclusive("plan", "k") as again:
        assert again


def test_remove_forgets_one(open_again: Opener) -> None:
    store = open_again()
    store.save("failure", "a", failure())
    store.save("failure", "b", failure())
    store.remove("failure", "a")
    assert store.load("failure", "a") is open_again().load("failure", "a") is None
    assert open_again().load("failure", "b") == failure()


def test_entries_stats_and_clear(open_again: Opener, folder: Path) -> None:
    store = open_again()
    store.save("failure", "a", failure())
    store.save("machine", "a", {})
    store.artefact("kernel", lambda path: (path / "k.so").write_bytes(b"code") and None)
    foreign = folder / LAYOUT / "mine.txt"
    foreign.write_text("not the cache's")
    other_layout = folder / "cache-v999" / "records" / "plan-1"
    other_layout.mkdir(parents=True)
    assert {entry.kind for entry in store.entries()} == {"failure", "machine", "kernel"}
    stats = store.stats()
    assert stats.access == "read and write"
    assert stats.n_entries == {"failure": 1, "machine": 1, "kernel": 1}
    assert stats.n_bytes >= 3 * 4096
    store.clear()
    assert store.entries() == open_again().entries() == []
    assert store.load("failure", "a") is None
    assert foreign.exists()
    assert other_layout.exists()
    store.save("failure", "a", failure())
    assert open_again().load("failure", "a") == failure()


def test_unserialisable_record_costs_one_warning(open_again: Opener) -> None:
    store = open_again()
    with cache_warnings() as seen:
        store.save("failure", "k", {"a": object()})
        store.save("failure", "k", {"a": object()})
    assert len(seen) == 1
    assert store.load("failure", "k") is None


@pytest.mark.parametrize("off", [{"cache": False}, {"cache_max_bytes": 0}])
def test_cache_turned_off_remembers_in_this_process_only(folder: Path, off: dict[str, object]) -> None:
    with config.options(cache_dir=folder, **off), cache_warnings() as seen:
        open_store().save("failure", "k", failure())
        assert open_store().load("failure", "k") == failure()
        assert open_store().stats().access == "memory"
        assert [entry.kind for entry in open_store().entries()] == ["failure"]
        kernel = open_store().artefact("k", lambda path: (path / "k.so").write_bytes(b"code") and None)
        assert (kernel / "k.so").read_bytes() == b"code"
        close_stores()
        assert open_store().load("failure", "k") is None
    assert not seen
    assert not folder.exists()


def test_open_store_is_one_per_folder(folder: Path, tmp_path: Path) -> None:
    with config.options(cache_dir=folder):
        store = open_store()
        assert open_store() is store
        with config.options(cache_max_bytes=12345):
            assert open_store().max_bytes == 12345
    with config.options(cache_dir=tmp_path / "other"):
        assert open_store() is not store


def test_default_folder_is_the_users_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUTOSPARSE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    config.reload_options()
    store = open_store()
    store.save("failure", "k", failure())
    assert [path.name for path in files_in(tmp_path) if path.suffix == ".json"]
    folder = store.stats().folder
    assert folder is not None
    assert tmp_path in folder.parents


@pytest.mark.parametrize("named", [None, "", "/somewhere/else"])
def test_the_default_folder_is_that_of_platformdirs(named: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    import platformdirs

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if named is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", named)
    assert stores._default_folder() == platformdirs.user_cache_path("autosparse", appauthor=False)


def test_no_home_costs_one_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import platformdirs

    monkeypatch.delenv("AUTOSPARSE_CACHE_DIR", raising=False)
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda *_, **__: Path("~/.cache/autosparse"))
    monkeypatch.setattr(stores, "xdg_cache_home", lambda: "~/.cache")
    monkeypatch.chdir(tmp_path)
    config.reload_options()
    with pytest.warns(CacheWarning, match="no home folder"):
        open_store().save("failure", "k", failure())
    assert not files_in(tmp_path)


def test_record_of_another_schema_is_left_alone(open_again: Opener, folder: Path) -> None:
    store = open_again()
    other = Envelope.seal("failure", "k", {"layout": "of tomorrow"}, schema=KINDS["failure"].schema + 1, saved_at=0)
    path = Folder.open(folder).record_path("failure", "k")
    path.parent.mkdir(parents=True)
    path.write_bytes(other.to_bytes())
    path.chmod(0o600)
    with cache_warnings() as seen:
        assert store.load("failure", "k") is None
    assert not seen
    assert path.read_bytes() == other.to_bytes()
    assert store.stats().n_quarantined == 0
    store.save("failure", "k", failure())
    assert open_again().load("failure", "k") == failure()


# --- size limit ---


def _save_aged(store: Store, folder: Path, key: str, *, age_s: float) -> None:
    store.save("failure", key, failure())
    then_s = time.time() - age_s
    os.utime(Folder.open(folder).record_path("failure", key), (then_s, then_s))


def test_size_limit_evicts_what_was_unused_for_longest(open_again: Opener, folder: Path) -> None:
    store = open_again(max_bytes=1 << 20)
    for number in range(20):
        _save_aged(store, folder, f"key{number}", age_s=1000.0 - number)
    reader = open_again()
    assert reader.load("failure", "key0") is not None  # used: now the youngest
    small = open_again(max_bytes=10 * 4096)
    small.save("failure", "last", failure())
    fresh = open_again()
    kept = {number for number in range(20) if fresh.load("failure", f"key{number}") is not None}
    assert fresh.stats().n_bytes <= 10 * 4096
    assert 0 in kept
    assert 1 not in kept
    assert kept - {0} == set(range(20 - len(kept) + 1, 20))
    assert fresh.load("failure", "last") is not None
    assert small.stats().n_evicted == 20 - len(kept)


def test_size_limit_spares_kernels_that_were_just_used(open_again: Opener) -> None:
    store = open_again(max_bytes=4096)
    path = store.artefact("k", lambda path: (path / "k.so").write_bytes(bytes(50_000)) and None)
    store.save("failure", "k", failure())
    assert (path / "k.so").exists()
    for item in (path, *path.iterdir()):
        os.utime(item, (1.0, 1.0))
    store.save("failure", "k", failure())
    assert not path.exists()


def test_leftovers_are_swept_only_when_old_and_unlocked(open_again: Opener, folder: Path) -> None:
    store = open_again()
    root = Folder.open(folder)
    names = ["file.0123", "kernel.aaaa.0123", "kernel.bbbb.0123"]
    for name in names:
        (root.root / "staging").mkdir(exist_ok=True)
        (root.root / "staging" / name).mkdir()
        (root.root / "staging" / name / "part").write_bytes(b"x")
        os.utime(root.root / "staging" / name, (1.0, 1.0))
    (root.root / "staging" / "file.young").write_bytes(b"x")
    (root.root / "locks").mkdir(exist_ok=True)
    orphan = root.root / "locks" / "plan.cccc.lock"
    orphan.touch()
    os.utime(orphan, (1.0, 1.0))
    from autosparse.cache import locks

    with locks.hold(root.root / "locks" / "kernel.bbbb.lock", wait_s=0) as is_held:
        assert is_held
        assert root.sweep(now=time.time()) == 3
        assert {path.name for path in (root.root / "staging").iterdir()} == {"kernel.bbbb.0123", "file.young"}
    assert not orphan.exists()
    assert store.load("failure", "k") is None


def test_warnings_come_once_per_folder(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    forget_warnings()
    with cache_warnings() as seen:
        for _ in range(3):
            store = Store(blocked)
            store.save("failure", "k", failure())
            assert store.load("failure", "k") == failure()
    assert len(seen) == 1
    assert "Hint:" in seen[0]
    assert str(blocked) in seen[0]
