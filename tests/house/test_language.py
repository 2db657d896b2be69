"""Docstrings, names and documents keep to the standard of language, except in files that are still to be rewritten."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.house import language
from tests.house.sources import IN_CHECKOUT, REPOSITORY

needs_checkout = pytest.mark.skipif(
    not (IN_CHECKOUT and (REPOSITORY / ".git").exists()), reason="needs the sources: this is an installed copy"
)

GOOD = '''
"""Choose kernels."""

MAX_ROWS = 4
"""Maximum number of rows."""

class Kernel:
    """A bound kernel."""

    n_rows: int
    """Number of rows."""

    def is_small(self) -> bool:
        """Return whether one thread suffices: the incumbent is then kept.

        A second sentence. ``other`` stands in a paragraph of its own.

        >>> So this is not a sentence
        """
'''
LONG = " ".join(["word"] * (language.MAX_WORDS + 1))

OLD_MAX, OLD_MIN = "MOST", "LEAST"
"""Words of retired names of bounds, which this file does not spell out, so that `git grep` finds none."""

PLANTED = {
    "module": ("a.py", '"""Of the factors."""', "fragment"),
    "class": ("a.py", 'class A:\n    """What runs."""', "fragment"),
    "function": ("a.py", 'def f():\n    """Whether rows are sorted."""', "fragment"),
    "method": ("a.py", 'class A:\n    async def f(self):\n        """How much it takes."""', "fragment"),
    "constant": ("a.py", 'X = 1\n"""Times the length of a row."""', "fragment"),
    "field": ("a.py", 'class A:\n    x: int\n    """As `y`."""', "fragment"),
    "continued": ("a.py", 'X = 1\n"""... and the same of columns."""', "fragment"),
    "pronoun": ("a.py", 'X = 1\n"""Those of ones that were."""', "fragment"),
    "relative": ("a.py", 'X = 1\n"""From which on panels are copied."""', "fragment"),
    "long": ("a.py", f'"""{LONG}."""', f"sentence of {language.MAX_WORDS + 1} words"),
    "long and short": ("a.py", f'"""Short one. {LONG.capitalize()}. Short one."""', "sentence of 41 words"),
    "long in two lines": ("a.py", f'"""Short one.\n\n{LONG.capitalize()}\n{LONG}.\n"""', "sentence of 82 words"),
    "hint": ("a.py", 'f(hint=f"a larger {x}")', "hint"),
    "name": ("a.py", "incumbent = 1", "retired name"),
    "part of a name": ("a.py", "def time_of_incumbent(): pass", "retired name"),
    "constant name": ("a.py", "INCUMBENT_TIME = 1", "retired name"),
    "attribute": ("a.py", "x.incumbent()", "retired name"),
    "argument": ("a.py", "def f(*, incumbent): pass", "retired name"),
    "keyword": ("a.py", "f(incumbent=1)", "retired name"),
    "import": ("a.py", "from a.incumbent import b", "retired name"),
    "dotted module": ("a.py", "import autosparse.old", "retired name"),
    "C bound": ("a.c", f"#define TILE_{OLD_MAX} 4", "MAX_ or MIN_"),
    "class name": ("a.py", "class TuningContext: pass", "retired name"),
    "C name": ("a.c", "/* text */ static int asp_incumbent(void);", "retired name"),
    "C macro": ("a.h", "#define ASP_INCUMBENT 1", "retired name"),
    "file": ("tuner/incumbent.py", "", "retired file name"),
    "folder": ("tuner/incumbent/a.json", "", "retired file name"),
    "page": ("docs/the-incumbent.md", "", "retired file name"),
    "glossary": ("docs/glossary.md", "| **incumbent** | The fastest kernel. |", "retired name"),
    "maximum": ("a.py", f"{OLD_MAX}_ROWS = 1", "MAX_ or MIN_"),
    "minimum": ("a.c", f"enum {{ ASP_{OLD_MIN}_ROWS = 1 }};", "MAX_ or MIN_"),
    "README": ("README.md", "line\n" * 121, "length"),
    "CHANGELOG": ("CHANGELOG.md", "# Changelog\n\n## 0.2.0\n" + "- line\n" * 60 + "## 0.1.0\n", "length"),
}
"""One offender of each kind: path, text, and the kind of finding."""

NOT_FOUND = {
    "good": ("a.py", GOOD),
    "a method": ("a.py", "LEAST_SQUARES = 1"),
    "prose": ("a.py", '"""Return the incumbent of the race, as papers call it."""  # incumbent'),
    "text": ("a.py", 'f("incumbent")'),
    "other words": ("a.py", "incumbentship = almost_ready = MOSTLY = atleast_1d"),
    "C prose": ("a.c", f'/* the incumbent */ const char *text = "incumbent"; // {OLD_MAX}_ROWS'),
    "pages": ("docs/index.md", "the incumbent"),
    "short enough": ("CHANGELOG.md", "# Changelog\n" + ("## 0.2.0\n" + "- line\n" * 59) * 2),
    "table": ("a.py", f'"""Return one row for each format.\n\n| {LONG} |\n>>> {LONG}\n- item\n- item\n"""'),
    "columns": ("a.py", f'"""Return one row for each format.\n\n===  ===\nx    {LONG}\n===  ===\n"""'),
}

retired = language.retired_pattern([r"(\w+_)?(incumbents?|INCUMBENTS?)(_\w+)?", "TuningContext", r"autosparse\.old"])


@pytest.mark.parametrize("offender", PLANTED)
def test_each_kind_of_offender_is_found(offender):
    path, text, kind = PLANTED[offender]
    assert [finding.kind for finding in language.check_text(path, text, retired)] == [kind]


@pytest.mark.parametrize("text", NOT_FOUND)
def test_good_language_has_no_findings(text):
    assert language.check_text(*NOT_FOUND[text], retired) == []


def test_a_finding_says_file_and_line():
    (finding,) = language.check_text("a.py", f"x = 1\n\n{OLD_MAX}_ROWS = 2\n", retired)
    assert str(finding) == f"a.py:3: MAX_ or MIN_: {OLD_MAX}_ROWS"


@pytest.fixture(scope="module")
def found():
    """Return the findings of all files, which `make lint` prints; it takes seconds."""
    return language.check_repository(REPOSITORY)


@pytest.mark.full
@needs_checkout
def test_only_pending_files_have_findings(found):
    pending = set(language.read_list(REPOSITORY / language.LATER))
    bad = [str(finding) for path, findings in found.items() if path not in pending for finding in findings]
    assert not bad, "\n".join(bad)


@pytest.mark.full
@needs_checkout
def test_the_list_of_pending_files_only_shrinks(found):
    clean = [path for path in language.read_list(REPOSITORY / language.LATER) if path not in found]
    assert not clean, f"clean or gone; python -m tests.house.language --write-later removes them: {clean}"


@needs_checkout
def test_retired_names_are_patterns():
    words = language.read_list(REPOSITORY / language.RETIRED)
    assert words
    assert len(set(words)) == len(words)
    assert language.retired_pattern(words)


@needs_checkout
def test_the_command_prints_findings_of_a_folder():
    command = [sys.executable, "-m", "tests.house.language", "tests/house/__init__.py"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
