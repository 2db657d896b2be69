"""Collection of training data for learned cost models: patterns × sampled SuperSchedules -> measured times, as files.

`recipes` names patterns, `sampling` draws schedules, `batches` times them in batches, and `files` stores and merges
measurements. `collector` runs all of them within a time limit. docs/collecting.md describes the files.
"""

from __future__ import annotations

from autosparse.tuner.research.collect.files import Measurements, read, read_merged
from autosparse.tuner.research.collect.recipes import Recipe, is_held_out

__all__ = ["Measurements", "Recipe", "is_held_out", "read", "read_merged"]
