"""Tests of the page on the papers: every path, script, link and command that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

from autosparse import cli

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "papers.md"
REACH = {"default", "option", "command"}


def rows(n_columns: int) -> list[list[str]]:
    """Return the cells of all table rows of `n_columns`, without headers."""
    cells = [line.strip("|").split("|") for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    found = [[cell.strip() for cell in row] for row in cells if len(row) == n_columns]
    return [row for row in found if row[0] not in ("part", "table or figure", "figure") and set(row[0]) != {"-"}]


def test_every_path_exists() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:autosparse|tuner|_native|benchmarks|tests|cache|docs)/[\w/.\-]+)`", text))
    named |= set(re.findall(r"python (benchmarks/\w+\.py)", text)) | set(re.findall(r"pytest (tests/[\w/]+\.py)", text))
    assert len(named) > 40
    assert not [name for name in sorted(named) if not (REPOSITORY / name).exists()]


def test_every_linked_page_and_figure_exists() -> None:
    links = re.findall(r"\]\((\.\./[^)#]+)\)", PAGE.read_text(encoding="utf-8"))
    assert links
    assert not [link for link in links if not (PAGE.parent / link).resolve().exists()]


def test_every_component_is_within_a_user_s_reach() -> None:
    components = [row for row in rows(5) if row[3] in REACH]
    tables = [row for row in rows(5) if row[3] not in REACH]
    assert len(components) >= 35
    assert len(tables) >= 35
    assert all(row[2] and row[4] for row in components), "a component without a place or a way"
    assert all(row[1] and row[3] for row in tables), "a table or figure without a command or a result"


def test_every_command_exists() -> None:
    named = set(re.findall(r"python -m autosparse (\w+)", PAGE.read_text(encoding="utf-8")))
    assert named <= set(cli.COMMANDS)
