"""Instructions for users whose installation has no C runtime: pip's command for the way in which the package was
installed.
"""

from __future__ import annotations

import importlib.metadata
import json
import shlex
import urllib.parse
from typing import Any, Final

OPTIONS: Final = ("--no-cache-dir", "--force-reinstall", "--no-deps")
"""Options of pip. Without the first, pip would reuse its cached wheel, which has no runtime."""


def hint() -> str:
    """Return, in one sentence, what a user has to do."""
    command = " ".join(("python -m pip install", *OPTIONS, *map(shlex.quote, origin())))
    return f"install a C compiler (apt-get install gcc libc6-dev), then {command}"


def origin() -> tuple[str, ...]:
    """Return pip's argument for this installation: a folder (editable or not), an archive, a repository, or the
    package name.
    """
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
