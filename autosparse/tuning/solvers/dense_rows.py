"""Solver for matrices with a few dense rows: these rows side by side in panels of columns, the others by rows.

A dense row reads nearly every row of B. Four or eight such rows that are computed together read each row of B once, and
the runtime multiplies them by loops without a list of columns per row (`runtime/matmul/blocks.c`). The knobs are
composites, so that trials pack, refresh and check them like any schedule. No compiler is needed. Source: Fang et al.,
"STile" (PACMMOD 2(1), 2024), restricted to parts of whole rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse import _native
from autosparse.config import Options
from autosparse.core.composite import REST, Composite, Part, Rows
from autosparse.core.plan import Candidate
from autosparse.core.problem import Problem
from autosparse.core.solver import Choice, Cost
from autosparse.core.values import dataclass
from autosparse.ops import names
from autosparse.scalar import NARROW_INDEX, REAL
from autosparse.targets.priors import number
from autosparse.tuner.features.statistics import pattern_facts

Array = NDArray[Any]  # row lengths

NAME: Final = "dense rows"
"""Name of the solver in explanations of a refusal."""
CUTS: Final = (1 / 4, 1 / 16)
"""Densities from which rows count as dense."""
FULL: Final = 1 / 4
"""Minimum mean density of rows that are stored eight side by side; less dense ones are stored in fours."""
MIN_ROWS: Final = 2
"""Minimum number of dense rows; a single one shares no row of B with another."""
AHEAD: Final = 8
"""Prefetch distance in entries of the other rows."""
PRIORS: Final = "dense rows"
"""Set of `priors.json` with the costs of the model; their unit is an entry by rows whose B exceeds the L2 cache."""


@dataclass(frozen=True, slots=True)
class _Division:
    """Division of a matrix's rows: minimum entries of a dense row, rows side by side, expected time over CSR's."""

    least: int
    side_by_side: int
    ratio: float


class DenseRows:
    """Solver whose knobs are composites of dense rows in panels and the other rows."""

    name = NAME

    def applicable(self, problem: Problem) -> str | None:
        """Return why composites of dense rows are not raced for `problem`; None if they are. Takes O(rows)."""
        from autosparse.tuner.hybrid.partitions import MIN_COLUMNS, MIN_NNZ  # most matrices have no dense rows

        if problem.n_dense_cols < MIN_COLUMNS:
            return f"products of fewer than {MIN_COLUMNS} columns read A, not B, for most of their time"
        if (reason := self.reason_unable(problem)) is not None:
            return reason
        if problem.pattern.nnz <= MIN_NNZ:
            return f"the matrix has at most {MIN_NNZ:,} entries"
        best = _division(problem)
        if best is None:
            return f"fewer than {MIN_ROWS} rows fill 1/{round(1 / CUTS[-1])} of the columns"
        if best.ratio > (worth := number(PRIORS, "worth")):
            return f"expected time {best.ratio:.2f} of that by rows; at most {worth:g} is raced"
        return None

    @staticmethod
    def reason_unable(problem: Problem) -> str | None:
        """Return why the runtime has no loops for dense rows of `problem`; None if it has."""
        if problem.operation != names.MATMUL or problem.storage:
            return "the runtime has such loops for products with unchanged values only"
        if problem.pattern.index_dtype != NARROW_INDEX.name or problem.dtype not in REAL:
            return f"the runtime's loops are for {' and '.join(REAL)} with 32-bit indices"
        return None

    def knobs(self, problem: Problem) -> Iterator[Composite]:
        """Yield the composites to race: the other rows by first column in one sweep over B, and in their own order."""
        if (best := _division(problem)) is None:
            return
        from autosparse.tuner.hybrid.schedules import runtime
        from autosparse.tuning.solvers.row_panels import panels

        side_by_side = panels(problem.operation, best.side_by_side)
        for rest in (runtime(problem.operation, "first", AHEAD), runtime(problem.operation)):
            made = Composite(parts=(Part(Rows(best.least), side_by_side), Part(REST, rest)))
            if _native.composite_unsupported(problem.operation, made) is None:
                yield made

    def cost(self, problem: Problem, knobs: object) -> Cost:
        """Return the bytes of the packed copy of `knobs`; the model predicts no seconds, only a ratio."""
        assert isinstance(knobs, Composite)
        item = np.dtype(problem.dtype).itemsize
        n_bytes = _native.composite_bytes(problem.matrix, knobs, item, transposed=problem.transposed)
        return Cost(n_bytes=n_bytes)


DENSE_ROWS: Final = DenseRows()


def offered(problem: Problem, options: Options) -> tuple[tuple[Composite, ...], tuple[Candidate, ...]]:
    """Return the composites to race for `problem`, and this solver with its reason if dense rows do not race.

    Both are empty for a matrix without dense rows. With ``hybrid=True`` they race whatever gain is expected.
    """
    if problem.operation != names.MATMUL or options.deterministic or _division(problem) is None:
        return (), ()
    if options.hybrid is False:
        reason: str | None = "the option hybrid is false"
    else:
        reason = DENSE_ROWS.reason_unable(problem) if options.hybrid else DENSE_ROWS.applicable(problem)
    if reason is not None:
        return (), (Candidate(choice=Choice(NAME), failed=reason),)
    return tuple(DENSE_ROWS.knobs(problem)), ()


def _division(problem: Problem) -> _Division | None:
    """Return the division into dense and other rows with the least expected time; None without dense rows."""
    n_cols = problem.matrix.shape[0 if problem.transposed else 1]
    longest = pattern_facts(problem.matrix, transposed=problem.transposed).max_row  # which ranking needs as well
    if longest < int(CUTS[-1] * n_cols) + 1:
        return None  # most matrices: the lengths of all rows would be megabytes
    lengths = _row_lengths(problem)
    n_bytes = n_cols * problem.n_dense_cols * np.dtype(problem.dtype).itemsize
    unit = 1.0 if n_bytes > problem.target.l2_bytes else number(PRIORS, "resident")
    read, multiply = number(PRIORS, "read"), number(PRIORS, "multiply")
    found = []
    for cut in CUTS:
        least = int(cut * n_cols) + 1
        dense = lengths[lengths >= least]
        if dense.size < MIN_ROWS or dense.size == lengths.size:
            continue
        density = float(dense.mean()) / n_cols
        side_by_side = 8 if density >= FULL and dense.size > 4 else 4
        n_groups = -(-int(dense.size) // side_by_side)
        n_columns = n_groups * n_cols * (1.0 - (1.0 - density) ** min(side_by_side, int(dense.size)))
        n_dense = float(dense.sum())
        in_panels = n_columns * (read * unit + multiply * side_by_side) / unit
        found.append(_Division(least, side_by_side, 1.0 - (n_dense - in_panels) / problem.pattern.nnz))
    return min(found, key=lambda one: one.ratio, default=None)


def _row_lengths(problem: Problem) -> Array:
    """Return the number of entries of each row of op(A)."""
    pattern = problem.matrix
    if not problem.transposed:
        return pattern.row_lengths
    return np.bincount(pattern.indices[: pattern.nnz], minlength=pattern.n_cols)
