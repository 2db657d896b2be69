"""Parametrization by combinations: `make test` covers every pair of values, `make test-full` every combination."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence

import pytest

Combination = tuple[Hashable, ...]


def pairs_of(combination: Combination) -> set[tuple[int, Hashable, int, Hashable]]:
    """Return (axis, value, axis, value) for every two values of the combination."""
    return {(i, combination[i], j, combination[j]) for i, j in itertools.combinations(range(len(combination)), 2)}


def chosen(axes: Sequence[Iterable[Hashable]]) -> list[Combination]:
    """Return few combinations of values that cover every pair of values of different axes."""
    return cover(itertools.product(*axes))


def cover(combinations: Iterable[Combination]) -> list[Combination]:
    """Return few of `combinations` that cover the same pairs of values as all, by a deterministic greedy choice."""
    pairs = {one: pairs_of(one) for one in combinations}
    missing = set().union(*pairs.values())
    taken = []
    while missing:
        best = max(pairs, key=lambda one: len(pairs[one] & missing))  # of equals, the first
        taken.append(best)
        missing -= pairs[best]
    return taken


def covering(**axes: Iterable[Hashable]) -> pytest.MarkDecorator:
    """Parametrize by all combinations of the axes; mark as `full` those that are not needed to cover every pair."""
    values = [list(one) for one in axes.values()]
    usual = set(chosen(values))
    rows = [
        pytest.param(*one, id="-".join(map(str, one)), marks=() if one in usual else pytest.mark.full)
        for one in itertools.product(*values)
    ]
    return pytest.mark.parametrize(tuple(axes), rows)


def in_turn(
    *names: str, first: Iterable[Hashable], second: Iterable[Hashable], label: Callable[..., str] = str
) -> pytest.MarkDecorator:
    """Parametrize two names by all pairs of values.

    For each value of `first` one value of `second`, taken in rotation, runs in `make test`. The other pairs are marked
    `full`.
    """
    others = list(second)
    rows = [
        pytest.param(one, other, id=f"{label(one)}-{other}", marks=() if n % len(others) == m else pytest.mark.full)
        for n, one in enumerate(first)
        for m, other in enumerate(others)
    ]
    return pytest.mark.parametrize(names, rows)
