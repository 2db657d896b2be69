"""Store: the interface of planner and kernels to the cache, whose failures never make a product fail.

A store is in one of three states: its folder is read and written, only read (after the first write error), or absent.
Entries that cannot be written stay in memory, with one CacheWarning per folder and process.
"""

from __future__ import annotations

import contextlib
import copy
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from autosparse.cache import artefacts, eviction, keys, late
from autosparse.cache.artefacts import Build, PrivateArtefacts
from autosparse.cache.envelope import Envelope, Record
from autosparse.cache.folder import MANIFEST, Entry, Folder, disk_bytes
from autosparse.cache.memory import Memory
from autosparse.cache.records import KINDS, WISDOM_KINDS, is_preferred
from autosparse.cache.stats import Stats

from autosparse import forking
from autosparse.errors import CacheError, RecordError
from autosparse.notices import CacheWarning, warn_once

UPDATE_WAIT_S: Final = 2.0  # seconds; updates take microseconds, so a longer wait means a stopped process
ARTEFACT_WAIT_S: Final = 60.0  # seconds; compilations take 0.3 s. Then a private kernel is built
_DISCARD_WAIT_S: Final = 0.1
LISTENERS: Final[list[Callable[[Envelope], None]]] = []
"""Functions called with each record that a store of this process saves, in the saving thread. They must not raise."""


class Store:
    """Store of records by (kind, key) and compiled kernels by key, on disk if possible, else in memory. Thread-safe."""

    def __init__(
        self, cache_folder: Path | None, *, max_bytes: int = 1 << 30, clock: Callable[[], float] = time.time
    ) -> None:
        self.max_bytes, self._clock = max_bytes, clock
        self._cache_folder = cache_folder
        self._folder: Folder | None = None
        self._reason: str | None = None if cache_folder else "the cache is turned off by an option"
        self._memory = Memory(clock=time.monotonic)
        self._late: dict[tuple[str, str], Callable[[], Record]] = {}
        self._flushing = forking.rlock()
        self._private = PrivateArtefacts()
        self._counts: Counter[str] = Counter()
        self._written_bytes = 0
        self._mutex = forking.lock()
        self._name_locks: dict[tuple[str, str], threading.Lock] = {}
        if cache_folder is not None:
            try:
                self._folder = Folder.open(cache_folder)
            except OSError as err:
                self._stop_writing(err)

    @property
    def cache_folder(self) -> Path | None:
        """Folder in which this store was opened, or None if it stores nothing on disk."""
        return self._cache_folder if self._folder is not None else None

    # --- records ---

    def load(self, kind: str, key: str, *, fresh: bool = False) -> Record | None:
        """Return the record `key` of `kind`, or None if there is no valid one; it must not be modified.

        `fresh` reads the disk even if this process has read the record before, because another process may have
        replaced it.
        """
        name = (kind, key)
        if name in self._late:
            self.flush(name)
        if not fresh:
            found = self._memory.get(name)
            if found is not None:
                self._counts["n_memory_hits"] += 1
                return found.record
            if self._memory.is_absent(name):
                return None
        return self._load_from_disk(kind, key, is_locked=False)

    def save(self, kind: str, key: str, record: Record) -> None:
        """Store `record` (JSON values or NumPy scalars) in place of an older one; never raise, warn instead."""
        try:
            envelope = Envelope.seal(kind, key, record, schema=KINDS[kind].schema, saved_at=self._clock())
        except (TypeError, ValueError) as err:
            warn_once(CacheWarning, f"record {kind}", CacheWarning.unserialisable(kind, reason=str(err)))
            return
        self._publish(envelope)

    def save_later(self, kind: str, key: str, make: Callable[[], Record]) -> None:
        """Save the result of `make` soon: in another thread, when the record is requested, or at exit."""
        self._late[kind, key] = make
        late.write_soon(self)

    def flush(self, name: tuple[str, str] | None = None) -> None:
        """Save postponed records (see `save_later`) now: the one with the given name (kind, key), or all."""
        for one in [name] if name is not None else list(self._late):
            with self._flushing:  # other threads block until the record is saved
                if (make := self._late.get(one)) is not None:
                    self.save(*one, make())
                    if self._late.get(one) is make:
                        del self._late[one]

    def update(self, kind: str, key: str, change: Callable[[Record | None], Record]) -> Record:
        """Replace the record by ``change(record)`` under its lock, so that no other process's update is lost.

        `change` receives a copy of the newest record, or None if there is none. Return its result.
        """
        self.flush((kind, key))
        with self.exclusive(kind, key, wait_s=UPDATE_WAIT_S) as is_locked:
            old = self._load_from_disk(kind, key, is_locked=is_locked)
            record = change(copy.deepcopy(old))
            self.save(kind, key, record)
        return record

    def remove(self, kind: str, key: str) -> None:
        """Remove one record from disk and memory; it need not exist."""
        self._late.pop((kind, key), None)
        self._memory.forget((kind, key))
        if self._folder is not None and self._reason is None:
            with contextlib.suppress(OSError):
                self._folder.record_path(kind, key).unlink()

    @contextmanager
    def exclusive(self, kind: str, key: str, *, wait_s: float = 0.0) -> Iterator[bool]:
        """Hold the lock of one record across processes and threads (not reentrant); yield whether it is held."""
        with ExitStack() as stack:
            if self._folder is not None and self._reason is None:
                try:
                    is_held = stack.enter_context(self._folder.lock(kind, key, wait_s=wait_s))
                except OSError as err:
                    self._stop_writing(err)
                else:
                    yield is_held
                    return
            with self._mutex:
                lock = self._name_locks.setdefault((kind, key), forking.lock())
            is_held = lock.acquire(timeout=wait_s)
            if is_held:
                stack.callback(lock.release)
            yield is_held

    def envelope(self, kind: str, key: str) -> Envelope | None:
        """Return the envelope (record and metadata) of `key`, or None if there is no valid record."""
        return None if self.load(kind, key) is None else self._memory.get((kind, key))

    def _load_from_disk(self, kind: str, key: str, *, is_locked: bool) -> Record | None:
        name = (kind, key)
        found = self._memory.get(name) if self._reason else None  # it has records that were not written
        if found is None and self._folder is not None:
            found = self._read(self._folder, kind, key, is_locked=is_locked)
        if found is None:
            self._counts["n_misses"] += 1
            self._memory.forget(name)
            self._memory.put_absent(name)
            return None
        self._memory.put(found)
        return found.record

    def _read(self, folder: Folder, kind: str, key: str, *, is_locked: bool) -> Envelope | None:
        try:
            found = folder.read_record(kind, key)
        except RecordError:
            found = self._look_again(folder, kind, key, is_locked=is_locked)
        if found is not None:
            self._counts["n_disk_hits"] += 1
            eviction.touch(folder.record_path(kind, key))
        return found

    def _look_again(self, folder: Folder, kind: str, key: str, *, is_locked: bool) -> Envelope | None:
        """Read a record again that was broken, under its lock; return it if replaced meanwhile, else quarantine it."""
        if self._reason:
            return None
        try:
            with ExitStack() as stack:
                if not is_locked and not stack.enter_context(folder.lock(kind, key, wait_s=_DISCARD_WAIT_S)):
                    return None
                try:
                    return folder.read_record(kind, key)
                except RecordError:
                    folder.quarantine(folder.record_path(kind, key))
                    self._counts["n_quarantined"] += 1
        except OSError as err:
            self._stop_writing(err)
        return None

    def _publish(self, envelope: Envelope) -> None:
        self._memory.put(envelope)
        self._counts["n_saves"] += 1
        if self._folder is not None and self._reason is None:
            try:
                self._wrote(self._folder, self._folder.write_record(envelope))
            except OSError as err:
                self._stop_writing(err)
        for listen in tuple(LISTENERS):
            listen(envelope)

    # --- kernels ---

    def artefact(self, key: str, build: Build, *, wait_s: float = ARTEFACT_WAIT_S) -> Path:
        """Return the folder of the compiled kernel `key`, which `build` fills if there is no valid one.

        Of several processes one builds and the others wait, at most `wait_s` seconds. File digests are recorded after
        `build` and compared on each use. Without a cache folder, the kernel is private to this process. Exceptions of
        `build` are passed on, OSError as BuildError. BuildError is also raised if no temporary folder can be written.
        """
        if self._folder is not None:
            try:
                path = self._shared_artefact(self._folder, key, build, wait_s)
            except OSError as err:
                if not artefacts.is_disk_trouble(err, self._folder):
                    raise
                self._stop_writing(err)
            else:
                if path is not None:
                    return path
        return self._private.artefact(key, build)

    def find_artefact(self, key: str) -> Path | None:
        """Return the folder of the kernel `key` if a valid one exists, without building, locking or waiting."""
        if self._folder is not None:
            with contextlib.suppress(RecordError):
                found = artefacts.find(self._folder, key)
                if found is not None:
                    return found
        return self._private.find(key)

    def _shared_artefact(self, folder: Folder, key: str, build: Build, wait_s: float) -> Path | None:
        """Return the folder of a kernel in the shared cache, built if absent; None if that is impossible now."""
        with contextlib.suppress(RecordError):  # a broken kernel is checked again under the lock
            ready = self._find_artefact(folder, key)
            if ready is not None or self._reason:
                return ready
        if self._reason:
            return None
        with folder.lock("kernel", artefacts.versioned_key(key), wait_s=wait_s) as is_held:
            if not is_held:
                return None
            try:
                ready = self._find_artefact(folder, key)
            except RecordError:
                ready = None
                folder.quarantine(folder.kernel_path(artefacts.versioned_key(key)))
                self._counts["n_quarantined"] += 1
            if ready is None:
                ready = artefacts.build_and_publish(folder, key, build, now=self._clock())
                self._counts["n_kernels_built"] += 1
                self._wrote(folder, sum(disk_bytes(item.stat().st_size) for item in ready.iterdir()))
            return ready

    def _find_artefact(self, folder: Folder, key: str) -> Path | None:
        ready = artefacts.find(folder, key)
        if ready is not None:
            self._counts["n_kernels_reused"] += 1
            eviction.touch(ready / MANIFEST)
        return ready

    # --- contents ---

    def entries(self) -> list[Entry]:
        """Return all records and kernels, most recently used first."""
        self.flush()
        found = [] if self._folder is None else list(self._folder.entries())
        known = {(entry.kind, entry.name) for entry in found}
        for envelope in self._memory.envelopes() if self._reason else []:
            entry = Entry(
                envelope.kind, keys.file_name(envelope.key), len(envelope.to_bytes()), envelope.saved_at, None
            )
            if (entry.kind, entry.name) not in known:
                found.append(entry)
        return sorted(found, key=lambda entry: -entry.used_at)

    def keys_with_prefix(self, kind: str, prefix: str) -> list[str]:
        """Return the plain keys of `kind` that begin with `prefix` (at least two hex digits)."""
        self.flush()
        known = [envelope.key for envelope in self._memory.envelopes() if envelope.kind == kind]
        found = dict.fromkeys(key for key in known if key.startswith(prefix))
        if self._folder is not None:
            found |= dict.fromkeys(self._folder.keys_with_prefix(kind, prefix))
        return list(found)

    def envelopes(self, kinds: Sequence[str] = WISDOM_KINDS) -> list[Envelope]:
        """Return every valid record of `kinds` with its key and origin."""
        self.flush()
        found = {(item.kind, item.key): item for item in self._memory.envelopes() if self._reason}
        for envelope in self._folder.envelopes(kinds) if self._folder is not None else ():
            found.setdefault((envelope.kind, envelope.key), envelope)
        return [found[name] for name in sorted(found) if name[0] in kinds]

    def adopt(self, other: Envelope) -> bool:
        """Keep a record from elsewhere unless its kind's rule prefers the existing one; return whether it was kept."""
        self.flush((other.kind, other.key))
        with self.exclusive(other.kind, other.key, wait_s=UPDATE_WAIT_S) as is_locked:
            self._load_from_disk(other.kind, other.key, is_locked=is_locked)
            mine = self._memory.get((other.kind, other.key))
            if mine is not None and not is_preferred(mine, other):
                return False
            self._publish(other)
            return True

    def forget(self, kinds: Sequence[str]) -> None:
        """Remove every record of `kinds`; raise CacheError if the folder's permissions forbid it."""
        self.flush()
        self._memory.forget()
        if self._folder is not None:
            with _asked_for("clear the cache", self._folder.root):
                self._folder.remove_kinds(kinds)

    def discard(self, entries: Sequence[Entry]) -> None:
        """Remove these entries; raise CacheError if the folder's permissions forbid it."""
        self.flush()
        self._memory.forget()
        if self._folder is not None:
            with _asked_for("remove entries of the cache", self._folder.root):
                for path in filter(None, (entry.path for entry in entries)):
                    self._folder.remove_entry(path)

    def clear(self) -> None:
        """Remove all records, kernels and quarantined entries; raise CacheError if permissions forbid it."""
        self._late.clear()
        self._memory.forget()
        if self._folder is not None:
            with _asked_for("clear the cache", self._folder.root):
                self._folder.clear()

    def stats(self) -> Stats:
        """Return the state, the contents currently on disk, and the counters of this process."""
        entries = self.entries()
        return Stats(
            folder=self._cache_folder,
            access="memory" if self._folder is None else "read only" if self._reason else "read and write",
            reason=self._reason,
            max_bytes=self.max_bytes,
            n_entries=dict(Counter(entry.kind for entry in entries)),
            n_bytes=sum(entry.n_bytes for entry in entries),
            **self._counts,
        )

    # --- housekeeping ---

    def _wrote(self, folder: Folder, n_bytes: int) -> None:
        """Add to the count of bytes written by this process, and run maintenance if it is due."""
        self._written_bytes += n_bytes
        now = self._clock()
        if not eviction.is_due(folder, now=now, written_bytes=self._written_bytes, max_bytes=self.max_bytes):
            return
        self._written_bytes = 0
        try:
            done = eviction.maintain(folder, now=now, max_bytes=self.max_bytes)
        except OSError as err:  # the written entry exists all the same
            self._stop_writing(err)
            return
        if done is not None:
            self._counts["n_evicted"] += done.n_evicted
            self._counts["n_swept"] += done.n_swept

    def _stop_writing(self, err: OSError) -> None:
        """Keep new entries in memory only from now on, and warn once."""
        if self._reason is None:
            self._reason = err.strerror or str(err)
            message = CacheWarning.unusable(
                self._cache_folder or "", reason=self._reason, readable=self._folder is not None
            )
            warn_once(CacheWarning, str(self._cache_folder), message)

    def reset_after_fork(self) -> None:
        """Drop the parent's postponed records and temporary folder in a forked child; the parent keeps both."""
        self._late, self._private = {}, PrivateArtefacts()


@contextmanager
def _asked_for(what: str, path: Path) -> Iterator[None]:
    """Raise CacheError, which names the operation `what` and `path`, for an OSError within the context."""
    try:
        yield
    except OSError as err:
        hint = "check that the folder is writable and its disk is not full."
        raise CacheError.failed(what, path, reason=err.strerror or str(err), hint=hint) from err
