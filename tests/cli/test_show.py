"""Tests of the formatting of seconds, sizes, counts and tables, and of the race that `demo` shows."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosparse.cli import show, timing
from autosparse.dispatch.accounts import process_age_s


@given(st.floats(1e-8, 1e4))
def test_seconds_keep_three_digits(time_s):
    number, unit = show.seconds(time_s).split()
    shown_s = float(number) * {"s": 1.0, "ms": 1e-3, "us": 1e-6}[unit]
    assert math.isclose(shown_s, time_s, rel_tol=6e-3, abs_tol=6e-9)


@pytest.mark.parametrize(
    ("n_bytes", "text"), [(0, "0 B"), (1536, "1.5 KiB"), (1 << 30, "1 GiB"), (3 << 40, "3072 GiB")]
)
def test_sizes_are_formatted_with_units(n_bytes, text):
    assert show.size(n_bytes) == text


@pytest.mark.parametrize(("runs", "text"), [(None, "never"), (math.inf, "never"), (0.2, "1"), (1234.5, "1,235")])
def test_counts_are_formatted_with_separators(runs, text):
    assert show.count(runs) == text


def test_table_aligns():
    lines = show.table(("name", "n"), [("a", "1"), ("longer", "1000")]).splitlines()
    assert lines == ["name       n", "a          1", "longer  1000"]


def test_race_calls_everyone_and_interleaves():
    called = []
    times_s = timing.race({"a": lambda: called.append("a"), "b": lambda: called.append("b")}, rounds=3, sample_s=0.0)
    assert times_s.keys() == {"a", "b"}
    assert all(time_s >= 0 for time_s in times_s.values())
    assert called[-6:] == ["a", "b"] * 3


def test_the_age_of_the_process_grows():
    first_s = process_age_s()
    if not first_s:
        pytest.skip("the system does not tell when a process was started")
    assert 0 <= first_s <= process_age_s()
