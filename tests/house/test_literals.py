"""Test that values of decisions are data: code that decides has no float literals at module level or in defaults."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tests.house.sources import library, walk

DECIDING: Final = ("autosparse.dispatch.", "autosparse.tuning.", "autosparse.tuner.search.")
"""Packages whose values are rows of `autosparse/targets/*.json`, with their source, machine and date."""
PLAIN: Final = frozenset({0.0, 0.5, 1.0, 2.0})


def literals(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the floats, other than PLAIN ones, in the values of constants, fields and defaults of arguments."""
    for node in walk(tree):
        values: list[ast.expr | None] = []
        if isinstance(node, (ast.Module, ast.ClassDef)):
            values = [one.value for one in node.body if isinstance(one, (ast.Assign, ast.AnnAssign))]
        elif isinstance(node, ast.arguments):
            values = [*node.defaults, *node.kw_defaults]
        for one in (found for value in values if value is not None for found in ast.walk(value)):
            if isinstance(one, ast.Constant) and isinstance(one.value, float) and one.value not in PLAIN:
                yield one


def test_code_that_decides_has_no_float_literals() -> None:
    deciding = [one for one in library() if one.name.startswith(DECIDING)]
    assert len(deciding) > 50, "the search finds nothing any more"
    assert not [source.where(one) for source in deciding for one in literals(source.tree)]


def test_literals_are_found() -> None:
    text = "A = 0.25 * 2.0\nclass B:\n    c: float = 3.5\ndef d(e=1.5, *, f=0.5): return 7.5"
    assert [one.value for one in literals(ast.parse(text))] == [0.25, 3.5, 1.5]
