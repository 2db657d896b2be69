"""Tests that the cache reads no record that other users could have written."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from autosparse.cache import trust
from autosparse.cache.folder import Folder
from autosparse.cache.store import Store
from autosparse.cache.trust import LAYOUT

from tests.cache.conftest import cache_warnings, failure, files_in
from tests.cache.test_cache_damage import build

Opener = Callable[..., Store]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="mode bits mean nothing on Windows")
is_root = hasattr(os, "geteuid") and os.geteuid() == 0
needs_root = pytest.mark.skipif(not is_root, reason="giving files to another user needs root")


def _refused(folder: Path) -> None:
    kernels: list[Path] = []
    with cache_warnings() as seen:
        store = Store(folder)
        assert store.load("failure", "k") is None
        kernels.append(store.artefact("kernel", build))
    assert len(seen) == 1
    assert folder not in kernels[0].parents
    assert store.stats().access == "memory"


def _filled(folder: Path) -> None:
    Store(folder).save("failure", "k", failure())
    Store(folder).artefact("kernel", build)


@pytest.mark.parametrize("mode", [0o777, 0o702, 0o1777])
@pytest.mark.parametrize("where", [".", LAYOUT])
def test_cache_folder_open_to_others(folder: Path, mode: int, where: str) -> None:
    _filled(folder)
    if where == "." and mode & stat.S_ISVTX:
        pytest.skip("nobody can exchange entries of a sticky folder above the cache")
    (folder / where).chmod(mode)
    _refused(folder)
    (folder / where).chmod(0o755)
    assert Store(folder).load("failure", "k") == failure()


def test_folder_above_open_to_others(tmp_path: Path) -> None:
    above = tmp_path / "above"
    above.mkdir(mode=0o700)
    _filled(above / "cache")
    above.chmod(0o777)
    _refused(above / "cache")
    above.chmod(0o1777)  # like /tmp: others cannot replace our folder
    assert Store(above / "cache").load("failure", "k") == failure()


def test_nothing_is_created_in_a_place_open_to_others(tmp_path: Path) -> None:
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(0o777)
    _refused(above / "new" / "cache")
    assert not list(above.iterdir())


@needs_root
@pytest.mark.parametrize("where", ["above", "above/cache", f"above/cache/{LAYOUT}"])
def test_folder_of_another_user(tmp_path: Path, where: str) -> None:
    (tmp_path / "above").mkdir(mode=0o700)
    _filled(tmp_path / "above" / "cache")
    os.chown(tmp_path / where, 12345, -1)
    _refused(tmp_path / "above" / "cache")


@needs_root
def test_folder_of_a_group(folder: Path) -> None:
    _filled(folder)
    os.chown(folder / LAYOUT, -1, 12345)
    (folder / LAYOUT).chmod(0o770)
    _refused(folder)
    (folder / LAYOUT).chmod(0o750)
    assert Store(folder).load("failure", "k") == failure()


@needs_root
def test_files_of_another_user(open_again: Opener, folder: Path) -> None:
    _filled(folder)
    kernel = open_again().artefact("kernel", build)
    for path in (Folder.open(folder).record_path("failure", "k"), kernel / "kernel.so"):
        os.chown(path, 12345, -1)
    store = open_again()
    assert store.load("failure", "k") is None
    store.artefact("kernel", build)
    assert store.stats().n_quarantined == 2
    assert (kernel / "kernel.so").stat().st_uid == os.geteuid()


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_inner_folder_open_to_others(open_again: Opener, folder: Path, depth: int) -> None:
    _filled(folder)
    path = Folder.open(folder).record_path("failure", "k")
    path.parents[depth - 1].chmod(0o777)
    assert open_again().load("failure", "k") is None


def test_link_to_a_good_folder_is_followed_once(tmp_path: Path) -> None:
    _filled(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = Store(tmp_path / "link")
    (tmp_path / "link").unlink()
    _filled(tmp_path / "other")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    store.save("failure", "mine", failure("mine"))
    assert Store(tmp_path / "real").load("failure", "mine") == failure("mine")


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_created_files_are_private_for_any_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        _filled(tmp_path / "a" / "b" / "cache")
    finally:
        os.umask(before)
    made = [path for path in (tmp_path / "a").rglob("*") if not path.is_symlink()]
    assert len(made) > 8
    assert all(not path.stat().st_mode & 0o022 for path in [tmp_path / "a", *made])
    with cache_warnings() as seen:
        assert Store(tmp_path / "a" / "b" / "cache").load("failure", "k") == failure()
    assert not seen


def test_private_kernels_are_private_and_go_with_their_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = Store(None)
    path = store.artefact("kernel", build)
    assert tmp_path in path.parents
    assert all(not item.stat().st_mode & 0o077 for item in tmp_path.iterdir())
    del store
    assert not files_in(tmp_path)


def test_private_group_counts_as_the_owner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o770)
    for is_private in (True, False):
        monkeypatch.setattr(trust, "_is_private_group", lambda gid, answer=is_private: answer)
        assert (trust.untrusted_reason(tmp_path / "shared") is None) == is_private
