"""Tests of damaged entries: each kind of record and each kernel is quarantined and written again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from autosparse.cache import artefacts
from autosparse.cache.folder import MAX_QUARANTINED, Folder
from autosparse.cache.records import KINDS, Failure, plan_to_record
from autosparse.cache.store import Store

from autosparse.core.plan import Candidate, Plan
from autosparse.core.solver import choice_of
from autosparse.errors import BuildError
from tests.cache.conftest import SCHEDULES, cache_warnings, failure

Opener = Callable[..., Store]
Damage = Callable[[Path], None]

RECORDS = {
    "plan": plan_to_record(
        Plan(choice=choice_of(SCHEDULES[2]), why="w", candidates=(Candidate(choice=choice_of(SCHEDULES[3])),))
    ),
    "machine": {"rates_s": {"compile": [0.3, 2]}},
    "features": {"values": [0.25, -1.5, 3.0]},
    "rates": {"memory": 3e10, "threads": 2, "measured_at": 1.0},
    "failure": Failure(reason="r", compiler="cc", failed_at=1.0).to_record(),
}


def _replace_by_folder(path: Path) -> None:
    path.unlink()
    (path / "inner").mkdir(parents=True)


def _replace_by_link(path: Path) -> None:
    target = path.with_suffix(".elsewhere")
    path.rename(target)
    path.symlink_to(target)


def _replace_by_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, Damage] = {
    "cut in half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: os.truncate(path, 0),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)) and None,
    "one bit": _flip,
    "garbage": lambda path: path.write_bytes(os.urandom(500)) and None,
    "other JSON": lambda path: path.write_text('{"a": [1, 2]}\n') and None,
    "grown": lambda path: path.write_bytes(path.read_bytes() * 2) and None,
    "a folder": _replace_by_folder,
    "a link": _replace_by_link,
    "a pipe": _replace_by_fifo,
    "open to others": lambda path: path.chmod(0o666),
}


def test_every_kind_has_a_record_here() -> None:
    assert set(RECORDS) == set(KINDS)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_record(open_again: Opener, folder: Path, kind: str, damage: str) -> None:
    record = RECORDS[kind]
    open_again().save(kind, "k", record)
    open_again().save(kind, "healthy", record)
    DAMAGES[damage](Folder.open(folder).record_path(kind, "k"))
    store = open_again()
    with cache_warnings() as seen:
        assert store.load(kind, "k") is None
        assert store.load(kind, "healthy") == record
        assert store.stats().n_quarantined == 1
        assert len(list((Folder.open(folder).root / "quarantine").iterdir())) == 1
        store.save(kind, "k", record)
    assert open_again().load(kind, "k") == record
    assert not seen


@pytest.mark.parametrize("kind", KINDS)
def test_record_under_the_name_of_another(open_again: Opener, folder: Path, kind: str) -> None:
    open_again().save(kind, "k", RECORDS[kind])
    paths = [Folder.open(folder).record_path(kind, key) for key in ("k", "other")]
    paths[1].parent.mkdir(exist_ok=True)
    paths[0].rename(paths[1])
    assert open_again().load(kind, "other") is None


def test_record_mended_by_another_process_is_not_quarantined(
    open_again: Opener, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_again().save("failure", "k", failure())
    DAMAGES["empty"](Folder.open(folder).record_path("failure", "k"))
    store, lock = open_again(), Folder.lock

    def mend_then_lock(self: Folder, kind: str, key: str, *, wait_s: float) -> object:
        open_again().save("failure", "k", failure("mended"))
        return lock(self, kind, key, wait_s=wait_s)

    monkeypatch.setattr(Folder, "lock", mend_then_lock)
    assert store.load("failure", "k") == failure("mended")
    assert store.stats().n_quarantined == 0


def test_update_of_a_damaged_record_starts_anew(open_again: Opener, folder: Path) -> None:
    open_again().save("failure", "k", failure())
    DAMAGES["zeros"](Folder.open(folder).record_path("failure", "k"))
    assert open_again().update("failure", "k", lambda old: {"old": old}) == {"old": None}
    assert open_again().load("failure", "k") == {"old": None}


def test_quarantine_is_bounded(open_again: Opener, folder: Path) -> None:
    for number in range(MAX_QUARANTINED + 10):
        open_again().save("failure", "k", failure(str(number)))
        DAMAGES["empty"](Folder.open(folder).record_path("failure", "k"))
        assert open_again().load("failure", "k") is None
    assert len(list((Folder.open(folder).root / "quarantine").iterdir())) == MAX_QUARANTINED


# --- kernels ---


def build(path: Path) -> None:
    (path / "kernel.so").write_bytes(b"machine code" * 100)
    (path / "kernel.c").write_text("int x;\n")


def never(path: Path) -> None:
    pytest.fail("a kernel that is there was built again")


def _add_file(path: Path) -> None:
    (path / "extra.so").write_bytes(b"code of somebody else")


KERNEL_DAMAGES: dict[str, Damage] = {
    **{f"kernel.so {name}": lambda path, do=do: do(path / "kernel.so") for name, do in DAMAGES.items()},  # type: ignore[misc]
    **{f"manifest {name}": lambda path, do=do: do(path / "manifest.json") for name, do in DAMAGES.items()},  # type: ignore[misc]
    "kernel.so absent": lambda path: (path / "kernel.so").unlink(),
    "manifest absent": lambda path: (path / "manifest.json").unlink(),
    "one file more": _add_file,
    "folder is a link": _replace_by_link,
    "folder open to others": lambda path: path.chmod(0o777),
}


@pytest.mark.parametrize("damage", KERNEL_DAMAGES)
def test_damaged_kernel_is_built_again(open_again: Opener, folder: Path, damage: str) -> None:
    path = open_again().artefact("k", build)
    assert open_again().artefact("k", never) == path
    KERNEL_DAMAGES[damage](path)
    store = open_again()
    with cache_warnings() as seen:
        assert store.artefact("k", build) == path
    assert not seen
    assert (path / "kernel.so").read_bytes() == b"machine code" * 100
    assert store.stats().n_quarantined == 1
    assert open_again().artefact("k", never) == path


def test_kernel_of_another_release_is_not_found(open_again: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    old = open_again().artefact("k", build)
    monkeypatch.setattr(artefacts, "__version__", "999")
    assert open_again().artefact("k", build) != old


def test_build_that_raises_publishes_nothing(open_again: Opener, folder: Path) -> None:
    def half(path: Path) -> None:
        build(path)
        raise ValueError("compiler says no")

    for store in (open_again(), Store(None)):
        with pytest.raises(ValueError, match="compiler says no"):
            store.artefact("k", half)
        before = store.stats().access
        with pytest.raises(BuildError, match="no-such-compiler"):
            store.artefact("k", lambda path: (path / "../no-such-compiler").resolve(strict=True) and None)
        assert store.stats().access == before  # the disk has not failed
    root = Folder.open(folder).root
    assert not list(root.glob("staging/*"))
    assert not list(root.glob("locks/*"))
    assert (open_again().artefact("k", build) / "kernel.so").exists()


def test_interrupted_build_publishes_nothing(open_again: Opener, folder: Path) -> None:
    def interrupted(path: Path) -> None:
        build(path)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_again().artefact("k", interrupted)
    assert not list(Folder.open(folder).root.glob("*/kernel*"))
    assert open_again().artefact("k", build).exists()


def test_kernel_evicted_between_two_lookups_is_built_again(open_again: Opener) -> None:
    store = open_again()
    store.artefact("k", build)
    open_again().clear()
    assert (store.artefact("k", build) / "kernel.so").exists()


@pytest.mark.parametrize("on_disk", [True, False])
def test_find_artefact_builds_nothing(open_again: Opener, folder: Path, on_disk: bool) -> None:
    store = open_again() if on_disk else Store(None)
    assert store.find_artefact("k") is None
    path = store.artefact("k", build)
    assert store.find_artefact("k") == path
    DAMAGES["one bit"](path / "kernel.so")
    # the kernel folder of a store without a disk is private to this process
    assert store.find_artefact("k") is None or not on_disk
    assert not list(folder.glob("*/staging/*"))
