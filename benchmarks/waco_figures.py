"""Reproduce the tables and figures of WACO's evaluation from committed data.

    python benchmarks/waco_figures.py --out benchmarks/results/waco

The script writes ``waco.md`` (Tables 6 and 7, and the data of the figures) and, if matplotlib is installed, figures 13,
15, 16a, 16b and 17 as PNG. It measures nothing.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from peerlib.archives import output, read_bytes
from peerlib.pictures import save
from peerlib.records import ResultFile
from peerlib.summary import Distribution
from peerlib.table import markdown

RESULTS: Final = Path(__file__).resolve().parent / "results"
FAST: Final = 1.5
"""Speedup over fixed CSR from which Table 6 counts a matrix."""
EXTRACTORS: Final = ("waconet", "minkowski", "dense", "human")
PEERS: Final[Mapping[str, Sequence[str]]] = {
    "MKL": ("mkl", "mkl-hint"), "torch": ("torch", "torch-out"), "numba": ("numba",), "OpenMP CSR": ("openmp",),
}  # fmt: skip

Record = Mapping[str, Any]


def tier_records() -> list[Record]:
    """Return the results of `tiers.py` on the Xeon: every tier and the peers, on held-out matrices."""
    return ResultFile(RESULTS / "xeon480" / "tiers.jsonl").cases()


def median_s(record: Record, name: str) -> float:
    """Return the median seconds of a contender."""
    return float(record["times"][name]["median_s"])


# -- Table 6 ----------------------------------------------------------------------------------------------------------


def source_of(schedule: Mapping[str, Any]) -> str:
    """Return the most far-reaching difference of a schedule from fixed CSR."""
    levels, *facts = (part.strip() for part in str(schedule["format"]).split("|"))
    names = {fact.partition("=")[0].strip() for fact in facts}
    if "rows" in names:
        return "rows in another order"
    if ":D" in levels or ":S" in levels:
        return "slices: rows as vector lanes"
    if {"i", "k"} & names:
        return "dense blocks"
    if ":Q" in levels or ":N" in levels or levels.startswith("i1:C"):
        return "other levels"
    if schedule.get("implementation"):
        return "the runtime's own loops"
    return "schedule alone (partition, chunks, unroll, prefetch, tiles)"


def table_6(records: Sequence[Record]) -> str:
    """Format the share of each source of speed, among matrices on which `measure` is FAST times as fast as OpenMP."""
    rows = [["operation", "matrices", "faster than 1.5 times", "source", "share"]]
    for operation in sorted({one["operation"] for one in records}):
        of_op = [one for one in records if one["operation"] == operation and "openmp" in one["times"]]
        fast = [one for one in of_op if median_s(one, "openmp") / median_s(one, "measure") > FAST]
        found: dict[str, int] = {}
        for one in fast:
            text = one["facts"]["measure"].get("schedule")
            source = source_of(json.loads(text)) if text else "the default kernel's vector loops over CSR"
            found[source] = found.get(source, 0) + 1
        for source, n in sorted(found.items(), key=lambda item: -item[1]):
            rows.append([operation, str(len(of_op)), str(len(fast)), source, f"{100 * n / len(fast):.0f} %"])
    return markdown(rows)


# -- Table 7 ----------------------------------------------------------------------------------------------------------


def table_7(folder: Path) -> str:
    """Format the share of the best measured speed that estimates reach, by models of one kind of machine and both."""
    rows = [["operation", "tested on", "trained on it", "on the other", "on both", "default kernel alone"]]
    for path in sorted(folder.glob("*-boosted.ranking.json")):
        found = json.loads(path.read_text(encoding="utf-8")).get("transfer")
        if not found:
            continue
        for kind, other in (("xeon", "epyc"), ("epyc", "xeon")):
            if f"{kind}->{kind}" in found:
                shares = [found[f"{one}->{kind}"] for one in (kind, other, "all")]
                numbers = [f"{one[0]:.3f}" for one in shares]
                rows.append([path.name.partition("-")[0], kind, *numbers, f"{shares[0][1]:.3f}"])
    return markdown(rows)


# -- figures ----------------------------------------------------------------------------------------------------------


def figure_13(records: Sequence[Record]) -> dict[str, dict[str, list[float]]]:
    """Return the sorted speedups of `measure` by operation and peer."""
    found: dict[str, dict[str, list[float]]] = {}
    for one in records:
        for peer, names in PEERS.items():
            times = [median_s(one, name) for name in names if name in one["times"]]
            if times:
                speedups = found.setdefault(one["operation"], {}).setdefault(peer, [])
                speedups.append(min(times) / median_s(one, "measure"))
    return {operation: {peer: sorted(all_) for peer, all_ in peers.items()} for operation, peers in found.items()}


def figure_15(folder: Path) -> dict[str, list[tuple[float, float]]]:
    """Return (epoch, validation loss) by extractor."""
    found = {}
    for name in EXTRACTORS:
        if (content := read_bytes(folder / f"spmm32-{name}.csv")) is not None:
            rows = csv.DictReader(content.decode().splitlines())
            found[name] = [(float(row["epoch"]), float(row["validation_loss"])) for row in rows]
    return found


def figure_16a(path: Path) -> dict[str, list[tuple[float, float]]]:
    """Return (trials, geometric mean over patterns of the best predicted ratio so far) by strategy."""
    runs: dict[str, list[Record]] = {}
    for record in ResultFile(path).lines():
        if "strategy" in record:
            runs.setdefault(record["strategy"], []).append(record)
    found = {}
    for strategy, records in runs.items():
        trials = sorted({n for one in records for n, *_ in one["trace"]})
        curve = [(n, [_best_after(one["trace"], n) for one in records]) for n in trials]
        found[strategy] = [(float(n), _geomean(best)) for n, best in curve if max(best) < float("inf")]
    return found


def _best_after(trace: Sequence[Sequence[float]], n_trials: float) -> float:
    return min((best for n, _, best in trace if n <= n_trials), default=float("inf"))


def _geomean(values: Iterable[float]) -> float:
    return statistics.geometric_mean(values)


def figure_16b(records: Sequence[Record]) -> list[tuple[int, float, float]]:
    """Return (nonzeros, seconds of a learned estimate, seconds of its packing) of SpMM, by size."""
    found = []
    for one in records:
        price = one["prices"].get("learned-estimate")
        if one["operation"].startswith("spmm") and price:
            found.append((int(one["nnz"]), float(price["price_s"]), float(price.get("pack_s", 0.0))))
    return sorted(found)


def figure_17(records: Sequence[Record]) -> dict[str, list[tuple[float, float]]]:
    """Return (price in products of MKL, speed over MKL) of each matrix by way, for SpMV."""
    ways = {"mkl-hint": "MKL with hint", "best-format": "BestFormat"}
    ways |= {"estimate": "statistics", "learned-estimate": "learned"}
    found: dict[str, list[tuple[float, float]]] = {}
    for one in records:
        for name, way in ways.items():
            if one["operation"] == "spmv" and name in one["times"] and name in one["prices"]:
                mkl_s = median_s(one, "mkl")
                price = one["prices"][name]["price_s"] / mkl_s
                found.setdefault(way, []).append((price, mkl_s / median_s(one, name)))
    return found


# -- output -----------------------------------------------------------------------------------------------------------


def text() -> str:
    """Return the page as Markdown."""
    records, totals = tier_records(), ResultFile(RESULTS / "xeon480" / "totals.jsonl").cases()
    parts = ["# Tables and figures of WACO's evaluation, from committed data\n"]
    parts += ["## Table 6: where speed over OpenMP loops on CSR comes from\n", table_6(records)]
    parts += ["\n## Table 7: models trained on one kind of machine, tested on both\n", table_7(RESULTS / "cost_models")]
    rows = [["operation", "peer", "matrices", "geomean", "5 %", "above 1"]]
    for operation, peers in figure_13(records).items():
        for peer, speedups in peers.items():
            one = Distribution.of(speedups)
            above = sum(value > 1 for value in speedups)
            rows.append([operation, peer, str(one.n), f"{one.geomean:.2f}", f"{one.p5:.2f}", f"{above} of {one.n}"])
    parts += ["\n## Figure 13: speed-ups of `measure`, sorted (13.png)\n", markdown(rows)]
    rows = [["extractor", "epochs", "least validation loss", "after 7 epochs"]]
    for name, curve in figure_15(RESULTS / "cost_models").items():
        after = [loss for epoch, loss in curve if epoch <= 7]
        rows.append([name, f"{len(curve)}", f"{min(loss for _, loss in curve):.3f}", f"{min(after):.3f}"])
    parts += ["\n## Figure 15: extractors by epoch (15.png)\n", markdown(rows)]
    rows = [["strategy", "trials", "best predicted ratio"]]
    searches = figure_16a(RESULTS / "searches.jsonl")
    rows += [[name, f"{curve[-1][0]:.0f}", f"{curve[-1][1]:.3f}"] for name, curve in searches.items()]
    parts += ["\n## Figure 16a: searches on one cost model (16a.png)\n", markdown(rows)]
    rows = [["nonzeros", "learned estimate, ms", "of these packing, ms"]]
    points = figure_16b(totals)
    some = points[:: max(1, len(points) // 8)]
    rows += [[f"{n:,}", f"{1e3 * all_s:.2f}", f"{1e3 * pack_s:.2f}"] for n, all_s, pack_s in some]
    parts += ["\n## Figure 16b: time of a learned estimate, by size (16b.png)\n", markdown(rows)]
    rows = [["way", "matrices", "median price, products of MKL", "geomean speed over MKL"]]
    for way, found in figure_17(totals).items():
        price = statistics.median(one for one, _ in found)
        rows.append([way, str(len(found)), f"{price:.0f}", f"{_geomean(speed for _, speed in found):.2f}"])
    parts += ["\n## Figure 17: tuning overhead and speed, SpMV (17.png)\n", markdown(rows)]
    return "\n".join(parts) + "\n"


def draw(out: Path) -> list[str]:
    """Draw the figures as PNG and return their names; draw none without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: F401  # draws without a display
        from matplotlib.figure import Figure
    except ImportError:
        return []
    totals = ResultFile(RESULTS / "xeon480" / "totals.jsonl").cases()
    curves: dict[str, tuple[Mapping[str, Sequence[tuple[float, float]]], dict[str, Any], str]] = {
        "15": (figure_15(RESULTS / "cost_models"), {"xlabel": "epoch", "ylabel": "validation loss"}, "-"),
        "16a": (
            {name: line for name, line in figure_16a(RESULTS / "searches.jsonl").items() if name != "exhaustive"},
            {"xlabel": "trials", "ylabel": "best ratio predicted", "xscale": "log", "yscale": "log"},
            "-",
        ),
        "17": (
            figure_17(totals),
            {"xlabel": "price, MKL products", "ylabel": "speed over MKL", "xscale": "log"},
            ".",
        ),
    }
    points = figure_16b(totals)
    curves["16b"] = (
        {"all": [(float(n), s) for n, s, _ in points], "packing": [(float(n), s) for n, _, s in points]},
        {"xlabel": "nonzeros", "ylabel": "seconds", "xscale": "log", "yscale": "log"}, ".",
    )  # fmt: skip
    for operation, peers in figure_13(tier_records()).items():
        ranked = {peer: [(float(at), value) for at, value in enumerate(all_)] for peer, all_ in peers.items()}
        curves[f"13-{operation}"] = (ranked, {"xlabel": "matrices, sorted", "ylabel": "speed-up of measure"}, "-")
    for name, (lines, labels, style) in curves.items():
        figure = Figure(figsize=(5, 3.4), dpi=100, layout="constrained")
        axes = figure.subplots()
        for label, line in lines.items():
            axes.plot([x for x, _ in line], [y for _, y in line], style, label=label)
        axes.set(**labels)
        axes.grid(alpha=0.3)
        axes.legend()
        save(figure, out / f"{name}.png")
    return sorted(curves)


def main(given: Sequence[str] | None = None) -> int:
    """Write the page and the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, help="folder (default: build/benchmarks/waco; with --record, results/waco)")
    parser.add_argument("--record", action="store_true", help="write into benchmarks/results/waco")
    args = parser.parse_args(given)
    args.out = args.out or output("waco", record=args.record)
    args.out.mkdir(parents=True, exist_ok=True)
    written = text()
    (args.out / "waco.md").write_text(written, encoding="utf-8")
    print(written)
    print(f"drawn: {', '.join(draw(args.out)) or 'nothing (matplotlib is not installed: extra plot)'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
