"""Tables of `hybrid.py`: gains over the best single format, and the effect of searching for composites at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from peerlib.hybrid_case import is_composite, mean_s
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
"""Gain of STile on its GPU: over the better of its single formats (Table 7), or over SparseTIR (Figures 7 and 9)."""
FIGURES: Final = {
    ("cora", "matmul"): "2.4 (.9)", ("citeseer", "matmul"): "3.3 (1.2)", ("pubmed", "matmul"): "2.5 (1.7)",
    ("NotreDame_www", "matmul"): "4.5 (3.2)", ("unstructured", "matmul"): "3.1 (2.3)",
    ("structured", "matmul"): "7.6 (6.8)", ("LogSparse", "matmul"): "2.3 (2.3)", ("Strided", "matmul"): "3.8 (3.3)",
    ("cora", "sddmm"): "1.5 (1.4)", ("citeseer", "sddmm"): "1.5 (1.4)", ("pubmed", "sddmm"): "2.6 (2.4)",
    ("NotreDame_www", "sddmm"): "4.7 (4.1)", ("unstructured", "sddmm"): "2.4 (2.2)",
    ("structured", "sddmm"): "4.3 (2.7)", ("LogSparse", "sddmm"): "3.3 (2.8)", ("Strided", "sddmm"): "7.5 (4.5)",
}  # fmt: skip
"""Figures 7 (over cuSPARSE) and 9 (over DGL) of the paper: STile, and in parentheses SparseTIR."""
GAIN: Final = 1.02
"""Ratio from which a composite counts as faster; below its reciprocal it counts as slower."""


def ratio(line: Line, kind: str, over: str = "single") -> float | None:
    """Return the time of the fastest contender of kind `over` over that of kind `kind`.

    Times are geometric means of the variants.
    """
    other, one = line["fastest"].get(over), line["fastest"].get(kind)
    if not other or not one:
        return None
    if other["schedule"] == one["schedule"]:
        return 1.0
    return mean_s(_ways(other)) / mean_s(_ways(one))


def _ways(one: Mapping[str, Any]) -> dict[str, float]:
    return {way: seconds for way, seconds in one.items() if way != "schedule"}


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def rows(lines: Sequence[Line]) -> list[list[str]]:
    """Return the header and one row per case."""
    found = [[
        "matrix", "entries", "product", "best single", "searched composite", "fixed composite", "chosen",
        "is composite", "paper",
    ]]  # fmt: skip
    for line in lines:
        product = f"{line['operation']} {line['columns']}"
        ratios = [_cell(ratio(line, kind)) for kind in ("composite", "fixed", "on")]
        paper = PAPER.get((line["name"], line["operation"]), "-")
        taken = "yes" if is_composite(line["fastest"]["on"]["schedule"]) else "no"
        single = seconds(mean_s(_ways(line["fastest"]["single"])))
        found.append([line["name"], f"{line['nnz']:,}", product, single, *ratios, taken, paper])
    return found


def figures(lines: Sequence[Line]) -> list[str]:
    """Format Figures 7 and 9: speed over SciPy (SDDMM: over the default kernel), beside the paper's."""
    table = [["matrix", "product", "default", "best single", "best composite", "chosen", "paper: STile (SparseTIR)"]]
    for line in lines:
        if (paper := FIGURES.get((line["name"], line["operation"]))) is None:
            continue
        over = line["times_s"].get("scipy", line["times_s"]["default"])
        default = line["times_s"]["default"]
        best = [one for kind in ("composite", "fixed") if (one := line["fastest"].get(kind))]
        fastest = min(best, key=lambda one: mean_s(_ways(one)), default=None)
        found = (default, line["fastest"]["single"], fastest, line["fastest"]["on"])
        cells = [_cell(one and mean_s(over) / mean_s({way: one[way] for way in over})) for one in found]
        table.append([line["name"], f"{line['operation']} {line['columns']}", *cells, paper])
    if len(table) == 1:
        return []
    return [
        "## Figures 7 and 9",
        "Times of SciPy's product over ours; for sampled products (sddmm), times of the default kernel over ours.",
        "The paper's values are over cuSPARSE and DGL on an A100. Of its graphs the three smallest are included.",
        "",
        markdown(table),
        "",
    ]


def _best(line: Line) -> float | None:
    found = [value for kind in ("composite", "fixed") if (value := ratio(line, kind)) is not None]
    return max(found, default=None)


def _named(lines: Sequence[Line], value: Callable[[Line], float | None]) -> str:
    return ", ".join(f"{line['key']} {value(line):.2f}" for line in lines) or "none"


def _spread(ratios: Sequence[float]) -> str:
    found = Distribution.of(ratios)
    return f"geomean {found.geomean:.3f}, 5th percentile {found.p5:.3f}, least {found.least:.3f}"


def gains(lines: Sequence[Line]) -> list[str]:
    """Format the table of cases, gains and losses of the chosen plans, and the fastest composites, chosen or not."""
    chosen = {line["key"]: value for line in lines if (value := ratio(line, "on")) is not None}
    faster = [line for line in lines if chosen.get(line["key"], 1.0) >= GAIN]
    slower = [line for line in lines if chosen.get(line["key"], 1.0) <= 1.0 / GAIN]
    measured = [line for line in lines if _best(line) is not None]
    text = [
        "## Beside the best single format",
        "Ratios are the best single format's time over the contender's: above 1 the contender is faster.",
        "`best single` is the fastest of the default kernel, the fastest single formats that both searches measured,",
        "and rows sorted by length or by first column. `fixed`: composites of the schedules that parts are tried with",
        "first.",
        "",
        markdown(rows(lines)),
        "",
        f"The plan of the hybrid search is faster: {_named(faster, lambda line: chosen[line['key']])}.",
        "",
        f"The plan of the hybrid search is slower: {_named(slower, lambda line: chosen[line['key']])}.",
        "",
        f"The fastest composite that was measured, searched or fixed: {_named(measured, _best)}.",
        "",
        f"No composite was measured: {', '.join(line['key'] for line in lines if _best(line) is None) or 'none'}.",
    ]
    if chosen:
        text += ["", f"Over the best single format: {len(chosen)} cases, {_spread(list(chosen.values()))}."]
    return text


def harm(lines: Sequence[Line]) -> list[str]:
    """Format the ratio of searches with composites to searches without, by product."""
    by_product = defaultdict(list)
    for line in lines:
        if (value := ratio(line, "on", "off")) is not None:
            by_product[f"{line['operation']} {line['columns']}"].append((value, line))
    table = [["product", "matrices", "composites chosen", "geomean", "5th percentile", "least"]]
    lost = []
    for product, found in sorted(by_product.items()):
        one = Distribution.of([value for value, _ in found])
        n_composites = sum(is_composite(line["fastest"]["on"]["schedule"]) for _, line in found)
        figures = [f"{value:.3f}" for value in (one.geomean, one.p5, one.least)]
        table.append([product, str(one.n), str(n_composites), *figures])
        lost += [(value, line) for value, line in found if value < LOSS]
    return [
        "## Hybrids on against off, equal seconds",
        "The plan of the search with `hybrid=False`, its time over that of the search with `hybrid=True`.",
        "",
        markdown(table),
        "",
        *_luck(by_product),
        f"Below {LOSS}: {_named([line for _, line in lost], lambda line: ratio(line, 'on', 'off'))}.",
    ]


def _luck(by_product: Mapping[str, Sequence[tuple[float, Line]]]) -> list[str]:
    """Format the difference of two searches without composites, if there were two."""
    table = [["product", "matrices", "geomean", "5th percentile", "least"]]
    for product, found in sorted(by_product.items()):
        ratios = [value for _, line in found if (value := ratio(line, "again", "off")) is not None]
        if ratios:
            one = Distribution.of(ratios)
            table.append([product, str(one.n), *(f"{value:.3f}" for value in (one.geomean, one.p5, one.least))])
    if len(table) == 1:
        return []
    return [
        "The same for a second search with `hybrid=False`, which shows the variation between equal searches:",
        "",
        markdown(table),
        "",
    ]


LOSS: Final = 0.97


def report(lines: Sequence[Line]) -> str:
    """Format all tables of a results file."""
    text = [
        "# Hybrid formats",
        "Both searches of a case had the same seconds, each in a process of its own with an empty cache. Times are",
        "the geometric mean of two medians: of products with a result made for each, and with one result for all.",
        "Each row is one run, the newest of its case.",
        "",
    ]
    raced = [line for line in lines if line["fastest"].get("single")]
    if raced:
        text += [*gains(raced), "", *figures(raced)]
    if lines:
        text += [*harm(lines), ""]
    return "\n".join(text)
