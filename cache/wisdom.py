"""Wisdom (FFTW's term): plans as one file, to be transferred between machines.

The file is one JSON object ``{"autosparse_wisdom": 1, "library", "entries": [envelopes]}``. It holds data only, never
kernels. Keys become file names only by hashing. Each entry is checked like a record on disk and by the reader of its
kind, and the size and number of entries are bounded. Of two plans for one key the one found with more effort is kept,
then the newer one. Importing a file twice therefore changes nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autosparse.cache.envelope import Envelope, Record
from autosparse.cache.records import KINDS, WISDOM_KINDS
from autosparse.cache.stores import open_store

from autosparse._version import __version__
from autosparse.core.documents import write_whole
from autosparse.errors import CacheError, InputTypeError, OptionError, RecordError

if TYPE_CHECKING:
    from autosparse.cache.store import Store

WISDOM_VERSION: Final = 1
"""Version of the file's layout; other versions are refused."""
MAX_WISDOM_BYTES: Final = 256 << 20
"""Maximum size of a file, in bytes."""
MAX_WISDOM_ENTRIES: Final = 200_000
"""Maximum number of entries of a file."""
_MARK: Final = "autosparse_wisdom"


def wisdom_export(path: os.PathLike[str] | str) -> int:
    """Write all stored plans to the file `path` and return their number.

    Raise CacheError if the file cannot be written.

    >>> asp.wisdom_export("plans.json") >= 0
    True

    """
    return write(open_store(), _as_path(path), kinds=WISDOM_KINDS)


def wisdom_import(path: os.PathLike[str] | str) -> int:
    """Merge the file at `path`, written by `wisdom_export`, into the cache and return the number of records kept.

    Raise CacheError if the file cannot be read or has another format. Broken entries and entries of other kinds are
    skipped.

    >>> n_written = asp.wisdom_export("plans.json")
    >>> asp.wisdom_import("plans.json") <= n_written
    True

    """
    return read(open_store(), _as_path(path))


def wisdom_forget() -> None:
    """Remove all stored plans and the accounts of earlier processes; compiled kernels stay.

    Raise CacheError if the folder's permissions forbid it.

    >>> asp.wisdom_forget()
    >>> asp.wisdom_export("plans.json")
    0

    """
    open_store().forget(WISDOM_KINDS)


def _as_path(path: object) -> Path:
    if isinstance(path, (str, os.PathLike)) and isinstance(os.fspath(path), str):
        return Path(path)
    raise InputTypeError.refused(
        "wisdom is kept in a file", given=f"{type(path).__name__} {path!r:.60}", hint="pass the path of a file"
    )


def write(store: Store, path: Path, *, kinds: Sequence[str]) -> int:
    """Write the stored records of these kinds to the wisdom file `path`, atomically; return their number."""
    unknown = sorted(set(kinds) - set(KINDS))
    if unknown:
        raise OptionError.bad_value("kinds", unknown, domain=f"among {', '.join(KINDS)}", source="argument")
    document = document_of(store.envelopes(kinds))
    text = json.dumps(document, indent=1)
    try:
        write_whole(path, text + "\n")
    except (OSError, ValueError) as err:  # ValueError: a name that no file can have
        reason = getattr(err, "strerror", None) or str(err)
        raise CacheError.failed(
            "export wisdom to", path, reason=reason, hint="name a file in a folder you can write."
        ) from err
    return len(document["entries"])


def document_of(envelopes: Iterable[Envelope]) -> Record:
    """Return the JSON object of a wisdom file with these records."""
    entries = [item.to_json() for item in envelopes]
    return {_MARK: WISDOM_VERSION, "library": __version__, "entries": entries}


def merge(store: Store, document: object, *, name: str) -> int:
    """Merge the result of `document_of` into `store` and return the number of records kept; may raise CacheError."""
    entries = _entries_of(document, Path(name))
    return sum(_merge(store, found, name=f"{name}, entry {i}") for i, found in enumerate(entries))


def read(store: Store, path: Path) -> int:
    """Merge the wisdom file `path` into `store` and return the number of records kept."""
    return sum(_merge(store, found, name=f"{path}, entry {i}") for i, found in enumerate(_entries(path)))


def _merge(store: Store, found: object, *, name: str) -> bool:
    try:
        envelope = Envelope.from_json(found, name=name)
        return _is_welcome(envelope) and store.adopt(envelope)
    except RecordError:
        return False  # damaged or of another release: the other entries are still useful


def _is_welcome(envelope: Envelope) -> bool:
    """Return whether the record is wisdom of a current schema; raise RecordError if its content is invalid.

    Cost estimates, failures and features depend on the machine and are therefore never imported.
    """
    row = KINDS.get(envelope.kind)
    if row is None or not row.is_wisdom or row.schema != envelope.schema:
        return False
    row.check(envelope.record)
    return True


def _entries(path: Path) -> list[object]:
    try:
        if path.exists() and not path.is_file():
            raise _unreadable(path, "not a regular file")
        size_bytes = path.stat().st_size
        if size_bytes > MAX_WISDOM_BYTES:
            raise _unreadable(path, f"{size_bytes:,} bytes, more than the {MAX_WISDOM_BYTES:,} allowed")
        found = json.loads(path.read_bytes())
    except CacheError:
        raise
    except OSError as err:
        raise _unreadable(path, err.strerror or str(err)) from err
    except (ValueError, RecursionError) as err:
        raise _unreadable(path, f"not JSON ({err})") from err
    return _entries_of(found, path)


def _entries_of(found: object, path: Path) -> list[object]:
    if not isinstance(found, dict) or found.get(_MARK) != WISDOM_VERSION:
        raise _unreadable(path, f"no wisdom of version {WISDOM_VERSION}")
    entries = found.get("entries")
    if not isinstance(entries, list) or len(entries) > MAX_WISDOM_ENTRIES:
        raise _unreadable(path, f"its entries must be a list of at most {MAX_WISDOM_ENTRIES:,}")
    return entries


def _unreadable(path: Path, reason: str) -> CacheError:
    return CacheError.failed("import wisdom from", path, reason=reason, hint="name a file that wisdom_export wrote.")
