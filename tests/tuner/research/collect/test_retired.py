"""Test that archives may hold measurements of schedules that this version does not have."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
from autosparse.tuner.research.collect import files

from tests.tuner.research.collect.test_measurements import measurements


def test_measurements_of_retired_storage_are_skipped(tmp_path: Path) -> None:
    found = measurements()
    texts = list(found.schedules)
    texts[3] = texts[3].replace('"format":"', f'"format":"i1:U,k1:C | {files.RETIRED} | ', 1)
    files.merge([dataclasses.replace(found, schedules=texts)], tmp_path / "m.npz")
    (again,) = files.read_merged(tmp_path / "m.npz")
    assert list(again.schedules) == [*texts[:3], *texts[4:]]
    for name, column in found.columns.items():
        np.testing.assert_array_equal(again[name], np.delete(column, 3))
