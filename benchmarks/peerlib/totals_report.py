"""Report of `totals.py` as Markdown and as a plot, computed from its records."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from peerlib.pictures import save
from peerlib.summary import percentile
from peerlib.total_time import Lazy, Way

Record = Mapping[str, Any]
Total = Callable[[int], float]

RUNS: Final = tuple(10**power for power in range(7))
REFERENCES: Final = ("mkl", "scipy", "default")
"""Candidates for the unit of totals; the first one that every record has is used (the paper: MKL without tuning)."""
LAZY: Final[Mapping[str, tuple[str, ...]]] = {
    "autosparse, lazily": ("estimate", "measure"),
    "autosparse, lazily, learned": ("learned-estimate", "learned-measure"),
}
"""Tiers in the order in which the library buys them."""
LABELS: Final[Mapping[str, str]] = {
    "scipy": "SciPy",
    "mkl": "MKL",
    "mkl-hint": "MKL with hint",
    "best-format": "BestFormat",
    "default": "autosparse, not tuned",
    "estimate": "autosparse, estimate at once",
    "measure": "autosparse, measure at once",
    "learned-estimate": "autosparse, learned estimate at once",
    "learned-measure": "autosparse, learned measure at once",
}


def way(record: Record, name: str) -> Way:
    """Return a way of a record as price and time per product."""
    return Way(price_s=record["prices"][name]["price_s"], product_s=record["times"][name]["median_s"])


def lazy(record: Record, tiers: Sequence[str]) -> Lazy:
    """Return the library's lazy behaviour: default products, then `tiers` as they pay."""
    return Lazy(
        default_s=record["times"]["default"]["median_s"],
        tiers=tuple(way(record, tier) for tier in tiers if tier in record["times"]),
        gain=record["gain"],
        overhead=record["overhead"],
    )


def totals(record: Record) -> dict[str, Total]:
    """Return functions of N for the total time of N products, by label."""
    found: dict[str, Total] = {label: way(record, n).total_s for n, label in LABELS.items() if n in record["times"]}
    for label, tiers in LAZY.items():
        if tiers[0] in record["times"]:
            one = lazy(record, tiers)
            found[label] = one.total_s
            found[f"{label}, N told"] = lambda n, one=one: one.total_s(n, is_told=True)  # type: ignore[misc]
    return found


def reference_of(records: Sequence[Record]) -> str:
    """Return the contender whose products are the unit of totals."""
    return next(name for name in REFERENCES if all(name in record["times"] for record in records))


def curves(records: Sequence[Record], runs: Sequence[int] = RUNS) -> dict[str, list[float]]:
    """Return by label the geometric mean over matrices of T(N) / (N products of the reference), for each N.

    Ways that some matrix lacks are omitted.
    """
    reference = reference_of(records)
    per_record = [(totals(record), record["times"][reference]["median_s"]) for record in records]
    labels = [label for label in per_record[0][0] if all(label in found for found, _ in per_record)]
    return {
        label: [statistics.geometric_mean(found[label](n) / (n * unit_s) for found, unit_s in per_record) for n in runs]
        for label in labels
    }


def by_operation(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records of each operation, in their order."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record["operation"], []).append(record)
    return found


def line(record: Record) -> str:
    """Format one line per finished cell."""
    default_s = record["times"]["default"]["median_s"]
    parts = [
        f"{name} {default_s / timing['median_s']:.2f}x for {record['prices'][name]['price_s'] / default_s:.0f}"
        for name, timing in record["times"].items()
        if name != "default"
    ]
    return f"{record['matrix']:32s} {record['operation']:8s} {default_s * 1e6:8.0f} us | " + ", ".join(parts)


# -- Markdown --------------------------------------------------------------------------------------------------------


def markdown(records: Sequence[Record]) -> str:
    """Format both tables of every operation."""
    parts = []
    for operation, chosen in by_operation(records).items():
        reference = LABELS[reference_of(chosen)]
        found = curves(chosen)
        parts += [
            f"## {operation}: {len(chosen)} matrices\n",
            f"Time of N products, tuning and converting included, over N products of {reference}; geometric mean:\n",
            _table(("", *(f"N = {n:,}" for n in RUNS)), [(label, *map(_short, row)) for label, row in found.items()]),
            "Price of tuning, in default products. Amortised: products until it is paid back, on matrices that gain.\n",
            _table(TIER_HEADER, list(_tier_rows(chosen))),
        ]
        parts += [_lazily(chosen, label, tiers) for label, tiers in LAZY.items() if tiers[0] in chosen[0]["times"]]
    return "\n".join(parts)


TIER_HEADER: Final = (
    "",
    "price: median",
    "95 %",
    "first time: median",
    "gain on",
    "speed: geomean",
    "amortised: median",
)


def _tier_rows(records: Sequence[Record]) -> Iterator[tuple[str, ...]]:
    for name, label in LABELS.items():
        mine = [record for record in records if name in record["times"] and name != "default"]
        if not mine or name in ("scipy", "mkl"):
            continue
        default_s = [record["times"]["default"]["median_s"] for record in mine]
        ways = [way(record, name) for record in mine]
        prices = sorted(one.price_s / unit_s for one, unit_s in zip(ways, default_s, strict=True))
        first = [record["prices"][name].get("first_s", math.nan) for record in mine]
        first_times = sorted(one_s / unit_s for one_s, unit_s in zip(first, default_s, strict=True))
        speeds = [unit_s / one.product_s for one, unit_s in zip(ways, default_s, strict=True)]
        paid = [one.amortised_after(unit_s) for one, unit_s in zip(ways, default_s, strict=True)]
        known = [n for n in paid if n is not None]
        yield (
            label,
            _short(statistics.median(prices)),
            _short(percentile(prices, 95)),
            _short(statistics.median(first_times)),
            f"{len(known)} of {len(mine)}",
            f"{statistics.geometric_mean(speeds):.2f}",
            _short(statistics.median(known)) if known else "–",
        )


def _lazily(records: Sequence[Record], label: str, tiers: Sequence[str]) -> str:
    """Return sentences on when lazy tuning begins, and from which product on it has paid for itself."""
    lazies = [lazy(record, tiers) for record in records]
    chose = [any(record["prices"].get(tier, {}).get("schedule") for tier in tiers) for record in records]
    tuned = [one.break_even() for one, has in zip(lazies, chose, strict=True) if has and len(one.stretches()) > 1]
    begun = [stretches[1].first for one in lazies if len(stretches := one.stretches()) > 1]
    ahead = [n for one in lazies if (n := one.break_even()) is not None]
    said = f"{label}: tuning begins on {len(begun)} of {len(lazies)} matrices"
    if begun:
        said += f", after {_short(statistics.median(begun))} products (median)"
    said += "."
    if ahead:
        since = f"from product {_short(statistics.median(ahead))} on"
        said += f" The total is at most that of default products {since} (median)."
    if tuned:
        middle = statistics.median(math.inf if n is None else n for n in tuned)
        since = f"from product {_short(middle)} on" if math.isfinite(middle) else "never"
        said += f" Matrices with another kernel than the default one: {len(tuned)}, {since} (median)."
    if len(ahead) < len(lazies):
        never = len(lazies) - len(ahead)
        said += f" Matrices whose total stays above that of default products, by the time of tuning: {never}."
    return f"{said} {_beside_others(records, lazies)}".rstrip() + "\n"


def _beside_others(records: Sequence[Record], lazies: Sequence[Lazy]) -> str:
    """Return from which product on the total is below SciPy's and MKL's (WACO: 919 and 101, over MKL)."""
    said = []
    for name in ("scipy", "mkl"):
        if not all(name in record["times"] for record in records):
            continue
        others_s = [record["times"][name]["median_s"] for record in records]
        ahead = [one.break_even(other_s) for one, other_s in zip(lazies, others_s, strict=True)]
        after = [math.inf if n is None else n for n in ahead]
        middle = statistics.median(after)
        since = f"from product {_short(math.floor(middle) + 1)} on" if math.isfinite(middle) else "never"
        said.append(
            f"below that of {LABELS[name]} {since} (median; on {after.count(0.0)} of {len(after)} from the first on, "
            f"on {after.count(math.inf)} never)"
        )
    return f"The total is {' and '.join(said)}." if said else ""


def _short(value: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines) + "\n"


# -- picture ---------------------------------------------------------------------------------------------------------


def draw(path: Path, records: Sequence[Record]) -> None:
    """Draw one panel per operation: the rows of the first table over N, both axes logarithmic."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    grouped = by_operation(records)
    figure = Figure(figsize=(6.0 * max(1, len(grouped)), 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, max(1, len(grouped)), squeeze=False)[0]
    for panel, (operation, chosen) in zip(panels, grouped.items(), strict=False):
        for label, row in curves(chosen).items():
            is_ours = label.startswith("autosparse")
            panel.plot(RUNS, row, label=label, linewidth=2.0 if is_ours else 1.2, linestyle="-" if is_ours else "--")
        panel.set(xscale="log", yscale="log", xlabel="products N", title=f"{operation}, {len(chosen)} matrices")
        panel.set_ylabel(f"total time / N products of {LABELS[reference_of(chosen)]}")
        panel.set_ylim(top=20.0)
        panel.grid(True, which="major", alpha=0.3)
    panels[0].legend(fontsize=7)
    save(figure, path, dpi=110)
