"""Tests that documentation agrees with the code where the two can be compared."""

from __future__ import annotations

import re
import runpy
import tarfile

import pytest

from tests.house.sources import IN_CHECKOUT, REPOSITORY

DESIGN = REPOSITORY / "docs" / "design"
NOTES = sorted(page for page in DESIGN.glob("*.md") if page.stem != "index")
SECTIONS = ("Context", "Decision", "Alternatives", "Consequences", "Evidence")

pytestmark = pytest.mark.skipif(not IN_CHECKOUT, reason="needs the sources: this is an installed copy")


def test_settings_page_is_current():
    page = runpy.run_path(str(REPOSITORY / "tools" / "settings_page.py"))["page"]
    assert (REPOSITORY / "docs" / "settings.md").read_text(encoding="utf-8") == page(), "python tools/settings_page.py"


def test_every_command_is_on_the_page_of_the_command_line():
    from autosparse.cli import COMMANDS

    page = (REPOSITORY / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    assert [command for command in COMMANDS if f"python -m autosparse {command}" not in page] == []


@pytest.mark.parametrize("note", NOTES, ids=lambda note: note.stem)
def test_a_design_note_has_its_sections(note):
    text = note.read_text(encoding="utf-8")
    headings = tuple(re.findall(r"^## (.+)$", text, re.MULTILINE))
    assert headings == SECTIONS
    assert len(text.splitlines()) <= 150
    assert re.fullmatch(r"Archive: pages? [0-9, and]+ of docs/design/archive\.", text.splitlines()[-1])


def test_design_notes_are_few_and_listed():
    index = (DESIGN / "index.md").read_text(encoding="utf-8")
    assert len(NOTES) <= 18
    assert [note.name for note in NOTES if f"]({note.name})" not in index or f"\n{note.stem}\n" not in index] == []


def test_every_archived_page_belongs_to_one_note():
    named = [int(n) for note in NOTES for n in re.findall(r"\d+", note.read_text(encoding="utf-8").splitlines()[-1])]
    with tarfile.open(REPOSITORY / "benchmarks" / "data" / "design.tar.xz") as archive:
        pages = sorted(int(name[:4]) for name in archive.getnames())
    assert sorted(named) == pages
    listed = re.findall(r"^\| (\d+) \|", (DESIGN / "archive" / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(number) for number in listed] == pages


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_make_targets_exist(document):
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    words = (REPOSITORY / document).read_text(encoding="utf-8").replace("`", " ").split()
    named = {words[n + 1].rstrip(".,;:") for n, word in enumerate(words[:-1]) if word == "make"}
    targets = {name for name in named if name.replace("-", "").isalpha() and name.islower()}
    assert targets - {"are"}, document
    assert [name for name in sorted(targets - {"are"}) if f"\n{name}:" not in makefile] == []
