"""Kernel sources in the folder of the setting `dump_dir`: written for inspection, and read back if the C was edited.

Edited sources are compiled and run in this process. So the folder must pass the checks of the cache folder
(`cache.trust`): it and its files belong to this user, and only this user can write them. Files are created by
renaming, which follows no link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from autosparse.cache import trust

from autosparse import config, log
from autosparse.errors import BuildError, RecordError

MAX_SOURCE_BYTES: Final = 1 << 24
"""Maximum size of an edited source, bytes."""


def write(texts: Mapping[str, str], key: str) -> None:
    """Write files of these names into the folder, if it is set.

    Raises BuildError if that fails or the folder is not trusted.
    """
    if config.get_options().dump_dir is None:
        return
    try:
        folder = _folder(create=True)
        for name, text in texts.items():
            _put(folder, name, text)
    except OSError as err:
        reason = err.strerror or str(err)
        raise BuildError(
            f"cannot write to the folder of AUTOSPARSE_DUMP_DIR: {reason}\n"
            "  Hint: set AUTOSPARSE_DUMP_DIR to a folder that only you can write.",
            key=key,
        ) from err


def read(name: str) -> str | None:
    """Return the text of a file of the folder, or None if it does not exist or another user could have written it."""
    if config.get_options().dump_dir is None:
        return None
    try:
        folder = _folder(create=False)
        return trust.read_trusted(folder, folder / name, max_bytes=MAX_SOURCE_BYTES).decode()
    except FileNotFoundError:
        return None
    except (OSError, RecordError, UnicodeDecodeError) as err:
        log.event("build", "a file of AUTOSPARSE_DUMP_DIR is not read", name=name, reason=str(err).split("\n")[0])
        return None


def _folder(*, create: bool) -> Path:
    """Return the folder with links resolved. Raises PermissionError with the reason if it is not trusted."""
    folder = config.get_options().dump_dir
    assert folder is not None
    if create:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = folder.resolve()
    reason = trust.untrusted_reason(folder)
    if reason:
        raise PermissionError(errno.EPERM, reason)
    return folder


def _put(folder: Path, name: str, text: str) -> None:
    beside = folder / f".{name}.{os.getpid()}.{threading.get_ident()}"
    try:
        with beside.open("x", encoding="utf-8") as file:
            file.write(text)
        beside.replace(folder / name)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
