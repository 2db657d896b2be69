"""Render sections as one self-contained HTML file: styles and images are embedded, and there are no scripts."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Sequence
from html import escape
from typing import Final

from autosparse.explain.section import Section

STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem; color: #222 }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem }
table { border-collapse: collapse } td, th { padding: .15rem .8rem .15rem 0; text-align: right; vertical-align: top }
td:first-child, th:first-child, td:last-child, th:last-child, .facts td { text-align: left }
.facts td:first-child { color: #666; white-space: nowrap } tr + tr td { border-top: 1px solid #eee }
pre { background: #f6f6f4; padding: .8rem 1rem; overflow-x: auto }
.map { line-height: 1.1; white-space: pre } .map b { font-weight: 400 }
.map .a { background: #9ec1e8 } .map .b { background: #f3c08c } .map .c { background: #a9d8a4 }
.map .d { background: #dcb1da } img { max-width: 100% } figure { margin: 1rem 0 }
figcaption, .note { color: #666; font-size: .9rem }
td:not(:first-child):not(:last-child) { white-space: nowrap }
@media (max-width: 40rem) {
  body { font-size: 14px; margin: 1rem auto; overflow-wrap: anywhere } h1 { font-size: 1.2rem }
  pre:not(.map) { white-space: pre-wrap } .map { font-size: 9px }
  .facts td:first-child { white-space: normal; overflow-wrap: normal; max-width: 7rem }
  table:not(.facts) tr:first-child { display: none }
  table:not(.facts) td { display: block; border: 0; padding: 0; text-align: left }
  table:not(.facts) td:first-child { font-weight: 600; padding-top: .5rem }
  table:not(.facts) td:not(:first-child)::before { color: #666; content: attr(data-label) " " }
  table:not(.facts) td:empty { display: none }
}
"""
"""Style sheet of the page."""


def as_html(title: str, sections: Sequence[Section], pictures: Sequence[tuple[str, bytes]], note: str = "") -> str:
    """Return a whole HTML page with all texts escaped; `pictures` are (caption, PNG), `note` follows the title."""
    body = [f"<h1>{escape(title)}</h1>"]
    if note:
        body.append(f'<p class="note">{escape(note)}</p>')
    body += (_section(section, heading=section.title != title) for section in sections)
    body += (_figure(caption, png) for caption, png in pictures)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _section(section: Section, *, heading: bool) -> str:
    parts = [f"<h2>{escape(section.title)}</h2>"] if heading else []
    if section.facts:
        parts.append('<table class="facts">' + "".join(_cells(fact, "td") for fact in section.facts) + "</table>")
    if section.table:
        head, *rows = section.table
        body = "".join(_cells(row, "td", labels=head) for row in rows)
        parts.append("<table>" + _cells(head, "th") + body + "</table>")
    if section.map:
        parts.append('<pre class="map">' + "\n".join(map(_coloured, section.map)) + "</pre>")
    if section.lines:
        parts.append("<pre>" + escape("\n".join(section.lines)) + "</pre>")
    return "\n".join(parts)


def _coloured(line: str) -> str:
    """Return a line of a letter map as HTML, with each run of one letter in an element whose class is the letter."""
    runs = ((letter, "".join(run)) for letter, run in itertools.groupby(line))
    return "".join(f'<b class="{letter}">{run}</b>' if letter.isalpha() else escape(run) for letter, run in runs)


def _cells(texts: Sequence[str], tag: str, *, labels: Sequence[str] = ()) -> str:
    """Return a table row as HTML; each cell (`tag`) carries its column's label, for screens that stack cells."""
    marks = [f' data-label="{escape(label)}"' if label else "" for label in labels] or [""] * len(texts)
    cells = (f"<{tag}{mark}>{escape(text)}</{tag}>" for text, mark in zip(texts, marks, strict=True))
    return "<tr>" + "".join(cells) + "</tr>"


def _figure(caption: str, png: bytes) -> str:
    data = base64.b64encode(png).decode("ascii")
    return (
        f'<figure><img src="data:image/png;base64,{data}" alt="{escape(caption)}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )
