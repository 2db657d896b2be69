"""Benchmark `figure7`, after Figure 7 of the paper: the default program against the chosen one, on uniform patterns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sps
from peerlib.archives import output
from peerlib.pictures import save

import autosparse as asp
from autosparse.contraction.candidates import assignment_of, name_of
from autosparse.contraction.cin.nodes import Loop, TensorAccess, reads
from autosparse.contraction.lower.kernel import NS_PER_TASK, compiled, execute
from autosparse.contraction.lower.plan import EinsumPlan
from autosparse.contraction.operands import Sparse
from autosparse.contraction.race import race
from einsumlib import report
from einsumlib.inputs import Problem, seconds
from einsumlib.report import RECORD, table

KERNELS = {
    "SpMV": "ij,j->i",
    "SpMV2": "ij,jk,k->i",
    "SpGEMM": "ik,jk->ij",
    "SpGEMM2": "ik,kl,jl->ij",
    "SpGEMMH": "ik,jk,jk->ij",
    "SpMTTKRP": "ikl,jk,jl->ij",
}
SIZES = (64, 128, 256, 512, 1024, 2048, 4096)
DENSITY = 0.01
DENSITIES = tuple(2.0**-power for power in (4, 6, 8, 10, 12))
SIZE = {"SpMTTKRP": 128}
"""Extent of every index in the series of densities; kernels that are not listed use 512."""
MAX_DEFAULT_S = 0.5
"""Time of the default program, in seconds, beyond which a series ends."""
PER_ROW = 8
ROW_SIZES = (256, 1024, 4096, 16384, 65536)
"""Extents of the series in which each row has `PER_ROW` entries, as in most real matrices."""
MAX_ENTRIES = 2_000_000


def measured(_: Path, only: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Measure all series; rows of kernels that are not in `only` are taken from the previous run."""
    rows = report.rows_of("figure7") if only else []
    for name in only or KERNELS:
        rows = [row for row in rows if row["kernel"] != name]
        for series, sizes in (("size", SIZES), ("row", ROW_SIZES)):
            for n in sizes:
                made = one_row(name, n, DENSITY if series == "size" else PER_ROW / n, series)
                rows += made
                if not made or made[-1]["default_s"] > MAX_DEFAULT_S:
                    break
        for density in DENSITIES:
            rows += one_row(name, SIZE.get(name, 512), density, "density")
    rows.sort(key=lambda row: list(KERNELS).index(row["kernel"]))
    plot(rows)
    return rows


def one_row(name: str, n: int, density: float, series: str) -> list[dict[str, Any]]:
    """Return one row, or no row if a tensor would exceed MAX_ENTRIES."""
    letters = KERNELS[name].split("->", maxsplit=1)[0].split(",")
    densities = [density * n ** (2 - len(one)) if series == "row" and len(one) > 2 else density for one in letters]
    if max(n ** len(one) * part for one, part in zip(letters, densities, strict=True)) > MAX_ENTRIES:
        return []
    rng = np.random.default_rng(n)
    operands = [operand(rng, (n,) * len(one), part) for one, part in zip(letters, densities, strict=True)]
    problem = Problem(KERNELS[name], operands)
    chosen = race(problem.choice(are_copies_kept=True), problem.named, problem.extents).program.plan
    default = default_plan(problem)
    plans = {"default_s": replace(default, has_marks=False), "marked_s": default, "chosen_s": chosen}
    times = least_seconds(problem, plans)
    row = {"series": series, "kernel": name, "n": n, "density": density, **times, "program": chosen.text}
    print(series, f"{name:8} {n:5} {density:8.5f}", {one: round(s * 1e3, 3) for one, s in times.items()}, flush=True)
    return [row]


def least_seconds(problem: Problem, plans: dict[str, EinsumPlan]) -> dict[str, float]:
    """Return the minimum seconds of each plan over interleaved runs; operands are reordered before."""
    ready = {}
    for name, plan in plans.items():
        program = compiled(plan, problem.named, problem.extents)
        elapsed_s = min(seconds(lambda: execute(program, problem.named, problem.extents)) for _ in range(2))  # noqa: B023
        ready[name] = program, elapsed_s / NS_PER_TASK * 1e9
    found = {name: elapsed_s * NS_PER_TASK / 1e9 for name, (_, elapsed_s) in ready.items()}
    default_s = found["default_s"]
    for _ in range(2 if default_s > 0.2 else 5 if default_s > 0.02 else 40):
        for name, (program, tasks) in ready.items():
            run = lambda: execute(program, problem.named, problem.extents, tasks=tasks)  # noqa: B023, E731
            found[name] = min(found[name], seconds(run))
    return found


def operand(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Any:
    """Return a matrix or tensor with uniformly random coordinates, or a dense vector."""
    if len(shape) == 1:
        return rng.random(shape)
    if len(shape) == 2:
        return sps.random_array(shape, density=density, random_state=rng, format="csr")
    size = math.prod(shape)
    places = np.unique(rng.integers(0, size, max(1, round(size * density))))
    return asp.tensor(np.stack(np.unravel_index(places, shape)), rng.random(places.size), shape)


def default_plan(problem: Problem) -> EinsumPlan:
    """Return the plan with alphabetical loops, no workspace, and locate before step."""
    subscripts, prepared = problem.subscripts, problem.prepared
    kernel = assignment_of(subscripts.inputs, subscripts.output, tuple(isinstance(one, Sparse) for one in prepared))
    steps = {}
    for access in reads(kernel.statement):
        if access.tensor in kernel.sparse:
            first = min(access.indices)
            steps[TensorAccess(access.tensor, access.indices)] = "".join(
                "l" if i == first else "s" for i in access.indices
            )
    sparse = tuple(name_of(n) for n, one in enumerate(prepared) if isinstance(one, Sparse))
    dense = tuple(access for access in reads(kernel.statement) if access.tensor not in sparse)
    output = TensorAccess("R", tuple(subscripts.output))
    program, levels = Loop(kernel.indices, kernel.statement), frozenset(sparse)
    return EinsumPlan(program, steps, output, len(output.indices) < 2, sparse, dense, "".join(kernel.indices), levels)


def plot(rows: list[dict[str, Any]]) -> None:
    """Write results/einsum-figure7.png: time of the default over ours, by size and by density."""
    import matplotlib.pyplot as plt

    figure, all_axes = plt.subplots(1, 3, figsize=(13, 4), sharey=True)
    for axes, series, x in zip(all_axes, ("size", "row", "density"), ("n", "n", "density"), strict=True):
        for name in KERNELS:
            mine = [row for row in rows if row["kernel"] == name and row["series"] == series]
            axes.loglog([r[x] for r in mine], [r["default_s"] / r["chosen_s"] for r in mine], marker="o", label=name)
        axes.axhline(1.0, color="gray", linewidth=0.5)
    all_axes[0].set(xlabel=f"n (density {DENSITY})", ylabel="default schedule's time / ours")
    all_axes[1].set(xlabel=f"n ({PER_ROW} entries in a row)")
    all_axes[2].set(xlabel="density (n = 512; SpMTTKRP 128)")
    all_axes[0].legend()
    save(figure, output("einsum-figure7.png", record=RECORD), dpi=120, bbox_inches="tight")


def as_table(rows: list[dict[str, Any]]) -> str:
    """Format times in milliseconds and ratios."""
    heads = (
        "kernel",
        "n",
        "density",
        "default",
        "default with marks",
        "chosen",
        "default / chosen",
        "with marks / chosen",
    )
    lines = []
    for row in rows:
        times = [row[name] for name in ("default_s", "marked_s", "chosen_s")]
        ratios = [one / times[2] for one in times[:2]]
        lines.append([row["kernel"], row["n"], f"{row['density']:.2g}", *(1e3 * one for one in times), *ratios])
    return table(heads, lines)
