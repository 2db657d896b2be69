"""Draw docs/speedup.png, the plot of the README, from results in the repository.

    python benchmarks/readme_plot.py

The plot shows the sorted speed of tuned products relative to SciPy's on the matrices of `measure_*.jsonl` (archive
`peers`). `peers.py` measures them on matrices that own their arrays (`copy=True`), as `asp.csr(m)` with `m` alive does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from peerlib.pictures import save
from peerlib.records import ResultFile

HERE: Final = Path(__file__).resolve().parent
SUMMARY: Final = HERE / "results" / "speedup.summary.json"
"""Speed relative to SciPy's of each matrix, ascending, one line per product; `figures.py --summarise` writes it."""
OUT: Final = HERE.parent / "docs" / "speedup.png"
SERIES: Final[Mapping[str, str]] = {
    "measure_spmv": "A @ x, one vector",
    "measure_spmm32": "A @ B, 32 columns",
    "measure_spmm256": "A @ B, 256 columns",
}


def summarise() -> None:
    """Write `SUMMARY` from the archived measurements."""
    lines = ({"series": name, "speedups": [float(f"{one:.4g}") for one in speedups(name)]} for name in SERIES)
    SUMMARY.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def speedups(name: str) -> list[float]:
    """Return SciPy's median time over ours on each matrix, in ascending order."""
    cases = ResultFile(HERE / "results" / f"{name}.jsonl").cases()
    times = [{who: one["median_s"] for who, one in case["times"].items()} for case in cases]
    return sorted(time["scipy"] / time["autosparse"] for time in times if {"scipy", "autosparse"} <= set(time))


def draw(path: Path) -> None:
    """Draw `SUMMARY` into a PNG file."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.0, 2.8), layout="constrained")
    kept = {line["series"]: line["speedups"] for line in ResultFile(SUMMARY).lines()}
    for name, label in SERIES.items():
        found = kept[name]
        axes.plot([100.0 * at / (len(found) - 1) for at in range(len(found))], found, label=label)
    axes.axhline(1.0, color="grey", linewidth=0.8)
    axes.set(yscale="log", xlabel="share of the matrices (%)", ylabel="times SciPy's speed")
    axes.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    axes.minorticks_off()
    axes.legend(frameon=False)
    save(figure, path, dpi=120)


if __name__ == "__main__":
    draw(OUT)
