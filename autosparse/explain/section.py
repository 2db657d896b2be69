"""Content of an explanation, independent of its rendering as text or HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Section of an explanation: title, facts, table, map and verbatim lines.

    Facts are pairs (label, text). The table's first row is its header. A page colours the map's letters.
    """

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    table: tuple[tuple[str, ...], ...] = ()
    map: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


def as_text(sections: Sequence[Section]) -> str:
    """Render sections as text for a terminal."""
    return "\n\n".join("\n".join([section.title, *_body(section)]) for section in sections)


def _body(section: Section) -> list[str]:
    width = max((len(label) for label, _ in section.facts), default=0)
    facts = [f"  {label:<{width}}  {text}" for label, text in section.facts]
    widths = [max(map(len, column)) for column in zip(*section.table, strict=True)]
    rows = ["  " + _row(row, widths) for row in section.table]
    return [*facts, *rows, *(f"  {line}" for line in (*section.map, *section.lines))]


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    """Render a row: the first cell to the left, the middle ones to the right, the last (a remark) as it is."""
    first, *middle, last = row
    cells = [
        first.ljust(widths[0]),
        *(cell.rjust(width) for cell, width in zip(middle, widths[1:], strict=False)),
        last,
    ]
    return "  ".join(cells).rstrip()
