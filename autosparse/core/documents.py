"""Atomic writing of text files: a file is written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write `text` to `path` atomically: a reader sees the old file or the new one. Raises OSError or ValueError.

    A symbolic link is kept: its target is written and keeps its permissions. Pipes, devices and the file that standard
    output goes to (``/dev/stdout``) cannot be replaced and are written directly.
    """
    if path.exists() and (not path.is_file() or _is_output(path)):
        with open(1 if _is_output(path) else path, "w", encoding="utf-8", closefd=not _is_output(path)) as stream:
            stream.write(text)
        return
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with beside.open("x", encoding="utf-8") as stream:
            stream.write(text)
        if target.exists():
            shutil.copymode(target, beside)
        beside.replace(target)
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # the caller does not know the file beside it
        raise
    finally:
        with contextlib.suppress(OSError, ValueError):
            beside.unlink()


def _is_output(path: Path) -> bool:
    """Return whether `path` is the file that standard output goes to."""
    try:
        return os.path.samestat(path.stat(), os.fstat(1))
    except OSError:  # it is closed
        return False
