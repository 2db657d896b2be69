"""Hook for PyInstaller, which finds this package by an entry point in `pyproject.toml`."""

from __future__ import annotations

import os.path


def get_hook_dirs() -> list[str]:
    """Return the folder of the hook, which PyInstaller runs for each program that imports autosparse."""
    return [os.path.dirname(__file__)]  # noqa: PTH120
