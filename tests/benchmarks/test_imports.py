"""Tests that scripts import names that the library has, also where only a long run reaches the import."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

FOLDERS = ("benchmarks", "tools", "examples", "docs")
SCRIPTS = sorted(path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*.py"))


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (module, name) of each import from autosparse in a script, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "autosparse":
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((one.name, "") for one in node.names if one.name.partition(".")[0] == "autosparse")


def is_there(module: str, name: str) -> bool:
    """Return whether `name` can be imported from `module`, or is left out because another package is missing."""
    try:
        found = importlib.import_module(module)
        if name and not hasattr(found, name):
            importlib.import_module(f"{module}.{name}")
    except ImportError as error:
        return not (error.name or "autosparse").startswith("autosparse")
    return True


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_imported_names_exist(path):
    assert [f"{module}: {name}" for module, name in imported(path) if not is_there(module, name)] == []
