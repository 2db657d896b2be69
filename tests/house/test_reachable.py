"""Test that users can reach every module of the library: oracles belong to the tests, studies to the benchmarks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.house.sources import Source, library

SURFACES = re.compile(r"autosparse(\.\w+|\.cli\..*|\.(torch|cuda|dask)(\..*)?)?$")
"""Entry points: top-level modules, commands, and all modules of the packages torch, cuda and dask."""


def _named(source: Source, names: frozenset[str]) -> Iterator[str]:
    """Return the modules that a module imports, or names in a text such as ``"c.build:CBackend"``."""
    for node in source.nodes:
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            word = node.value.split(":")[0]
            package = source.name if source.path.name == "__init__.py" else source.name.rpartition(".")[0]
            found = [word, f"autosparse.{word}", f"{package}.{word}"]
        yield from names.intersection(found)


def _reached() -> set[str]:
    """Return the names of all modules that the entry points reach."""
    modules = {source.name: source for source in library()}
    names = frozenset(modules)
    ahead, found = [name for name in names if SURFACES.match(name)], set()
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += _named(modules[name], names)
            ahead += [name.rpartition(".")[0]] if name.rpartition(".")[0] in names else []
    return found


def test_every_module_is_reached() -> None:
    unreached = {source.name for source in library()} - _reached()
    assert unreached == set(), "move it to the tests or the benchmarks that use it"
