"""How to get the C runtime after all where it was not built: pip's command for what was installed here."""

from __future__ import annotations

import importlib.metadata
import json
import shlex
import urllib.parse
from typing import Any, Final

OPTIONS: Final = ("--no-cache-dir", "--force-reinstall", "--no-deps")
"""Without the first, pip takes the wheel that it has kept: the one without a runtime."""


def hint() -> str:
    """What a user has to do, in one sentence."""
    command = " ".join(("python -m pip install", *OPTIONS, *map(shlex.quote, origin())))
    return f"install a C compiler (apt-get install gcc libc6-dev), then {command}"


def origin() -> tuple[str, ...]:
    """What pip was told to install: a folder (editable or not), an archive, a repository, or the package's name."""
    try:
        told: dict[str, Any] = json.loads(
            importlib.metadata.distribution("autosparse").read_text("direct_url.json") or "{}"
        )
    except (importlib.metadata.PackageNotFoundError, ValueError):
        told = {}
    url = str(told.get("url", "autosparse"))
    if "vcs_info" in told:
        return (f"{told['vcs_info'].get('vcs', 'git')}+{url}",)
    place = urllib.parse.unquote(url.removeprefix("file://"))
    return ("-e", place) if told.get("dir_info", {}).get("editable") else (place,)
