"""Test that the part of `tuner` which tuning imports does not grow by training, collecting or experiments."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.house.sources import library

ROOTS = ("autosparse.tuning", "autosparse.dispatch")
MAX_LINES = 4800
"""Maximum number of lines of the modules of `tuner` that `tuning` imports, directly or indirectly, at any time."""


def imported(tree: ast.AST) -> Iterator[str]:
    """Return the names that any statement imports, but not those for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        yield from imported(node)


def test_the_products_path_through_the_tuner_does_not_grow():
    """Compare the lines of the imported modules with MAX_LINES, which is lowered when the count falls."""
    known = {one.name: one for one in library()}
    found: set[str] = set()
    waiting = [name for name in known if name.startswith(ROOTS)]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [one for one in imported(known[name].tree) if one in known]
    lines = {name: len(known[name].text.splitlines()) for name in found if name.startswith("autosparse.tuner")}
    assert "autosparse.tuner.learned.predict" in lines, "the count finds nothing any more"
    assert not [
        name
        for name in lines
        if name.startswith(("autosparse.tuner.research.training", "autosparse.tuner.research.networks"))
    ]
    total = sum(lines.values())
    assert MAX_LINES - 100 <= total <= MAX_LINES, f"{total} lines: {max(lines, key=lines.__getitem__)} is the longest"
