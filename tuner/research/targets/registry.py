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
    """Return the accelerator of that name or JSON file path; raise RecordError or FileNotFoundError."""
    return read_accelerator(FOLDER / ACCELERATORS[name] if name in ACCELERATORS else Path(name))
