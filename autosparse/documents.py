"""Documents: text files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write `path` so that a reader sees the old file or the new one, never half of it. Raises OSError, ValueError.

    A link stays one: the file that it leads to is written. What is no file (a pipe, a device) is written to as it is.
    """
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8") as stream:
            stream.write(text)
        return
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with beside.open("x", encoding="utf-8") as stream:
            stream.write(text)
        beside.replace(target)
    finally:
        with contextlib.suppress(OSError, ValueError):
            beside.unlink()
