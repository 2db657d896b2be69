"""Parametrization by combinations: `make test` covers every pair of values, `make test-full` every combination."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence

import pytest

Combination = tuple[Hashable, ...]


def parts_of(combination: Combination, size: int = 2) -> set[tuple[tuple[int, Hashable], ...]]:
    """Return every choice of `size` values of the combination, each with the number of its axis."""
    return set(itertools.combinations(enumerate(combination), size))


def chosen(axes: Sequence[Iterable[Hashable]]) -> list[Combination]:
    """Return few combinations of values that cover every pair of values of different axes."""
    return cover(itertools.product(*axes))


def cover(combinations: Iterable[Combination], size: int = 2) -> list[Combination]:
    """Return few of `combinations` that cover the same pairs of values as all, by a deterministic greedy choice.

    With another `size`, they cover the same single values, or triples.
    """
    parts = {one: parts_of(one, size) for one in combinations}
    missing = set().union(*parts.values())
    taken = []
    while missing:
        best = max(parts, key=lambda one: len(parts[one] & missing))  # of equals, the first
        taken.append(best)
        missing -= parts[best]
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
