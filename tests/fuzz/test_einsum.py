"""Fuzz tests of einsum with random operands and records: NumPy's answers or our errors, and no crash."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.fuzz.batches import run_cases

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def test_five_hundred_calls(tmp_path: Path) -> None:
    assert 40 < run_cases("tests.fuzz.einsum_cases", tmp_path, 0, 500) < 250


def test_five_hundred_imported_programs(tmp_path: Path) -> None:
    assert 250 < run_cases("tests.fuzz.program_cases", tmp_path, 0, 500) < 500


@pytest.mark.full
@pytest.mark.parametrize("batch", range(5))
def test_calls(tmp_path: Path, batch: int) -> None:
    assert run_cases("tests.fuzz.einsum_cases", tmp_path, 2000 * (batch + 1), 2000) < 1000


@pytest.mark.full
@pytest.mark.parametrize("batch", range(5))
def test_imported_programs(tmp_path: Path, batch: int) -> None:
    assert run_cases("tests.fuzz.program_cases", tmp_path, 2000 * (batch + 1), 2000) < 2000
