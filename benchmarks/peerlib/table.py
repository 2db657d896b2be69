"""Plain-text and Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence

from peerlib.summary import Distribution, Versus


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Format rows with padded columns; the first column is left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as a Markdown table; the first row is the header."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def seconds(value_s: float | None) -> str:
    """Format a time with a suitable unit."""
    if value_s is None:
        return "-"
    unit, factor = next(
        ((unit, factor) for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)) if value_s * factor >= 1),
        ("ns", 1e9),
    )
    return f"{value_s * factor:.3g} {unit}"


def distribution_rows(named: Sequence[tuple[str, Distribution]]) -> list[list[str]]:
    """Return the header and one row per distribution."""
    rows = [["", "matrices", "geomean", "5 %", "50 %", "95 %", "least"]]
    for name, dist in named:
        values = (dist.geomean, dist.p5, dist.p50, dist.p95, dist.least)
        rows.append([name, str(dist.n), *(f"{value:.3f}" for value in values)])
    return rows


def worst(found: Sequence[Versus], n: int = 5) -> str:
    """Format the `n` matrices with the least ratios."""
    least = sorted(found, key=lambda versus: versus.ratio)[:n]
    return "worst: " + ", ".join(f"{versus.matrix} {versus.ratio:.3f} ({versus.peer})" for versus in least)
