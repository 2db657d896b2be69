"""Tests of the page on six paths through the code: every file that it names defines the functions that it names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "paths.md"
MAX_LINES = 40
"""Maximum number of lines of a section."""


def rows() -> list[tuple[str, tuple[str, ...]]]:
    """Return (file, functions) of each row of the page's tables that begins with a path."""
    cells = [line.split("|")[1:3] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return [(file.strip().strip("`"), tuple(re.findall(r"`([^`]+)`", named))) for file, named in cells]


def defined(path: Path) -> set[str]:
    """Return the names of functions, classes, ``Class.method`` and module variables of a source in Python or C."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return set(re.findall(r"^[ \t]*[A-Za-z][\w:<>&* ]*?[ *&](operator\(\)|\w+)\(", text, re.MULTILINE))
    found = set()
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return found


@pytest.mark.parametrize(("file", "named"), rows())
def test_a_row_names_functions_of_its_file(file: str, named: tuple[str, ...]) -> None:
    assert [name for name in named if name not in defined(REPOSITORY / file)] == []


def test_other_files_in_the_text_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:\w+/)*\w+\.(?:py|c|h|cpp))`", text))
    files = [path.as_posix() for part in ("autosparse", "_native", "tuner", "cache", "tests") for path in Path(
        REPOSITORY / part).rglob("*.*")]  # fmt: skip
    assert len(named) > 30
    assert [name for name in sorted(named) if not any(file.endswith(f"/{name}") for file in files)] == []


def test_sections_are_short() -> None:
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    assert len(sections) == 6
    assert [one.splitlines()[0] for one in sections if len(one.splitlines()) > MAX_LINES] == []
