"""Registry of the shipped targets by name; users pass files of their own (`python -m autosparse transfer`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from autosparse.tuner.research.targets.accelerator import Accelerator, read_accelerator

FOLDER: Final = Path(__file__).resolve().parent / "descriptions"

ACCELERATORS: Final[Mapping[str, str]] = {"spade": "spade.json", "small": "small.json", "wide": "wide.json"}
"""Name of a target -> file in FOLDER."""


def find_accelerator(name: str) -> Accelerator:
    """Return the shipped accelerator of that name, or the one that the JSON file with that path describes.

    Raises RecordError for invalid contents, and FileNotFoundError where there is no such name and no such file.
    """
    path = FOLDER / ACCELERATORS[name] if name in ACCELERATORS else Path(name)
    if not path.exists():
        hint = f"pass one of {', '.join(sorted(ACCELERATORS))}, or the path of a description (docs/transfer.md)"
        raise FileNotFoundError(f"there is no accelerator {name!r}\n  Hint: {hint}.")
    return read_accelerator(path)
