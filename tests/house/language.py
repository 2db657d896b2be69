"""Check the language of docstrings, names and documents.

`python -m tests.house.language [FOLDER]` prints every finding of the folders or files that are given, and a count for
each folder. Files listed in `language_later.txt` may still have findings; `--write-later` removes the files from that
list that have none left.
"""

from __future__ import annotations

import argparse
import ast
import functools
import inspect
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.house.sources import walk

HOUSE = Path(__file__).resolve().parent
LATER = "tests/house/language_later.txt"
RETIRED = "tests/house/retired_names.txt"
GLOSSARY = "docs/glossary.md"
OUTSIDE = ("docs/design/archive/",)
"""Folders of old pages that are kept as they were written."""

MAX_WORDS = 40
"""Maximum number of words in a sentence of a docstring."""
MAX_README_LINES = 120
MAX_RELEASE_LINES = 60
"""Maximum number of lines of one release in CHANGELOG.md, its heading and empty lines included."""

FRAGMENT = re.compile(
    r"(?:\.\.\.|…"
    r"|(?:Of|What|Who|Where|Which|How)(?:ever)?\b|(?:Whom|Whose|Whether|Why|So|As|Than|Times|Nor|Because)\b"
    r"|(?:And|But|Or|Also|Then|Else|Otherwise)\b"
    r"|(?:Its?|They|Theirs?|Them|Those|These)\b"
    r"|(?:From|By|In|On|At|For|To|With|Up to|Above|Below|Beyond|Before|After) (?:which|what|whom|whose)\b)"
)
"""Beginning of a docstring that continues the name above it, or refers to something that it does not name."""
BOUND_NAME = re.compile(r"(?:^|_)(?:MOST|LEAST)(?:_(?!SQUARES)|$)")
IMPERATIVE = re.compile(
    r"(?:add|assign|build|call|choose|collect|compute|convert|copy|count|did you|free|give|install|keep|leave|let|list"
    r"|lower|make|name|omit|open|pass|point|raise|remove|rename|run|set|start|store|subtract|use|write"
    r"|apt-get|pip|python -m)\b"
)
"""Beginning of a hint: what the reader of a message should do, or the command that does it."""
C_COMMENT_OR_TEXT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
C_NAME = re.compile(r"[A-Za-z_]\w*")
COLUMNS = re.compile(r"\S {2,}\S")
"""Text in columns: a row of a table, or a command with a comment."""
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]`]*\s+(?=[^a-z])|[:;]\s*$")
LIST_ITEM = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s")


class Finding(NamedTuple):
    """One place that does not keep to the standard."""

    path: str
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}: {self.text}"


# --- docstrings -------------------------------------------------------------------------------------------------------
def docstrings(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each docstring, those below assignments and fields included."""
    for node in nodes:
        for statement in getattr(node, "body", ()) if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                value = statement.value.value
                if isinstance(value, str) and value.strip():
                    yield statement.lineno, value


def sentences(docstring: str) -> Iterator[str]:
    """Yield the sentences of a docstring, without examples, tables and headings."""
    paragraph: list[str] = []
    indent = 0
    for line in [*inspect.cleandoc(docstring).splitlines(), ""]:
        text = line.strip()
        is_table = text.startswith((">>>", "|", "+--", "..")) or COLUMNS.search(text)
        skipped = not text or is_table or not re.search(r"[A-Za-z]", text)
        moved = len(line) - len(line.lstrip()) != indent or LIST_ITEM.match(line)
        if paragraph and (skipped or moved or paragraph[-1].endswith(":")):
            yield from filter(None, SENTENCE_END.split(" ".join(paragraph)))
            paragraph = []
        indent = len(line) - len(line.lstrip())
        if not skipped:
            paragraph.append(text)


def check_docstrings(path: str, nodes: Sequence[ast.AST]) -> Iterator[Finding]:
    """Yield docstrings that begin with a fragment, and sentences that are too long."""
    for line, text in docstrings(nodes):
        if FRAGMENT.match(text.strip()):
            yield Finding(path, line, "fragment", text.strip().partition("\n")[0][:90])
        for sentence in sentences(text):
            n_words = sum(any(map(str.isalpha, word)) for word in sentence.split())
            if n_words > MAX_WORDS:
                yield Finding(path, line, f"sentence of {n_words} words", sentence[:90])


def check_hints(path: str, nodes: Sequence[ast.AST]) -> Iterator[Finding]:
    """Yield hints of messages (``hint="..."``) that do not say what to do."""
    for node in nodes:
        if isinstance(node, ast.keyword) and node.arg == "hint":
            first = node.value.values[0] if isinstance(node.value, ast.JoinedStr) else node.value
            text = first.value if isinstance(first, ast.Constant) else None
            if isinstance(text, str) and text and not IMPERATIVE.match(text):
                yield Finding(path, node.value.lineno, "hint", text[:90])


# --- names ------------------------------------------------------------------------------------------------------------
@functools.cache
def name_fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """Return the fields of a kind of node that hold an identifier."""
    return tuple(field for field in ("id", "attr", "arg", "name", "asname", "module") if field in kind._fields)


def python_names(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each identifier that a module defines or uses."""
    for node in nodes:
        for field in name_fields(type(node)):
            value = getattr(node, field, None)
            if isinstance(value, str):
                yield getattr(node, "lineno", 1), value


def c_names(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each identifier of a C file, comments and string literals left out."""
    code = C_COMMENT_OR_TEXT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    for number, line in enumerate(code.splitlines(), 1):
        for match in C_NAME.finditer(line):
            yield number, match.group()


def read_list(path: Path) -> list[str]:
    """Return the lines of a file, without comments and empty lines."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def retired_pattern(patterns: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern that finds retired names as `git grep -wE` does: they begin and end at the edge of a word."""
    either = "|".join(f"(?:{pattern})" for pattern in patterns)
    return re.compile(rf"(?<!\w)(?:{either})(?!\w)" if patterns else r"(?!)")


def check_names(path: str, names: Iterator[tuple[int, str]], retired: re.Pattern[str]) -> Iterator[Finding]:
    """Yield each retired identifier and each MOST_ or LEAST_ constant of a file once, where it occurs first."""
    seen: set[str] = set()
    for line, name in names:
        if name in seen:
            continue
        seen.add(name)
        if BOUND_NAME.search(name):
            yield Finding(path, line, "MAX_ or MIN_", name)
        elif retired.search(name):
            yield Finding(path, line, "retired name", name)


def check_file_name(path: str, retired: re.Pattern[str]) -> Iterator[Finding]:
    """Yield a finding where the name of a file or of one of its folders is retired."""
    if match := retired.search(path):
        yield Finding(path, 0, "retired file name", match.group())


# --- documents --------------------------------------------------------------------------------------------------------
def check_glossary(path: str, text: str, retired: re.Pattern[str]) -> Iterator[Finding]:
    """Yield retired words of the glossary."""
    for number, line in enumerate(text.splitlines(), 1):
        for match in retired.finditer(line):
            yield Finding(path, number, "retired name", match.group())


def check_length(path: str, text: str) -> Iterator[Finding]:
    """Yield a finding for a README, or a release of the CHANGELOG, that is too long."""
    lines = text.splitlines()
    if path == "README.md" and len(lines) > MAX_README_LINES:
        yield Finding(path, len(lines), "length", f"{len(lines)} lines, at most {MAX_README_LINES}")
    if path == "CHANGELOG.md":
        starts = [number for number, line in enumerate(lines) if line.startswith("## ")]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            if end - start > MAX_RELEASE_LINES:
                yield Finding(path, start + 1, "length", f"{end - start} lines, at most {MAX_RELEASE_LINES}")


# --- files ------------------------------------------------------------------------------------------------------------
def check_text(path: str, text: str, retired: re.Pattern[str]) -> list[Finding]:
    """Return the findings of one file, given its path in the repository."""
    found = list(check_file_name(path, retired))
    if path.endswith(".py"):
        nodes = walk(ast.parse(text, filename=path))
        found += [*check_docstrings(path, nodes), *check_names(path, python_names(nodes), retired)]
        found += check_hints(path, nodes)
    elif path.endswith((".c", ".h")):
        found += check_names(path, c_names(text), retired)
    elif path == GLOSSARY:
        found += check_glossary(path, text, retired)
    return [*found, *check_length(path, text)]


def list_files(root: Path, folders: Sequence[str] = ()) -> list[str]:
    """Return the files of a checkout, or of some of its folders, that git does not ignore, as paths below its root."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    files = {path for path in listed.split("\0") if path and not path.startswith(OUTSIDE)}
    return sorted(path for path in files if (root / path).is_file())


def check_repository(root: Path, folders: Sequence[str] = ()) -> dict[str, list[Finding]]:
    """Return the findings of each file of a checkout, or of some of its folders, that has any."""
    own = root / RETIRED
    retired = retired_pattern(read_list(own if own.exists() else HOUSE / own.name))
    readable = (".py", ".c", ".h", ".md")
    found: dict[str, list[Finding]] = {}
    for path in list_files(root, folders):
        text = (root / path).read_text(encoding="utf-8") if path.endswith(readable) else ""
        if findings := check_text(path, text, retired):
            found[path] = findings
    return found


def write_later(root: Path, found: dict[str, list[Finding]], *, first: bool) -> None:
    """Remove files without findings from the list of pending files, or write the list when there is none yet."""
    path = root / LATER
    pending = sorted(found) if first else [name for name in read_list(path) if name in found]
    path.write_text("\n".join([*LATER_HEADING, *pending, ""]), encoding="utf-8")


LATER_HEADING = (
    "# Files that do not keep to the standard of language yet. The list only ever shrinks:",
    "# python -m tests.house.language --write-later removes the files that have no findings left.",
)


def main() -> int:
    """Print findings and their number for each folder; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", help="folders or files below the current one (default: all)")
    parser.add_argument("--later", action="store_true", help="show findings of files in language_later.txt as well")
    parser.add_argument("--write-later", action="store_true", help="remove clean files from language_later.txt")
    given = parser.parse_args()
    root = Path.cwd()
    found = check_repository(root, given.folders)
    if given.write_later and not given.folders:
        write_later(root, found, first=not (root / LATER).exists())
    pending = set() if given.later or given.folders else set(read_list(root / LATER))
    counts: Counter[str] = Counter()
    for path, findings in found.items():
        if path in pending:
            continue
        print(*findings, sep="\n")
        counts[str(Path(path).parent)] += len(findings)
    for folder, n_findings in sorted(counts.items()):
        print(f"{n_findings:6} {folder}", file=sys.stderr)
    print(f"{sum(counts.values()):6} findings; {len(pending)} pending files not shown", file=sys.stderr)
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())
