"""Tests of a cache folder that fails: one warning, no loss within the process, and old records stay readable."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from autosparse.cache import locks, wisdom
from autosparse.cache.folder import Folder
from autosparse.cache.records import WISDOM_KINDS
from autosparse.cache.store import Store

from autosparse.errors import BuildError, CacheError
from tests.cache.conftest import cache_warnings, failure
from tests.cache.test_cache_damage import build, never

Opener = Callable[..., Store]
is_root = hasattr(os, "geteuid") and os.geteuid() == 0


def _works_in_memory(store: Store) -> None:
    """Check all that a store must do whatever its folder does."""
    store.save("failure", "new", failure("new"))
    assert store.load("failure", "new") == failure("new")
    assert store.load("failure", "new", fresh=True) == failure("new")
    assert store.update("failure", "new", lambda old: {**(old or {}), "n_times": 2})["n_times"] == 2
    assert store.load("failure", "new") == {**failure("new"), "n_times": 2}
    assert store.load("failure", "unknown") is None
    with store.exclusive("plan", "k") as is_held:
        assert is_held
    path = store.artefact("new kernel", build)
    assert (path / "kernel.so").exists()
    assert store.artefact("new kernel", never) == path
    assert "failure" in store.stats().n_entries
    assert [item.record["n_times"] for item in store.envelopes(["failure"]) if item.key == "new"] == [2]


@pytest.mark.parametrize("code", ["ENOSPC", "EDQUOT", "EROFS", "EACCES", "EIO", "ESTALE"])
@pytest.mark.parametrize("broken", ["write_file", "publish", "lock"])
def test_disk_error_in_the_middle(
    open_again: Opener, folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, broken: str
) -> None:
    open_again().save("failure", "old", failure("old"))
    kernel = open_again().artefact("old kernel", build)
    store, root = open_again(), Folder.open(folder).root

    def fail(*_: object, **__: object) -> None:
        raise OSError(getattr(errno, code), os.strerror(getattr(errno, code)), str(root / "some file"))

    monkeypatch.setattr(Folder, broken, fail)
    with cache_warnings() as seen:
        _works_in_memory(store)
        assert store.load("failure", "old") == failure("old")
        assert store.artefact("old kernel", never) == kernel
    assert len(seen) == 1
    assert os.strerror(getattr(errno, code)) in seen[0]
    assert store.stats().access == "read only"


def test_file_system_without_locks(open_again: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(fd: int) -> bool:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(locks, "_try_lock", no_locks)
    with cache_warnings() as seen:
        _works_in_memory(open_again())
    assert len(seen) == 1


@pytest.mark.parametrize("where", ["itself", "above"])
def test_a_file_where_the_folder_should_be(tmp_path: Path, where: str) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("in the way")
    with cache_warnings() as seen:
        store = Store(blocked if where == "itself" else blocked / "cache")
        _works_in_memory(store)
    assert len(seen) == 1
    assert store.stats().access == "memory"
    assert blocked.read_text() == "in the way"


@pytest.mark.parametrize("part", ["records", "kernels", "locks", "staging", "quarantine"])
def test_a_file_where_a_part_should_be(open_again: Opener, folder: Path, part: str) -> None:
    root = Folder.open(folder).root
    shutil.rmtree(root / part, ignore_errors=True)
    (root / part).write_text("in the way")
    with cache_warnings() as seen:
        _works_in_memory(open_again())
    assert len(seen) <= 1


def test_folder_removed_while_in_use(open_again: Opener, folder: Path) -> None:
    store = open_again()
    store.save("failure", "old", failure())
    shutil.rmtree(folder)
    with cache_warnings():
        _works_in_memory(store)


def test_explicit_requests_do_raise(open_again: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_again()
    store.save("failure", "k", failure())
    with pytest.raises(CacheError, match="cannot export wisdom"):
        wisdom.write(store, tmp_path / "no" / "such" / "folder.json", kinds=WISDOM_KINDS)

    def fail(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Folder, "remove_entry", fail)
    with pytest.raises(CacheError, match="cannot clear the cache"):
        store.clear()


def test_no_temporary_folder_either(monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    def fail(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "mkdtemp", fail)
    with pytest.raises(BuildError, match="TMPDIR"):
        Store(None).artefact("k", build)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 256 KiB and return its folder."""
    if not is_root or shutil.which("mount") is None:
        pytest.skip("mounting a small file system needs root")
    path = tmp_path / "small"
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "none", path], capture_output=True)
    if done.returncode:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def _fill(folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_full_disk(small_disk: Path) -> None:
    Store(small_disk).save("failure", "old", failure("old"))
    _fill(small_disk)
    with cache_warnings() as seen:
        store = Store(small_disk)
        assert store.load("failure", "old") == failure("old")
        _works_in_memory(store)
    assert len(seen) == 1
    assert "space" in seen[0]
    (small_disk / "filler").unlink()
    assert Store(small_disk).load("failure", "old") == failure("old")
    assert Store(small_disk).load("failure", "new") is None
    assert not [path for path in small_disk.rglob("staging/*") if path.is_file()]


def test_disk_full_during_a_build(small_disk: Path) -> None:
    """The compiler reports only that it failed; the kernel must not be recorded as one that cannot be built."""

    def compile_(path: Path) -> None:
        try:
            (path / "kernel.so").write_bytes(bytes(1 << 20))
        except OSError:
            raise BuildError("cc1: fatal error: error writing to kernel.s") from None

    with cache_warnings() as seen:
        store = Store(small_disk)
        path = store.artefact("k", compile_)
    assert (path / "kernel.so").stat().st_size == 1 << 20
    assert small_disk not in path.parents
    assert len(seen) == 1


def test_build_error_on_a_healthy_disk_is_passed_on(open_again: Opener) -> None:
    def compile_(path: Path) -> None:
        raise BuildError("no such instruction", key="k")

    store = open_again()
    with cache_warnings() as seen, pytest.raises(BuildError, match="no such instruction"):
        store.artefact("k", compile_)
    assert not seen
    assert store.stats().access == "read and write"


def test_read_only_folder(small_disk: Path) -> None:
    writer = Store(small_disk)
    writer.save("failure", "old", failure("old"))
    kernel = writer.artefact("old kernel", build)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with cache_warnings() as seen:
        store = Store(small_disk)
        assert store.load("failure", "old") == failure("old")
        assert store.artefact("old kernel", never) == kernel
        assert not seen  # reading needs no warning
        _works_in_memory(store)
    assert len(seen) == 1


def test_denied_folder(open_again: Opener, folder: Path) -> None:
    open_again().save("failure", "old", failure("old"))
    kernel = open_again().artefact("old kernel", build)
    folders = [path for path in folder.rglob("*") if path.is_dir()]
    for path in folders:
        path.chmod(0o500)
    try:
        if os.access(folders[0], os.W_OK):
            pytest.skip("nothing is denied to this user (root)")
        with cache_warnings() as seen:
            store = open_again()
            assert store.load("failure", "old") == failure("old")
            assert store.artefact("old kernel", never) == kernel
            _works_in_memory(store)
        assert len(seen) == 1
    finally:
        for path in folders:
            path.chmod(0o700)


def test_another_process_that_clears_the_cache_ends_no_writing(
    open_again: Opener, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Remove folders as another process does: below a new one, and while the entries are listed for maintenance."""
    mkdir, glob = Path.mkdir, Path.glob
    made: list[Path] = []
    listed: list[str] = []

    def made_and_removed(path: Path, *args: Any, **kwargs: Any) -> None:
        mkdir(path, *args, **kwargs)
        if path.name.startswith("failure-") and path not in made:
            made.append(path)
            path.rmdir()

    def listed_while_removed(path: Path, pattern: str) -> Iterator[Path]:
        found = list(glob(path, pattern))
        if pattern not in listed:
            listed.append(pattern)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return iter(found)

    store = open_again()
    monkeypatch.setattr(Path, "mkdir", made_and_removed)
    monkeypatch.setattr(Path, "glob", listed_while_removed)
    with cache_warnings() as seen:
        store.save("failure", "k", failure())
    assert made, "no folder was removed"
    assert listed, "no listing failed"
    assert not seen
    assert open_again().load("failure", "k") == failure()
    assert [entry.kind for entry in open_again().entries()] == ["failure"]
