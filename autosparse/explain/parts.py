"""Describe the parts of a composite format: the entries that each one takes, its storage, and a map of the pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse import _native
from autosparse.core.composite import Composite
from autosparse.core.dtypes import WideIndex
from autosparse.explain.loop_nest import schedule_name
from autosparse.explain.section import Section
from autosparse.explain.units import UNKNOWN

if TYPE_CHECKING:
    from autosparse.tuning.report import Report

Array = NDArray[Any]  # numbers of entries

MAP_SHAPE: Final = (12, 48)
"""Height in lines and width in characters of the map."""
LETTERS: Final = "abcd"
"""Letters of the parts in the map, in the order of the parts."""


def parts_section(report: Report, composite: Composite) -> Section:
    """Return a composite's section: a row per part, and a map that shows the largest part in each cell."""
    problem, plan = report.problem, report.plan
    selections = tuple(part.select for part in composite.parts)
    subsets = _native.subsets(problem.matrix, selections, transposed=problem.transposed)
    nnz = max(1, problem.pattern.nnz)
    rates = [f"{one.rate / 1e9:.3g} GB/s" for one in report.part_times] or [UNKNOWN] * len(subsets)
    rows = [
        (
            letter,
            str(part.select),
            f"{subset.pattern.nnz / nnz:.1%} of the entries",
            f"{subset.pattern.n_rows:,} rows",
            rate,
            schedule_name(part.schedule),
        )
        for letter, part, subset, rate in zip(LETTERS, composite.parts, subsets, rates, strict=False)
    ]
    lines = []
    if report.part_times:
        lines.append("GB/s: bytes of a part's packed copy over the fastest run of the part alone, measured just now.")
    else:
        lines.append("GB/s of a part is measured by running it alone, once products are computed in parts.")
    if plan.measured_s and plan.packed_bytes:
        lines.append(f"All parts together are read at {plan.packed_bytes / plan.measured_s / 1e9:.3g} GB/s.")
    n_rows = problem.pattern.shape[1 if problem.transposed else 0]
    return Section(
        title="Parts",
        table=(("", "takes", "share", "", "reads at", "stored as"), *rows),
        map=tuple(part_map(subsets, n_rows)),
        lines=tuple(lines),
    )


def part_map(subsets: tuple[_native.Subset, ...], n_rows: int) -> list[str]:
    """Return the map's lines; each cell shows the letter of the part with the most entries there, or a dot if empty."""
    height, width = min(MAP_SHAPE[0], max(1, n_rows)), MAP_SHAPE[1]
    counts = np.zeros((len(subsets), height, width), dtype=WideIndex)
    n_cols = max(1, subsets[0].pattern.n_cols)
    for at, subset in enumerate(subsets):
        pattern = subset.pattern
        own = np.arange(pattern.n_rows) if subset.rows is None else subset.rows
        rows = np.repeat(own.astype(WideIndex), pattern.row_lengths)
        columns = pattern.indices[: pattern.nnz].astype(WideIndex)
        cells = rows * height // max(1, n_rows) * width + columns * width // n_cols
        counts[at] = np.bincount(cells, minlength=height * width).reshape(height, width)
    most, total = counts.argmax(axis=0), counts.sum(axis=0)
    return ["".join(LETTERS[most[i, k]] if total[i, k] else "." for k in range(width)) for i in range(height)]
