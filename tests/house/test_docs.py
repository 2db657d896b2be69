"""Documentation that can be compared with the code is."""

from __future__ import annotations

import runpy

import pytest

from tests.house.sources import IN_CHECKOUT, REPOSITORY

pytestmark = pytest.mark.skipif(not IN_CHECKOUT, reason="needs the sources: this is an installed copy")


def test_settings_page_is_current():
    page = runpy.run_path(str(REPOSITORY / "tools" / "settings_page.py"))["page"]
    assert (REPOSITORY / "docs" / "settings.md").read_text(encoding="utf-8") == page(), "python tools/settings_page.py"


def test_every_command_is_on_the_page_of_the_command_line():
    from autosparse.cli import COMMANDS

    page = (REPOSITORY / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    assert [command for command in COMMANDS if f"python -m autosparse {command}" not in page] == []


@pytest.mark.parametrize("page", sorted((REPOSITORY / "docs" / "adr").glob("*.md")), ids=lambda page: page.stem)
def test_a_decision_is_stated_before_its_reasons(page):
    title, _, body = page.read_text(encoding="utf-8").partition("\n")
    first = body.strip().partition("\n")[0]
    assert title.startswith("# ")
    assert first
    assert not first.startswith(("#", "|", "Status", "*Status", "**Problem", "**Question")), first


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_make_targets_exist(document):
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    words = (REPOSITORY / document).read_text(encoding="utf-8").replace("`", " ").split()
    named = {words[n + 1].rstrip(".,;:") for n, word in enumerate(words[:-1]) if word == "make"}
    targets = {name for name in named if name.replace("-", "").isalpha() and name.islower()}
    assert targets - {"are"}, document
    assert [name for name in sorted(targets - {"are"}) if f"\n{name}:" not in makefile] == []
