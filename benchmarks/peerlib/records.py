"""Results as JSON lines: appended case by case, so that an interrupted run goes on where it stopped.

Line kinds: {"kind": "run", "run": id, machine facts, protocol} and {"kind": "case", "run": id, "key": ..., times}.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ResultFile:
    """A JSON-lines file; `path` None keeps nothing."""

    path: Path | None

    def lines(self) -> Iterator[dict[str, Any]]:
        """Every whole line; a last line cut short by a kill is passed over."""
        if self.path is None or not self.path.exists():
            return
        for text in self.path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                yield json.loads(text)

    def cases(self, **wanted: Any) -> list[dict[str, Any]]:
        """Case lines whose fields equal `wanted`, the newest for each key."""
        found = (line for line in self.lines() if line.get("kind") == "case")
        kept = {line["key"]: line for line in found if all(line.get(name) == value for name, value in wanted.items())}
        return list(kept.values())

    def append(self, record: dict[str, Any]) -> None:
        """Add one line."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        torn = self.path.exists() and not self.path.read_bytes().endswith(b"\n") and self.path.stat().st_size > 0
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(("\n" if torn else "") + json.dumps(record, sort_keys=True) + "\n")
