"""Schedules of the runtime's loops that explicit searches race whatever the models predict; they need no compiler.

They are panels of single rows, rows in other orders, and composites of both in one sweep over B: all parts read one
panel of rows of B in turn. Rows with a few entries in every panel are computed one at a time, on tiles of B copied into
the cache, and the densest of them four side by side. All other rows follow in the order of their first column, whose
row of B the current panel has just brought into the L2 cache. `dense_rows` has composites of dense rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from autosparse import _native
from autosparse.config import Effort
from autosparse.core.composite import REST, Composite, Part, Rows, Schedule
from autosparse.core.formats import Format
from autosparse.core.pattern import Pattern
from autosparse.core.problem import Problem
from autosparse.core.schedule import RUNTIME, SuperSchedule
from autosparse.ops import OPS
from autosparse.scalar import REAL
from autosparse.tuner.hybrid.partitions import MIN_COLUMNS, MIN_NNZ, MIN_SHARE
from autosparse.tuner.hybrid.schedules import runtime
from autosparse.tuner.search.style import WIDE
from autosparse.tuning.trials.context import TuningContext

PANEL: Final = 256
"""Number of columns of A, hence rows of B, in a panel."""
AHEAD: Final = 8
"""Prefetch distance of the rows outside panels, in entries."""
RESIDENT: Final = (2, 4)
"""Minimum mean number of entries of a row per panel for which the row may be stored in single-row panels."""
RESIDENT_READS: Final = 4
"""Minimum number of reads per row of B by these rows for which copying B pays off (`runtime/matmul/blocks.c`)."""
SIDE_BY_SIDE: Final = 1 / 8
"""Minimum fill of a row for storing it beside three others instead of in a single-row panel."""
MIN_ORDERED: Final = 10_000
"""Minimum number of stored entries for which schedules with permuted rows race; smaller operands stay in cache."""


def of_the_runtime(context: TuningContext, *, effort: Effort, known: object) -> list[Schedule]:
    """Return the schedules of loops of the runtime to race for the problem; `known` is a remembered plan's schedule."""
    problem, tuning = context.problem, OPS[context.problem.operation].tuning
    if not tuning.runtime_loops or problem.storage or problem.dtype not in REAL:
        return []
    composed = composites(context, effort=effort, known=known) if tuning.panel_loops else []
    if problem.pattern.nnz < MIN_ORDERED:
        return [*composed]
    others = (*ordered(problem), *(in_panels(problem) if tuning.panel_loops else ()))
    supported = (one for one in others if context.supports(problem.operation, one) is None)
    return [*composed, *(one for one in supported if context.loaded(one) is not None)]


def ordered(problem: Problem) -> tuple[SuperSchedule, ...]:
    """Return schedules of loops over rows in other orders; composites must beat them.

    In products with many columns and in sampled ones, reads of rows of the dense operand may take all of the time where
    it exceeds L2: then reverse Cuthill-McKee order races, too, because models do not predict its gain.
    """
    is_matmul = bool(OPS[problem.operation].tuning.panel_loops)
    is_wide = problem.n_dense_cols >= WIDE or not is_matmul
    always = ("degree", "first") if is_matmul else ()
    reusing = ("first", "rcm") if is_wide and _is_streaming(problem, _view(problem)) else ()
    return tuple(runtime(problem.operation, order) for order in dict.fromkeys((*always, *reusing)))


def in_panels(problem: Problem) -> tuple[SuperSchedule, ...]:
    """Return the schedule of single-row panels if B exceeds L2 and most rows suit it, else none."""
    if problem.n_dense_cols < MIN_COLUMNS:
        return ()
    view = _view(problem)
    is_fit = _is_streaming(problem, view) and stands_in_panels(view, problem.n_dense_cols)
    return (panels(problem.operation, 1),) if is_fit else ()


def composites(context: TuningContext, *, effort: Effort, known: object) -> list[Composite]:
    """Return composites of rows in panels and other rows, `known` first if it is one.

    Without ``hybrid=True``, only full searches race others, for matrices and widths that can gain.
    """
    problem, wish = context.problem, context.options.hybrid
    if wish is False:
        return []
    found = [known] if isinstance(known, Composite) else []
    is_large = problem.pattern.nnz > MIN_NNZ and problem.n_dense_cols >= MIN_COLUMNS
    if wish is None and not (effort is Effort.FULL and is_large):
        return found
    view = _view(problem)
    made = resident_composites(problem.operation, view, problem.n_dense_cols) if _is_streaming(problem, view) else []
    return [*found, *(one for one in made if one not in found and context.is_built(one))]


def _view(problem: Problem) -> Pattern:
    """Return the pattern of op(A) in compressed rows."""
    return _native.View.of(problem.matrix, transposed=problem.transposed).pattern


def _is_streaming(problem: Problem, view: Pattern) -> bool:
    """Return whether B exceeds the L2 cache of a core."""
    n_bytes: int = view.n_cols * problem.n_dense_cols * np.dtype(problem.dtype).itemsize
    return n_bytes > problem.target.l2_bytes


def panels(operation: str, n_rows: int) -> SuperSchedule:
    """Return the schedule of the runtime's loops over column panels, with `n_rows` rows (1, 4 or 8) side by side."""
    fmt = f"k1:U,i1:U,k0:C,i0:U | i={n_rows},k={PANEL}" if n_rows > 1 else f"k1:U,i1:U,k0:C | k={PANEL}"
    loops = ("k1", "i1", "k0", "i0")[: 4 if n_rows > 1 else 3]
    return SuperSchedule(operation=operation, format=Format.parse(fmt), loop_order=loops, implementation=RUNTIME)


def resident_share(pattern: Pattern, n_dense_cols: int) -> float:
    """Return the fraction of entries in rows long enough for single-row panels; 0 if copying B would not pay."""
    taken = pattern.row_lengths[pattern.row_lengths >= _resident_cut(pattern, RESIDENT[0])]
    n_entries, is_wide = int(taken.sum()), n_dense_cols >= MIN_COLUMNS
    return (
        n_entries / pattern.nnz if is_wide and taken.size > 1 and n_entries >= RESIDENT_READS * pattern.n_cols else 0.0
    )


def stands_in_panels(pattern: Pattern, n_dense_cols: int) -> bool:
    """Return whether most rows are fit for single-row panels, so that the whole matrix races in that format."""
    half = len(pattern.row_lengths) // 2
    n_resident = int((pattern.row_lengths >= _resident_cut(pattern, RESIDENT[0])).sum())
    return resident_share(pattern, n_dense_cols) > 0.0 and n_resident > half


def resident_composites(operation: str, pattern: Pattern, n_dense_cols: int) -> list[Composite]:
    """Return composites of rows long enough for single-row panels and the rest, most promising first.

    The list is empty if these rows hold too few or all of the entries, or if nearly all of them are dense.
    """
    share, cut = resident_share(pattern, n_dense_cols), _resident_cut(pattern, RESIDENT[0])
    lengths = pattern.row_lengths
    n_between = int(lengths[(lengths >= cut) & (lengths < _dense_cut(pattern))].sum())
    if share in {0.0, 1.0} or n_between < MIN_SHARE * pattern.nnz:
        return []
    rest = Part(REST, runtime(operation, "first", AHEAD))
    made = (Composite(parts=(*parts, rest)) for parts in _resident_parts(operation, pattern))
    return [one for one in made if _native.composite_unsupported(operation, one) is None]


def _dense_cut(pattern: Pattern) -> int:
    return int(SIDE_BY_SIDE * pattern.n_cols) + 1


def _resident_cut(pattern: Pattern, n_entries: int) -> int:
    return max(2, -(-n_entries * pattern.n_cols // PANEL))


def _resident_parts(operation: str, pattern: Pattern) -> Iterator[tuple[Part, ...]]:
    """Yield lists of parts that store these rows: all in single-row panels, or the denser ones in panels of four."""
    one, four = panels(operation, 1), panels(operation, 4)
    dense = _dense_cut(pattern)
    n_dense = int((pattern.row_lengths >= dense).sum())
    for cut in dict.fromkeys(_resident_cut(pattern, n_entries) for n_entries in RESIDENT):
        yield (Part(Rows(cut), one),)
        if n_dense >= 2 and cut < dense:
            yield Part(Rows(dense), four), Part(Rows(cut, dense - 1), one)
