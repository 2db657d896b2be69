"""Source files of the installed package: the same in a checkout, an editable install and a wheel."""

from __future__ import annotations

import ast
import importlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
IN_CHECKOUT = (REPOSITORY / "setup.py").exists()
ROOTS = ("autosparse", "autosparse.tuner", "autosparse.cache", "autosparse._native")
BUILD_TIME = {
    "autosparse._native._runtime",
    "autosparse._native.extension",
    "autosparse._native.extension.build_extension",
    "autosparse._native.kernels.shipped_sources",
    "autosparse._native.runtime.build_runtime",
    "autosparse._native.runtime.write_shipped",
    "autosparse._native.torch_extension.build_extension",
    "autosparse._pyinstaller",
    "autosparse._pyinstaller.hook-autosparse",
}
"""Modules that an installer runs where autosparse cannot be imported, or that it writes."""


def walk(tree: ast.AST) -> list[ast.AST]:
    """Return the nodes that `ast.walk` finds in twice the time, without contexts of names and without operators."""
    nodes = [tree]
    for node in nodes:  # the list grows meanwhile
        for value in vars(node).values():
            if isinstance(value, list):
                nodes.extend([one for one in value if isinstance(one, ast.AST)])
            elif isinstance(value, ast.AST) and value._fields:
                nodes.append(value)
    return nodes


@dataclass(frozen=True)
class Source:
    """A module: dotted name and file."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=str(self.path))

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Return all nodes of the tree: a walk takes much longer than a loop over them."""
        return tuple(walk(self.tree))

    @property
    def part(self) -> str:
        """Return the name below `autosparse` that decides the layer: `config`, `tuner`, `_native`, ..."""
        return [*self.name.split("."), "__init__"][1]

    def where(self, node: ast.AST) -> str:
        return f"{self.name}:{getattr(node, 'lineno', 0)}"


@lru_cache(maxsize=1)
def sources() -> tuple[Source, ...]:
    """Return every module of autosparse, each once."""
    found: dict[str, Path] = {}
    for root in ROOTS:
        folder = Path(importlib.import_module(root).__path__[0])
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join((root, *parts)).removesuffix(".__init__")
            found.setdefault(name, path)
    return tuple(Source(name, path) for name, path in sorted(found.items()))


def library() -> tuple[Source, ...]:
    """Return the modules that run in a user's process."""
    return tuple(source for source in sources() if source.name not in BUILD_TIME)
