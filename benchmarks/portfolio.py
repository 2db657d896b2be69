"""Compute which kernels are worth compiling at installation, from the archive of training measurements.

    python benchmarks/portfolio.py                       # no measurement; a minute
    python benchmarks/portfolio.py --ops spmv --machines xeon --kernels 12

For each operation it prints what the kernels that ship today reach of the best measured kernel, and the kernels that a
greedy choice adds to them. A kernel is a schedule without partition, chunk and threads, which it takes as arguments.
A pattern on which a kernel was not measured counts as the default kernel, so the shares are lower bounds.
"""

from __future__ import annotations

import argparse
import functools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from autosparse._native.kernels.shipped_specs import SHIPPED_ISAS, specs
from autosparse.tuner.research.collect.files import MEASURED, Measurements, read_folder
from peerlib.archives import extracted
from peerlib.table import markdown

from autosparse.core.schedule import SuperSchedule

MIN_MEASURED: Final = 3
"""Minimum number of patterns on which a kernel must have been measured."""


def kernel_of(one: SuperSchedule, *, is_coarse: bool) -> str:
    """Return the name of a schedule's kernel; with `is_coarse`, of its format and column tile."""
    layout = re.sub(r"sigma=\d+", "sigma", str(one.format))
    tile = "".join(f", {name} {size}" for name, size in one.dense_splits)
    if one.is_precompiled:
        return f"runtime: {layout}"
    return f"{layout}{tile}" if is_coarse else f"{layout}{tile}, unroll {one.unroll}, prefetch {one.prefetch}"


@functools.cache
def named(text: str, is_coarse: bool) -> str:
    """Return the kernel of the JSON text of a schedule."""
    return kernel_of(SuperSchedule.from_json(text), is_coarse=is_coarse)


def ratios(one: Measurements, *, is_coarse: bool) -> dict[str, float]:
    """Return the least time over the default kernel's of each kernel on a pattern."""
    found: dict[str, float] = {}
    for at in np.flatnonzero((one["status"] == MEASURED) & np.isfinite(one["ratio"]) & (one["ratio"] > 0)).tolist():
        name, ratio = named(one.schedules[at], is_coarse), float(one["ratio"][at])
        found[name] = min(ratio, found.get(name, math.inf))
    return found


def greedy(patterns: Sequence[Mapping[str, float]], chosen: Sequence[str], n: int) -> Iterator[tuple[str, float]]:
    """Yield the kernels added to `chosen` one by one, with the share of the best that all of them reach."""
    best = np.array([min([1.0, *one.values()]) for one in patterns])
    counts = Counter(name for one in patterns for name in one)
    column = {
        name: np.array([min(1.0, one.get(name, 1.0)) for one in patterns])
        for name, count in counts.items()
        if count >= MIN_MEASURED or name in chosen
    }
    now = np.ones(len(patterns))
    for name in chosen:
        now = np.minimum(now, column.get(name, 1.0))
    yield "shipped today" if chosen else "default kernel alone", share(best, now)
    for _ in range(min(n, len(column))):
        name = min(column, key=lambda name: float(np.log(np.minimum(now, column[name])).mean()))
        now = np.minimum(now, column[name])
        yield name, share(best, now)


def share(best: np.ndarray, now: np.ndarray) -> float:
    """Return the geometric mean of the best times over those of the choice."""
    return float(np.exp(np.log(best / now).mean()))


def table(op: str, folders: Sequence[Path], *, n: int, is_coarse: bool) -> str:
    """Return the table of an operation as Markdown."""
    patterns = [ratios(one, is_coarse=is_coarse) for folder in folders for one in read_folder(folder, op)]
    if not patterns:
        return f"{op}: not measured"
    wins = Counter(min(one, key=one.__getitem__) for one in patterns if one and min(one.values()) < 1.0)
    counts = Counter(name for one in patterns for name in one)
    shipped = {
        kernel_of(spec.schedule, is_coarse=is_coarse)
        for isa in SHIPPED_ISAS
        for spec in specs(isa)
        if spec.dtype == "float32"
    }
    own = {name for name in counts if name.startswith("runtime: ")}  # the runtime's loops need no compiler either
    chosen = sorted((shipped | own) & set(counts))
    rows = [
        [name.replace(" | ", "; "), f"{reached:.3f}", str(wins.get(name, "")), str(counts.get(name, ""))]
        for name, reached in greedy(patterns, chosen, n)
    ]
    kind = "formats" if is_coarse else "kernels"
    head = ["added", "share of the best", "wins", "measured on"]
    return f"{op}, {kind}, {len(patterns):,} patterns\n\n" + markdown([head, *rows])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", default="spmv,spmm8,spmm32,spmm256")
    parser.add_argument("--machines", default="", help="folders of the archive whose names begin so")
    parser.add_argument("--kernels", type=int, default=8, help="number of kernels to add")
    args = parser.parse_args()
    folder = extracted("training")
    places = sorted({path.parent for path in folder.rglob("*.npz")})
    chosen = [one for one in places if str(one.relative_to(folder)).startswith(args.machines)]
    for op in args.ops.split(","):
        for is_coarse in (True, False):
            print(table(op, chosen, n=args.kernels, is_coarse=is_coarse), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
