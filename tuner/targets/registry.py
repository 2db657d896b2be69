"""The targets that ship, by name; everybody's own come from files (`python -m autosparse transfer`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from autosparse.tuner.targets.accelerator import Accelerator, read_accelerator

FOLDER: Final = Path(__file__).resolve().parent / "descriptions"

ACCELERATORS: Final[Mapping[str, str]] = {"spade": "spade.json", "small": "small.json", "wide": "wide.json"}
"""Name -> file in FOLDER."""


def find_accelerator(name: str) -> Accelerator:
    """The accelerator of that name, or of the JSON file of that path; RecordError, FileNotFoundError."""
    return read_accelerator(FOLDER / ACCELERATORS[name] if name in ACCELERATORS else Path(name))
