"""Benchmark `graphs`: `asp.einsum` against the SciPy expression that a user would write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import autosparse as asp
from einsumlib.inputs import EXPRESSIONS, GRAPHS, geometric_mean, interleaved, is_asked, load, seconds
from einsumlib.report import table


def measured(folder: Path) -> list[dict[str, Any]]:
    """Return medians of interleaved runs; the plan is chosen and timed before."""
    rows = []
    for name in GRAPHS:
        A = load(folder, name)
        for expression, scipys in EXPRESSIONS.items():
            if not is_asked(name, expression):
                continue
            operands = [A] * (expression.count(",") + 1)
            with asp.options(runs=100):
                asp.einsum(expression, *operands)
            runs = {"scipy": lambda: scipys(A), "einsum": lambda: asp.einsum(expression, *operands)}  # noqa: B023
            if expression == "ij,jk->ik":
                own = asp.csr_array(A)
                own @ own
                runs["product"] = lambda: own @ own  # noqa: B023
                runs["of_own"] = lambda: asp.einsum(expression, own, own)  # noqa: B023
            times = interleaved(runs, 3 if seconds(runs["scipy"]) > 0.3 else 9)
            rows.append({"graph": name, "nnz": int(A.nnz), "expression": expression, **times})
            print(name, expression, {one: round(s * 1e3, 2) for one, s in times.items()}, flush=True)
    return rows


def as_table(rows: list[dict[str, Any]]) -> str:
    """Format times in milliseconds, ratios, and geometric means of the ratios."""
    lines: list[list[object]] = []
    for row in rows:
        scipy, ours = row["scipy"], row["einsum"]
        lines.append([row["graph"], row["nnz"], f"`{row['expression']}`", scipy * 1e3, ours * 1e3, scipy / ours])
    for expression in EXPRESSIONS:
        ratios = [row["scipy"] / row["einsum"] for row in rows if row["expression"] == expression]
        lines.append(["geometric mean", "", f"`{expression}`", "", "", geometric_mean(ratios)])
    for name, text in (("einsum", "einsum of SciPy's matrices"), ("of_own", "einsum of the same `asp.csr_array`")):
        ratios = [row["product"] / row[name] for row in rows if name in row and "product" in row]
        if ratios:
            lines.append([f"`asp.csr_array` `A @ A` over {text}", "", "`ij,jk->ik`", "", "", geometric_mean(ratios)])
    return table(("graph", "nnz", "expression", "SciPy", "einsum", "ratio"), lines)
