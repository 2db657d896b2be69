"""Tables of benchmarks/results/einsum.md; each table stands between two comments and is replaced from its rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peerlib.archives import output

RESULTS = Path(__file__).parents[1] / "results"
PAGE = RESULTS / "einsum.md"
RECORD = "--record" in sys.argv
"""Flag `--record`: page and figure are written into `benchmarks/results` instead of `build`."""


def kept(what: str, rows: list[dict[str, Any]], table: str) -> None:
    """Write `rows` to build/benchmarks/einsum-WHAT.json and `table` into the page: a copy in build without --record."""
    path = output(f"einsum-{what}.json", record=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=0) + "\n", encoding="utf-8")
    begin, end = f"<!-- {what} -->\n", f"<!-- end of {what} -->"
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"{PAGE} has no place for a table of {what!r}: write {begin.strip()} and {end} there")
    output(PAGE.name, record=RECORD).write_text(f"{before}{begin}{table}\n{end}{after}", encoding="utf-8")


def rows_of(what: str) -> list[dict[str, Any]]:
    """Return the rows of the last run, or an empty list."""
    path = output(f"einsum-{what}.json", record=False)
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return found


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Format a Markdown table; floats get two decimals from 1 on and three below."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(one: object) -> str:
    if one is None:
        return "-"
    if isinstance(one, float):
        return f"{one:.2f}" if one >= 1 else f"{one:.3f}"
    return str(one)
