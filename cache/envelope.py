"""Envelope: one record as it lies on disk, with everything needed to decide whether to believe it.

A file is one JSON object ``{"checksum", "kind", "key", "schema", "library", "saved_at", "record"}``; the checksum is
taken over the canonical text of all other members. It guards against torn and damaged files, not against an enemy:
that is what `trust` is for.
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
"""Of dates: arithmetic on them is exact enough, and finite."""
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
    """A record with its kind, key and origin. `record` holds only what JSON can say and must not be written to."""

    kind: str
    key: str
    schema: int
    library: str  # version of autosparse that wrote it
    saved_at: float  # seconds since 1970, UTC
    record: Record

    @classmethod
    def seal(cls, kind: str, key: str, record: Record, *, schema: int, saved_at: float) -> Envelope:
        """An envelope around a copy of `record` in the form that a reader will get (tuples become lists).

        TypeError or ValueError when `record` is not JSON.
        """
        plain = json.loads(canonical_json(record))
        return cls(kind=kind, key=key, schema=schema, library=__version__, saved_at=float(saved_at), record=plain)

    def to_json(self) -> Record:
        """JSON object with its checksum."""
        content = asdict(self)
        return {"checksum": digest(canonical_json(content).encode()), **content}

    def to_bytes(self) -> bytes:
        """The content of a record file."""
        return (json.dumps(self.to_json(), separators=(",", ":")) + "\n").encode()

    @classmethod
    def from_bytes(cls, content: bytes, *, name: str) -> Envelope:
        """Invert `to_bytes`; RecordError (naming `name`) when `content` is torn, damaged or something else."""
        try:
            found = json.loads(content)
        except (ValueError, RecursionError) as err:
            raise RecordError.broken(name, reason=f"not JSON ({err})") from err
        return cls.from_json(found, name=name)

    @classmethod
    def from_json(cls, found: object, *, name: str) -> Envelope:
        """Invert `to_json`; RecordError as for `from_bytes`."""
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
