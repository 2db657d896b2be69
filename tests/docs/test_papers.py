"""Tests of the page on the papers: every path, script, link and command that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

from autosparse import cli
from tests.benchmarks.test_bench_papers import QUICK

REPOSITORY = Path(__file__).parents[2]
PUBLISHED = {
    "WACO": ("Table", (1, 2, 4, 5, 6, 7, 8), "Figure", (13, 14, 15, "16a", "16b", 17)),
    "An asymptotic": ("Table", (), "Figure", (6, 7, 8)),
    "DASH": ("Table", (2,), "Figure", (2, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15)),
    "STile": ("Table", (5, 6, 7), "Figure", (7, 8, 9, 10, 11, 12, 13, 14)),
}
"""Evaluation of each paper: its numbered tables and figures with results."""
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


def test_every_script_has_a_quick_run_among_the_full_tests() -> None:
    named = set(re.findall(r"python benchmarks/(\w+\.py)", PAGE.read_text(encoding="utf-8")))
    assert named == set(QUICK)
    for name, runs in QUICK.items():
        source = (REPOSITORY / "benchmarks" / name).read_text(encoding="utf-8")
        assert '"--quick"' not in source or any("--quick" in given for given in runs), name


def test_every_published_table_and_figure_has_a_row() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for title, (table, tables, figure, figures) in PUBLISHED.items():
        section = text.partition(f"\n## {title}")[2].partition("\n## ")[0]
        titles = " ".join(line.split("|")[1] for line in section.splitlines() if line.startswith("| "))
        found = {f"{kind} {number}" for kind, number in numbered(titles)}
        wanted = {f"{table} {one}" for one in tables} | {f"{figure} {one}" for one in figures}
        assert wanted <= found, f"{title}: {sorted(wanted - found)}"


def numbered(titles: str) -> list[tuple[str, str]]:
    """Return (kind, number) of every table and figure in the titles; "Figures 11 to 13" and "8 and 10" are several."""
    found = []
    for kind, list_of in re.findall(r"(Table|Figure)s? (\d+[ab]?(?:(?:,| and| to) \d+[ab]?)*)", titles):
        numbers = re.findall(r"\d+[ab]?", list_of)
        if " to " in list_of:
            numbers = [str(one) for one in range(int(numbers[0]), int(numbers[-1]) + 1)]
        found += [(kind, one) for one in numbers]
    return found
