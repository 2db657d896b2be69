"""Draw docs/speedup.png, the plot of the README, from results in the repository.

    python benchmarks/readme_plot.py

The plot shows the sorted speed of tuned products relative to SciPy's on the matrices of `results/measure_*.jsonl`.
`peers.py` measures them on matrices that own their arrays (`copy=True`), as `asp.csr(m)` with `m` alive does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
OUT: Final = HERE.parent / "docs" / "speedup.png"
SERIES: Final[Mapping[str, str]] = {
    "measure_spmv": "A @ x, one vector",
    "measure_spmm32": "A @ B, 32 columns",
    "measure_spmm256": "A @ B, 256 columns",
}


def speedups(name: str) -> list[float]:
    """Return SciPy's median time over ours on each matrix, in ascending order."""
    lines = (HERE / "results" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [row for row in map(json.loads, lines) if row["kind"] == "case"]
    times = [{who: one["median_s"] for who, one in case["times"].items()} for case in cases]
    return sorted(time["scipy"] / time["autosparse"] for time in times if {"scipy", "autosparse"} <= set(time))


def main() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.0, 2.8), layout="constrained")
    for name, label in SERIES.items():
        found = speedups(name)
        axes.plot([100.0 * at / (len(found) - 1) for at in range(len(found))], found, label=label)
    axes.axhline(1.0, color="grey", linewidth=0.8)
    axes.set(yscale="log", xlabel="share of the matrices (%)", ylabel="times SciPy's speed")
    axes.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    axes.minorticks_off()
    axes.legend(frameon=False)
    figure.savefig(OUT, dpi=120)


if __name__ == "__main__":
    main()
