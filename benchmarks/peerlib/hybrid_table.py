"""Hybrid formats in numbers: gains and losses over the best single format, beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from peerlib.summary import Distribution
from peerlib.table import markdown, seconds

Line = Mapping[str, Any]

PAPER: Final = {
    ("cora", "matmul"): "2.7 (SparseTIR, Figure 7)",
    ("citeseer", "matmul"): "2.8 (SparseTIR, Figure 7)",
    ("pubmed", "matmul"): "1.5 (SparseTIR, Figure 7)",
    ("cora", "sddmm"): "1.1 (SparseTIR, Figure 9)",
    ("citeseer", "sddmm"): "1.1 (SparseTIR, Figure 9)",
    ("pubmed", "sddmm"): "1.1 (SparseTIR, Figure 9)",
    ("unstructured", "matmul"): "1.3 (SparseTIR, Figures 7 and 9)",
    ("structured", "matmul"): "1.1 (SparseTIR, Figures 7 and 9)",
    ("unstructured", "sddmm"): "1.1 (SparseTIR, Figures 7 and 9)",
    ("structured", "sddmm"): "1.1 (SparseTIR, Figures 7 and 9)",
    ("LogSparse", "matmul"): "1.0 (Table 7)",
    ("LogSparse", "sddmm"): "1.0 (Table 7)",
    ("Strided", "matmul"): "1.0 (Table 7)",
    ("Strided", "sddmm"): "1.4 (Table 7)",
    ("case study", "matmul"): "3.6 (several levels over one, Section 5.4)",
}
"""What STile gains on its GPU: over the better of its single formats (Table 7), or over SparseTIR (Figures 7 and 9)."""
GAIN: Final = 1.02
"""Ratio from which a composite counts as faster, and below whose reciprocal as slower."""


def ratio(line: Line, kind: str) -> float | None:
    """The best single format's time over that of the fastest contender of `kind`."""
    single, other = line["fastest"]["single"], line["fastest"][kind]
    return single[0] / other[0] if single and other else None


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def rows(lines: Sequence[Line]) -> list[list[str]]:
    """Header and one row for each case."""
    found = [[
        "matrix", "entries", "product", "best single", "searched composite", "fixed composite", "chosen",
        "is composite", "paper",
    ]]  # fmt: skip
    for line in lines:
        single = line["fastest"]["single"]
        product = f"{line['operation']} {line['columns']}"
        ratios = [_cell(ratio(line, kind)) for kind in ("composite", "fixed", "chosen")]
        paper = PAPER.get((line["name"], line["operation"]), "-")
        taken = "yes" if line["is_composite"] else "no"
        entries = f"{line['nnz']:,}"
        found.append([line["name"], entries, product, seconds(single and single[0]), *ratios, taken, paper])
    return found


def _best(line: Line) -> float | None:
    found = [value for kind in ("composite", "fixed") if (value := ratio(line, kind)) is not None]
    return max(found, default=None)


def _named(lines: Sequence[Line], value: Callable[[Line], float | None]) -> str:
    return ", ".join(f"{line['key']} {value(line):.2f}" for line in lines) or "none"


def report(lines: Sequence[Line]) -> str:
    """The table; gains and losses of what the searches chose; the fastest composites, chosen or not."""
    chosen = {line["key"]: value for line in lines if (value := ratio(line, "chosen")) is not None}
    gains = [line for line in lines if chosen.get(line["key"], 1.0) >= GAIN]
    losses = [line for line in lines if chosen.get(line["key"], 1.0) <= 1.0 / GAIN]
    measured = [line for line in lines if _best(line) is not None]
    text = [
        "# Hybrid formats",
        "Ratios are the best single format's time over the contender's: above 1 the contender is faster. Both searches",
        "of a case had the same seconds. `fixed`: composites of the schedules that parts are tried with first. Each",
        "row is one run, the newest of its case.",
        "",
        markdown(rows(lines)),
        "",
        f"What the hybrid search chose is faster: {_named(gains, lambda line: chosen[line['key']])}.",
        "",
        f"What the hybrid search chose is slower: {_named(losses, lambda line: chosen[line['key']])}.",
        "",
        f"The fastest composite that was measured, searched or fixed: {_named(measured, _best)}.",
        "",
        f"No composite was measured: {', '.join(line['key'] for line in lines if _best(line) is None) or 'none'}.",
    ]
    if chosen:
        found = Distribution.of(list(chosen.values()))
        spread = f"geomean {found.geomean:.3f}, 5th percentile {found.p5:.3f}, least {found.least:.3f}"
        text += ["", f"What the hybrid search chose over the best single format: {found.n} cases, {spread}."]
    text += [
        "",
        "The ablations of the paper's Table 6, and of its graphs all but the three smallest, were not repeated.",
    ]
    return "\n".join(text)
