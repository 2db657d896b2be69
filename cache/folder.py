"""Layout of the cache on disk. Files are written to the staging folder and renamed, so that readers see whole files.

::

    <cache folder>/cache-v1/             version of this layout; other versions are left alone.
        records/<kind>-<schema>/ab/<name>.json
        kernels/ab/<name>/               compiled kernels, with manifest.json.
        locks/<name>.lock                exists while held.
        staging/                         files being written; leftovers of killed processes are swept.
        quarantine/                      the newest broken entries.
        accounts                         time spent per problem, see `accounts.ledger`.
        maintained                       its modification time is that of the last maintenance.

Methods raise OSError as the system does; `store.Store` handles it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from autosparse.cache import locks, trust
from autosparse.cache.accounts.rows import ACCOUNTS
from autosparse.cache.envelope import Envelope
from autosparse.cache.keys import file_name
from autosparse.cache.trust import ATTEMPTS, SCHEMAS

from autosparse.core.values import dataclass
from autosparse.errors import RecordError

MANIFEST: Final = "manifest.json"
MAX_RECORD_BYTES: Final = 16 << 20
"""Maximum size of a record file, in bytes."""
LEFTOVER_AGE_S: Final = 3600.0  # older staging entries belong to killed processes
MAX_QUARANTINED: Final = 32
"""Number of broken entries kept in the quarantine."""
_TAG: Final = "Signature: 8a477f597d28d172789f06886806bc55\n# Cache of autosparse; may be deleted at any time.\n"


@dataclass(frozen=True, slots=True)
class Entry:
    """Cache entry as listed by ``cache ls``."""

    kind: str  # a key of SCHEMAS, or "kernel"
    name: str  # file name: the key if it is plain, else its hash
    n_bytes: int
    used_at: float  # seconds since 1970, UTC; updated at most once per process
    path: Path | None  # None: in memory only


class Folder:
    """Paths below one trusted root and the file operations on them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def open(cls, cache_folder: Path) -> Folder:
        """Open the layout below `cache_folder`, creating it (mode 700) if absent.

        Raise OSError if that fails, and PermissionError with the reason if other users could write it.
        """
        root = trust.made_root(cache_folder)
        folder = cls(root)
        with contextlib.suppress(OSError):  # read-only or full: reading still works
            if not (root / "CACHEDIR.TAG").exists():
                folder.write_file(root / "CACHEDIR.TAG", _TAG.encode())
        return folder

    # --- paths ---

    def record_path(self, kind: str, key: str) -> Path:
        """Return the path of the record `key` of `kind`."""
        name = file_name(key)
        return self.root / "records" / f"{kind}-{SCHEMAS[kind]}" / name[:2] / f"{name}.json"

    def kernel_path(self, key: str) -> Path:
        """Return the folder of the compiled kernel `key`."""
        name = file_name(key)
        return self.root / "kernels" / name[:2] / name

    def lock(self, kind: str, key: str, *, wait_s: float) -> AbstractContextManager[bool]:
        """Hold the lock of an entry, waiting at most `wait_s` seconds for it; yield whether the lock is held."""
        path = self.root / "locks" / f"{kind}.{file_name(key)}.lock"
        trust.make_folders(path.parent)
        return locks.hold(path, wait_s=wait_s)

    # --- records ---

    def read_record(self, kind: str, key: str) -> Envelope | None:
        """Return the record in its envelope; None if absent or of another schema. Raise RecordError if broken."""
        path = self.record_path(kind, key)
        try:
            content = trust.read_trusted(self.root, path, max_bytes=MAX_RECORD_BYTES)
        except FileNotFoundError:
            return None
        found = Envelope.from_bytes(content, name=str(path))
        if found.schema != SCHEMAS[kind]:
            return None
        if (found.kind, found.key) != (kind, key):
            raise RecordError.broken(str(path), reason=f"it is the record of {found.kind} {found.key}")
        return found

    def keys_with_prefix(self, kind: str, prefix: str) -> Iterator[str]:
        """Yield the plain keys of `kind` that begin with `prefix` (at least two hex digits), newest first."""
        folder = self.record_path(kind, prefix.ljust(16, "0")).parent
        with contextlib.suppress(OSError):
            found = [one for one in os.scandir(folder) if one.name.startswith(prefix) and one.name.endswith(".json")]
            yield from (one.name[: -len(".json")] for one in sorted(found, key=lambda one: -one.stat().st_mtime))

    def write_record(self, envelope: Envelope) -> int:
        """Publish `envelope` atomically and return the bytes that it takes on disk."""
        content = envelope.to_bytes()
        self.write_file(self.record_path(envelope.kind, envelope.key), content)
        return disk_bytes(len(content))

    def write_file(self, path: Path, content: bytes) -> None:
        """Replace the content of `path` atomically, even if the process is killed.

        There is no fsync. It would protect only against power loss, which the checksum detects, and take 0.3 ms instead
        of 0.07 ms.
        """
        staged = self.staging_name("file")
        try:
            fd = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
            with open(fd, "wb") as file:
                file.write(content)
            self.publish(staged, path)
        except BaseException:
            with contextlib.suppress(OSError):
                staged.unlink()
            raise

    def staging_name(self, name: str) -> Path:
        """Return an unused path in the staging folder, on the same file system as all entries."""
        folder = self.root / "staging"
        trust.make_folders(folder)
        return folder / f"{name}.{secrets.token_hex(8)}"

    @staticmethod
    def publish(staged: Path, path: Path) -> None:
        """Rename the staged file or folder to `path`, creating parents; retry if another process clears the cache."""
        for _ in range(ATTEMPTS):
            with contextlib.suppress(FileNotFoundError):
                staged.replace(path)
                return
            trust.make_folders(path.parent)
        staged.replace(path)

    def quarantine(self, path: Path) -> None:
        """Move a broken entry to the quarantine, which keeps the newest ones for inspection."""
        folder = self.root / "quarantine"
        trust.make_folders(folder)
        with contextlib.suppress(FileNotFoundError):
            path.replace(folder / f"{time.time_ns():020d}.{path.parent.parent.name}.{path.name}")
        for old in sorted(folder.iterdir())[:-MAX_QUARANTINED]:
            remove(old)

    # --- listing, removal ---

    def _found(self, pattern: str) -> list[Path]:
        """Return the paths that match `pattern`; list them again if another process removes a folder meanwhile.

        Up to Python 3.12 `Path.glob` raises FileNotFoundError then.
        """
        for _ in range(ATTEMPTS):
            with contextlib.suppress(FileNotFoundError):
                return list(self.root.glob(pattern))
        return []

    def entries(self) -> Iterator[Entry]:
        """Yield every record and kernel, skipping those that vanish meanwhile."""
        for path in self._found("records/*/??/*.json"):
            kind = path.parent.parent.name.rsplit("-", 1)[0]
            with contextlib.suppress(FileNotFoundError):
                facts = path.stat()
                yield Entry(kind, path.stem, disk_bytes(facts.st_size), facts.st_mtime, path)
        for path in self._found("kernels/??/*"):
            with contextlib.suppress(FileNotFoundError):
                sizes = [disk_bytes(item.stat().st_size) for item in path.iterdir()]
                manifest = path / MANIFEST
                used_at = (manifest if manifest.exists() else path).stat().st_mtime
                yield Entry("kernel", path.name, sum(sizes), used_at, path)

    def envelopes(self, kinds: Sequence[str]) -> Iterator[Envelope]:
        """Yield every valid record whose kind is in `kinds`, with its envelope."""
        for kind in kinds:
            for path in sorted(self._found(f"records/{kind}-{SCHEMAS[kind]}/??/*.json")):
                with contextlib.suppress(FileNotFoundError, RecordError):
                    content = trust.read_trusted(self.root, path, max_bytes=MAX_RECORD_BYTES)
                    found = Envelope.from_bytes(content, name=str(path))
                    if self.record_path(kind, found.key) == path and found.kind == kind:
                        yield found

    def remove_entry(self, path: Path) -> None:
        """Remove an entry, atomically for readers, then delete its files."""
        staged = self.staging_name("trash")
        with contextlib.suppress(FileNotFoundError):
            path.replace(staged)
            remove(staged)

    def clear(self) -> None:
        """Remove everything that belongs to this layout; other files stay."""
        for part in ("records", "kernels", "quarantine", ACCOUNTS):
            if os.path.lexists(self.root / part):
                self.remove_entry(self.root / part)

    def remove_kinds(self, kinds: Sequence[str]) -> None:
        """Remove all records of these kinds, of any schema. The kind "plan" includes accounts, which name plans."""
        for kind in kinds:
            for path in self._found(f"records/{kind}-*"):
                self.remove_entry(path)
        if "plan" in kinds and os.path.lexists(self.root / ACCOUNTS):
            self.remove_entry(self.root / ACCOUNTS)

    def sweep(self, *, now: float) -> int:
        """Remove files in staging/ and locks/ that killed processes left LEFTOVER_AGE_S ago; return their number."""
        n_swept = 0
        for path in [*self._found("staging/*"), *self._found("locks/*.lock")]:
            with contextlib.suppress(OSError):
                if now - path.lstat().st_mtime < LEFTOVER_AGE_S:
                    continue
                if self._is_in_use(path):
                    continue
                remove(path)
                n_swept += 1
        return n_swept

    def _is_in_use(self, path: Path) -> bool:
        """Return whether a process holds the lock file `path`, or the lock of the kernel that is staged in `path`."""
        lock = path
        if path.parent.name == "staging":
            lock = self.root / "locks" / f"{path.name.rsplit('.', 1)[0]}.lock"
        if not lock.exists():
            return False
        with locks.hold(lock, wait_s=0.0) as held:  # releasing removes the lock's file
            return not held


def remove(path: Path) -> None:
    """Remove a file, link or folder; raise OSError if anything remains."""
    try:
        is_folder = stat.S_ISDIR(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if is_folder:
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def disk_bytes(n_bytes: int) -> int:
    """Return the bytes that a file takes on disk, in blocks of 4 KiB."""
    return -(-n_bytes // 4096) * 4096
