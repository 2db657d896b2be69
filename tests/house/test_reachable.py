"""Test that users can reach every module of the library: oracles belong to the tests, studies to the benchmarks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.sources import REPOSITORY, Source, library

SURFACES = re.compile(r"autosparse(\.\w+|\.cli\..*|\.(torch|cuda|dask)(\..*)?)?$")
"""Entry points: top-level modules, commands, and all modules of the packages torch, cuda and dask."""

EXCEPTIONS = {
    "autosparse.tuner.research.networks.autoencoder": "latent codes where there are too many for a table",
    "autosparse.tuner.research.hybrid.primitives": "STile's Table 2: the words in which its formats are told apart",
    "autosparse.tuner.research.networks.published": "reads the weights that WACO's authors published",
}
"""Module that no entry point reaches -> why the library contains it. The table may only become shorter."""


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
    """Return the names of all modules that the entry points reach, or that a page of `docs/` tells a user to import."""
    modules = {source.name: source for source in library()}
    names = frozenset(modules)
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (REPOSITORY / "docs").glob("*.md"))
    told = names.intersection(re.findall(r"autosparse(?:\.\w+)+", pages))
    ahead, found = [name for name in names if SURFACES.match(name) or name in told], set()
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += _named(modules[name], names)
            ahead += [name.rpartition(".")[0]] if name.rpartition(".")[0] in names else []
    return found


@pytest.mark.skipif(not (REPOSITORY / "docs").is_dir(), reason="needs the sources: pages of docs")
def test_every_module_is_reached() -> None:
    unreached = {source.name for source in library()} - _reached()
    assert unreached == EXCEPTIONS.keys(), "move it to the tests or the benchmarks that use it, or say why it stays"
