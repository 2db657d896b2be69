"""What tuning imports of `tuner` only shrinks: training, collecting and experiments stand beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.house.sources import library

ROOTS = ("autosparse.tuning", "autosparse.dispatch")
MAX_LINES = 5_510
"""Lines of the modules of `tuner` that those import, at whatever depth and however late."""


def imported(tree: ast.AST) -> Iterator[str]:
    """Names that any statement imports; not those for type checkers alone."""
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
    """Whoever adds to it takes away elsewhere; MAX_LINES is lowered with the count."""
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
    assert not [name for name in lines if name.startswith(("autosparse.tuner.training", "autosparse.tuner.networks"))]
    total = sum(lines.values())
    assert MAX_LINES - 100 <= total <= MAX_LINES, f"{total} lines: {max(lines, key=lines.__getitem__)} is the longest"
