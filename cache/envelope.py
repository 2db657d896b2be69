"""Envelope: one record as stored on disk, with the metadata needed to validate it.

A file is one JSON object ``{"checksum", "kind", "key", "schema", "library", "saved_at", "record"}``. The checksum
covers the canonical text of all other members. It detects torn and damaged files but not manipulation, which `trust`
prevents.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from autosparse.cache.keys import MAX_KEY_CHARS, canonical_json, digest

from autosparse._version import __version__
from autosparse.core.values import dataclass
from autosparse.errors import RecordError

Record = dict[str, Any]  # Any: JSON values

LATEST_S: Final = 1e15
"""Maximum date, in seconds since 1970. Arithmetic on smaller dates is sufficiently exact and finite."""
_FIELD_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "kind": str,
    "key": str,
    "schema": int,
    "library": str,
    "saved_at": (int, float),
    "record": dict,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """Stored record with its kind, key, schema, writer's release and date; `record` must not be modified."""

    kind: str
    key: str
    schema: int
    library: str  # version of autosparse that wrote it
    saved_at: float  # seconds since 1970, UTC
    record: Record

    @classmethod
    def seal(cls, kind: str, key: str, record: Record, *, schema: int, saved_at: float) -> Envelope:
        """Create an envelope around a copy of `record` in the form in which it is read back (tuples become lists).

        Raise TypeError or ValueError if `record` is not JSON.
        """
        plain = json.loads(canonical_json(record))
        return cls(kind=kind, key=key, schema=schema, library=__version__, saved_at=float(saved_at), record=plain)

    def to_json(self) -> Record:
        """Return the JSON object with its checksum."""
        content = asdict(self)
        return {"checksum": digest(canonical_json(content).encode()), **content}

    def to_bytes(self) -> bytes:
        """Return the content of a record file."""
        return (json.dumps(self.to_json(), separators=(",", ":")) + "\n").encode()

    @classmethod
    def from_bytes(cls, content: bytes, *, name: str) -> Envelope:
        """Invert `to_bytes`; raise RecordError (naming `name`) if `content` is torn, damaged or no record."""
        try:
            found = json.loads(content)
        except (ValueError, RecursionError) as err:
            raise RecordError.broken(name, reason=f"not JSON ({err})") from err
        return cls.from_json(found, name=name)

    @classmethod
    def from_json(cls, found: object, *, name: str) -> Envelope:
        """Invert `to_json`; raise RecordError as `from_bytes` does."""
        if not isinstance(found, dict) or set(found) != {"checksum", *_FIELD_TYPES}:
            raise RecordError.broken(name, reason="not a cache record")
        content = {field: found[field] for field in _FIELD_TYPES}
        for field, wanted in _FIELD_TYPES.items():
            if not isinstance(content[field], wanted) or isinstance(content[field], bool):
                raise RecordError.broken(name, reason=f"{field} has the wrong type")
        if not 0 <= content["saved_at"] <= LATEST_S:
            raise RecordError.broken(name, reason="saved_at is no date")
        if len(content["key"]) > MAX_KEY_CHARS:
            raise RecordError.broken(name, reason="key too long")
        try:
            checksum = digest(canonical_json(content).encode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError) as err:
            raise RecordError.broken(name, reason=f"not a cache record ({err})") from err
        if found["checksum"] != checksum:
            raise RecordError.broken(name, reason="checksum does not match")
        return cls(**content)
