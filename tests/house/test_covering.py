"""Tests that the combinations which `make test` takes cover every pair of values."""

from __future__ import annotations

import itertools

from tests.covering import chosen, cover, covering, in_turn, parts_of


def test_every_two_values_meet_in_few_combinations():
    axes = ("abc", (1, 2, 3, 4), ("x", "y"), range(5))
    taken = chosen(axes)
    whole = list(itertools.product(*axes))
    assert set().union(*map(parts_of, taken)) == set().union(*map(parts_of, whole))
    assert len(taken) < len(whole) / 3
    assert taken == chosen(axes)
    assert chosen(([], "ab")) == []
    assert len(cover(whole, 1)) == 5, "as many as the longest axis has values"


def test_combinations_outside_the_covering_set_run_with_full():
    rows = covering(one="ab", two="cd", three="ef").mark.args[1]
    assert len(rows) == 8
    assert 4 <= sum(not row.marks for row in rows) < 8


def test_in_turn_takes_each_value_of_either():
    rows = in_turn("one", "two", first="abcdef", second=(1, 2, 3)).mark.args[1]
    usual = [row.values for row in rows if not row.marks]
    assert {one for one, _ in usual} == set("abcdef")
    assert {two for _, two in usual} == {1, 2, 3}
    assert len(usual) == 6
    assert len(rows) == 18
