"""Data for learned cost models: patterns × sampled SuperSchedules -> measured times, as columnar files.

`recipes` names patterns, `sampling` draws schedules, `batches` times them, `files` keeps and merges what was measured,
`collector` does all of it for as long as it may; docs/collecting.md describes the files.
"""

from __future__ import annotations

from autosparse.tuner.collect.files import Measurements, read, read_merged
from autosparse.tuner.collect.recipes import Recipe, is_held_out

__all__ = ["Measurements", "Recipe", "is_held_out", "read", "read_merged"]
