"""Fuzz tests of damaged records: no product raises, and none is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.batches import run_cases


def compute_many(folder: Path, first: int, n: int) -> None:
    """Run `n` seeds; fail if a tuned kernel served in every case.

    The program first checks that undamaged plans serve. The number of damaged ones that serve depends on the
    machine.
    """
    assert run_cases("tests.fuzz.record_cases", folder, first, n) < n


def test_a_hundred_mutated_records(tmp_path: Path) -> None:
    compute_many(tmp_path, 0, 100)


@pytest.mark.full
@pytest.mark.parametrize("batch", range(6))
def test_mutated_records(tmp_path: Path, batch: int) -> None:
    compute_many(tmp_path, 2000 * (batch + 1), 2000)
