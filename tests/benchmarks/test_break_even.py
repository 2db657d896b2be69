"""Tests of the break-even of lazily tuned products."""

from __future__ import annotations

import subprocess
import sys

import break_even as script
import pytest
from break_even import break_even


def test_products_that_are_never_slower_break_even_at_once() -> None:
    assert break_even([1.0, 0.5, 0.5], 1.0) == (0, 0.0)


def test_the_break_even_is_the_last_time_that_the_total_is_behind() -> None:
    n, excess = break_even([0.5, 3.0, 0.5, 0.5, 0.5, 0.5, 0.5], 1.0)
    assert n == 4  # totals behind the default kernel's: -.5, 1.5, 1.0, .5, 0, -.5, -1
    assert excess == pytest.approx(1.5)


def test_a_loop_that_ends_before_its_break_even_has_none() -> None:
    assert break_even([2.0, 0.9, 0.9], 1.0) == (None, 1.0)


@pytest.mark.full
@pytest.mark.parametrize(("part", "head"), [("loops", "| median | float64 | no |"), ("gains", "| float64 | 256 |")])
def test_the_script_runs(part: str, head: str) -> None:
    command = [sys.executable, script.__file__, "--quick", "--part", part]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert head in done.stdout
