"""Results as JSON lines, appended case by case so that an interrupted run can continue.

Line kinds: {"kind": "run", "run": id, machine facts, protocol} and {"kind": "case", "run": id, "key": ..., times}.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peerlib.archives import read_bytes


def given_arguments(given: Sequence[str] | None = None) -> list[str]:
    """Return the command line for the results; absolute paths are reduced to their last component."""
    return [Path(one).name if Path(one).is_absolute() else one for one in (sys.argv[1:] if given is None else given)]


@dataclass(frozen=True)
class ResultFile:
    """A JSON-lines file; with `path` None nothing is stored. A file of `benchmarks/results` may be in an archive."""

    path: Path | None

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield every complete line; a last line that was cut off is skipped."""
        content = None if self.path is None else read_bytes(self.path)
        if content is None:
            return
        for text in content.decode().splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                yield json.loads(text)

    def cases(self, **wanted: Any) -> list[dict[str, Any]]:
        """Return the newest case line of each key, among those whose fields equal `wanted`."""
        found = (line for line in self.lines() if line.get("kind") == "case")
        kept = {line["key"]: line for line in found if all(line.get(name) == value for name, value in wanted.items())}
        return list(kept.values())

    def append(self, record: dict[str, Any]) -> None:
        """Append one line."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.path.exists() and (kept := read_bytes(self.path)) is not None:
            self.path.write_bytes(kept)  # a recorded run goes on where its archived file ends
        torn = self.path.exists() and not self.path.read_bytes().endswith(b"\n") and self.path.stat().st_size > 0
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(("\n" if torn else "") + json.dumps(record, sort_keys=True) + "\n")
