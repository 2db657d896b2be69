"""Folders with compiled kernels, built once and used only while the digests of their files match."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final

from autosparse.cache import trust
from autosparse.cache.envelope import Envelope
from autosparse.cache.folder import MANIFEST, MAX_RECORD_BYTES, Folder, remove
from autosparse.cache.keys import digest, file_name

from autosparse import forking
from autosparse._version import __version__
from autosparse.errors import BuildError, RecordError

Build = Callable[[Path], None]
"""Function that fills an empty folder. If it raises, nothing is published, and OSError becomes BuildError."""

MANIFEST_SCHEMA: Final = 1
"""Version of the manifest's layout; manifests of other versions are treated as broken."""
MAX_FILE_BYTES: Final = 256 << 20
"""Maximum size of a file of a kernel, in bytes."""
_PROBE_BYTES: Final = 64 << 10
"""Number of bytes written to test whether the disk is full."""
_DISK_ERRORS: Final = frozenset(
    getattr(errno, name, errno.ENOSPC)  # Windows lacks some of them
    for name in ("ENOSPC", "EDQUOT", "EROFS", "EIO", "ESTALE", "EFBIG", "ENOLCK", "ENOSYS", "EOPNOTSUPP")
)
"""Error numbers that indicate a problem of the disk even if the error names no file."""


def versioned_key(key: str) -> str:
    """Return `key` prefixed by the release of autosparse, so that kernels of older code generators are not reused."""
    return f"{__version__}/{key}"


def find(folder: Folder, key: str) -> Path | None:
    """Return the folder of the kernel `key` after checking every file; None if absent, RecordError if broken."""
    path = folder.kernel_path(versioned_key(key))
    if not path.is_dir() and not path.is_symlink():
        return None
    try:
        manifest = _manifest(folder, path, key)
    except FileNotFoundError:
        if not path.exists():  # evicted meanwhile
            return None
        raise RecordError.broken(str(path), reason="no manifest") from None
    _check_files(folder, path, manifest)
    return path


def _manifest(folder: Folder, path: Path, key: str) -> dict[str, str]:
    content = trust.read_trusted(folder.root, path / MANIFEST, max_bytes=MAX_RECORD_BYTES)
    found = Envelope.from_bytes(content, name=str(path))
    files = found.record.get("files")
    if (found.kind, found.key, found.schema) != ("kernel", key, MANIFEST_SCHEMA) or not isinstance(files, dict):
        raise RecordError.broken(str(path), reason="not the manifest of this kernel")
    return files


def _check_files(folder: Folder, path: Path, manifest: dict[str, str]) -> None:
    try:
        present = _files(path)
        found = {
            name: digest(trust.read_trusted(folder.root, path / name, max_bytes=MAX_FILE_BYTES)) for name in present
        }
    except FileNotFoundError:
        found = {}
    if found != manifest:
        raise RecordError.broken(str(path), reason="its files are not those that were published")


def _files(path: Path) -> list[str]:
    """Return the names of the files in `path`, except for the manifest and NFS's placeholders of deleted open files."""
    names = sorted(item.name for item in path.iterdir())
    return [name for name in names if name != MANIFEST and not name.startswith(".nfs")]


def build_and_publish(folder: Folder, key: str, build: Build, *, now: float) -> Path:
    """Build in the staging folder, record digests, rename into place, and return the published folder.

    The first process to publish wins: a kernel that was published meanwhile is used instead.
    """
    name = f"kernel.{file_name(versioned_key(key))}"
    staged = folder.staging_name(name)
    try:
        staged.mkdir(mode=0o700)
        _build(build, staged)
        record = {"files": {item: _seal_file(staged / item) for item in _files(staged)}}
        manifest = Envelope.seal("kernel", key, record, schema=MANIFEST_SCHEMA, saved_at=now)
        folder.write_file(staged / MANIFEST, manifest.to_bytes())
        return _publish(folder, key, staged)
    finally:
        with contextlib.suppress(OSError):
            remove(staged)


def _publish(folder: Folder, key: str, staged: Path) -> Path:
    path = folder.kernel_path(versioned_key(key))
    try:
        folder.publish(staged, path)
    except OSError:
        ready = find(folder, key)  # on a file system without locks another process may have built it
        if ready is None:
            raise
        return ready
    return path


def _build(build: Build, staged: Path) -> None:
    """Run `build`; raise OSError instead of BuildError if a test write shows that the disk caused the failure."""
    try:
        build(staged)
    except BuildError:
        probe = staged / "probe"
        probe.write_bytes(bytes(_PROBE_BYTES))
        probe.unlink()
        raise
    except OSError as err:
        if err.errno in _DISK_ERRORS:
            raise
        raise BuildError(f"building the kernel failed: {err}") from err


def is_disk_trouble(err: OSError, folder: Folder) -> bool:
    """Return whether `err` concerns the cache folder rather than a path that a build used elsewhere."""
    if err.filename is None:
        return err.errno in _DISK_ERRORS
    return isinstance(err.filename, (str, bytes)) and os.fsdecode(err.filename).startswith(str(folder.root))


def _seal_file(path: Path) -> str:
    """Remove others' access to a built file and return its digest; raise BuildError unless it is a regular file."""
    if path.is_symlink() or not path.is_file():
        raise BuildError(f"{path.name} is not a regular file: a kernel consists of regular files only")
    path.chmod(path.stat().st_mode & 0o700)
    return digest(path.read_bytes())


class PrivateArtefacts:
    """Kernels of this process in a temporary folder, used if there is no shared cache folder.

    Only one thread at a time builds a key. The folder is removed when the process ends.
    """

    def __init__(self) -> None:
        self._mutex = forking.lock()
        self._key_locks: dict[str, threading.Lock] = {}
        self._folder: Path | None = None
        self._ready: dict[str, Path] = {}

    def artefact(self, key: str, build: Build) -> Path:
        """Return the folder of the kernel `key`, built on first use; raise BuildError without a writable folder."""
        with self._mutex:
            key_lock = self._key_locks.setdefault(key, forking.lock())
        with key_lock:
            ready = self.find(key)
            if ready is not None:
                return ready
            try:
                path = self._ready[key] = self._build(key, build)
            except OSError as err:
                raise BuildError(
                    f"building a kernel in {_temporary_folder()!r} failed: {err}\n"
                    "  Hint: free some space, or set TMPDIR to a folder that can be written."
                ) from err
            return path

    def find(self, key: str) -> Path | None:
        """Return the folder of the kernel `key` if this process built it, else None."""
        ready = self._ready.get(key)
        return ready if ready is not None and ready.is_dir() else None

    def _build(self, key: str, build: Build) -> Path:
        path = Path(tempfile.mkdtemp(prefix=f"{file_name(key)}.", dir=self._root()))
        try:
            build(path)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        return path

    def _root(self) -> Path:
        with self._mutex:
            if self._folder is None or not self._folder.is_dir():
                self._folder = Path(tempfile.mkdtemp(prefix="autosparse-"))
                weakref.finalize(self, _remove_own, self._folder, os.getpid())
            return self._folder


def _temporary_folder() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        return "the temporary folder"


def _remove_own(folder: Path, pid: int) -> None:
    """Remove `folder`, unless this process is a forked child of the one that created it."""
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)
