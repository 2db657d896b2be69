"""What an explanation consists of, before it is text or a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A title, then facts (label, text), a table whose first row is its header, a map whose letters are coloured on a
    page, and lines to be kept as they are.
    """

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    table: tuple[tuple[str, ...], ...] = ()
    map: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


def as_text(sections: Sequence[Section]) -> str:
    """Sections for a terminal."""
    return "\n\n".join("\n".join([section.title, *_body(section)]) for section in sections)


def _body(section: Section) -> list[str]:
    width = max((len(label) for label, _ in section.facts), default=0)
    facts = [f"  {label:<{width}}  {text}" for label, text in section.facts]
    widths = [max(map(len, column)) for column in zip(*section.table, strict=True)]
    rows = ["  " + _row(row, widths) for row in section.table]
    return [*facts, *rows, *(f"  {line}" for line in (*section.map, *section.lines))]


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    """First column to the left, numbers to the right, the last (a remark) as it is."""
    first, *middle, last = row
    cells = [
        first.ljust(widths[0]),
        *(cell.rjust(width) for cell, width in zip(middle, widths[1:], strict=False)),
        last,
    ]
    return "  ".join(cells).rstrip()
