"""Fuzz tests of damaged files: the right matrix or an exception that SciPy could raise, and no crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.batches import run_cases


def read_many(folder: Path, first: int, n: int) -> None:
    n_read = run_cases("tests.fuzz.file_cases", folder, first, n)
    assert n // 20 < n_read < n, "some files are right, some are not"


def test_a_hundred_mutated_files(tmp_path: Path) -> None:
    read_many(tmp_path, 0, 150)


@pytest.mark.full
@pytest.mark.parametrize("batch", range(6))
def test_mutated_files(tmp_path: Path, batch: int) -> None:
    read_many(tmp_path, 2000 * (batch + 1), 2000)
