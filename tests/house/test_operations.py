"""Tests that names of operations are literals in `autosparse/ops/` only: the rest of the library asks its rows."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

import pytest

from autosparse.ops import OPS
from tests.house.sources import Source, library

ALLOWED = {
    "core": 1,  # the default of SuperSchedule.operation
    "torch": 1,  # the function `spmm`, in its own messages
    "__init__": 4,  # names of public functions
}
"""Maximum number of literals with the name of an operation, by folder.

A number may only fall: ask the row of the operation instead (`abilities`, `packed`, ...). The remaining ones are names
that users write: public functions, and a default in a public signature.
"""


@functools.lru_cache(maxsize=1)
def names() -> set[str]:
    aliases = {alias for row in OPS.values() for alias in (*row.synonyms, *(one.name for one in row.tuning.collected))}
    return {*OPS, *aliases}


def literals(source: Source) -> Iterator[ast.Constant]:
    for node in source.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names():
            yield node


@functools.lru_cache(maxsize=1)
def found() -> dict[str, list[str]]:
    where: dict[str, list[str]] = {}
    for source in library():
        if source.part != "ops":
            where.setdefault(source.part, []).extend(source.where(node) for node in literals(source))
    return {part: places for part, places in where.items() if places}


def test_literals_are_counted() -> None:
    assert {"__init__", "core"} <= set(found()), "the count finds nothing any more"


@pytest.mark.parametrize("part", sorted({source.part for source in library()} - {"ops"}))
def test_names_of_operations_are_literals_in_no_more_places(part: str) -> None:
    places = found().get(part, [])
    assert len(places) <= ALLOWED.get(part, 0), f"ask the row of `OPS` instead: {places}"


@pytest.mark.parametrize("part", sorted(ALLOWED))
def test_the_table_is_lowered_with_the_count(part: str) -> None:
    assert len(found().get(part, [])) >= ALLOWED[part], f"lower ALLOWED[{part!r}] to {len(found().get(part, []))}"
