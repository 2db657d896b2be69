"""Compare a kernel's result with the default kernel's on the operand at hand, before the kernel serves.

A compiler that returns no error may still have produced wrong code. The dense operands are synthetic and have no zero
or small entries, so that a missing stored entry shows. The result is filled with NaN first, so that an unwritten entry
shows. A kernel whose result differs by more than the bounds of rounding (`memory.agreement`) is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from autosparse._native import runtime_api
from autosparse.core.formats import DICTIONARY
from autosparse.core.problem import Problem
from autosparse.ops import OPS
from autosparse.scalar import HALF, SCALARS
from autosparse.tuning.memory.agreement import BESIDE_TILE, UNKNOWABLE, first_difference
from autosparse.tuning.trials.operand_adapter import MAX_ENTRY, adapter_of, sized

if TYPE_CHECKING:
    from autosparse.core.composite import Schedule
    from autosparse.dispatch.protocols import Call
    from autosparse.operands.unfolding import AnyOperand

MAX_COLUMNS: Final = 45
"""Maximum number of columns compared if the schedule has no column tile narrower than the product."""
STORAGE_ROUNDING: Final = {"": 0.0, DICTIONARY: 0.0, **{name: SCALARS[name].rounding for name in HALF}}
"""Relative rounding error of values by their stored type ("" and dictionary-encoded: exact)."""
FIXED_UNITS: Final = 1 << 17
"""Fixed cost of a comparison, expressed in entries."""


def columns_compared(problem: Problem, schedule: Schedule | None) -> int:
    """Return the number of columns of a product that runs all code of the kernel: one whole tile and a remainder."""
    n, tile = problem.n_dense_cols, schedule.dense_split("j") if schedule else 0
    if n == 1 or not tile or tile > n:
        return min(n, MAX_COLUMNS)
    return tile + min(tile - 1, BESIDE_TILE)


def result_rows(problem: Problem) -> int:
    """Return the number of rows of the result, or of stored entries if the result is sampled at them."""
    if OPS[problem.operation].is_sampled:
        return problem.pattern.nnz
    return problem.result_rows


def work(problem: Problem, schedule: Schedule | None) -> tuple[str, float]:
    """Return the name under which the price of a comparison is recorded, and the work to which it is proportional.

    The work is the number of entries read and written, and a constant.
    """
    n_columns, n_results, nnz = columns_compared(problem, schedule), result_rows(problem), problem.pattern.nnz
    entries = float(nnz + 3 * n_results + sum(problem.pattern.shape))
    return sized("compare", nnz if n_columns == 1 else 0), FIXED_UNITS + entries * n_columns


def difference(
    problem: Problem,
    operand: AnyOperand,
    compute: Callable[[Call], bool],
    schedule: Schedule | None,
    n_threads: int,
    *,
    lent: Call | None = None,
) -> str | None:
    """Return a text on how the result of `compute` differs from the default kernel's; None if only by rounding.

    It reads the operand as it is now, so a packed copy must be up to date. `lent`: a synthetic call as it is timed,
    whose dense operands and result take the place of new ones. MemoryError is raised if results do not fit.
    """
    n_columns = columns_compared(problem, schedule)
    lent = lent if n_columns == problem.n_dense_cols else None
    rounding = STORAGE_ROUNDING[schedule.format.values if schedule else ""]
    with np.errstate(all="ignore"):  # values may be inf or NaN
        default = adapter_of(problem.operation).trustworthy(problem, operand, n_columns, n_threads, lent)
        found = default.found
        found.fill(np.nan)
        is_computed, is_any_known = compute(default.call), not found.size
        for part in default.parts:
            runtime_api.raise_for(part.call.by_default(n_threads, 0))
            if not is_computed:
                if not np.isfinite(part.result).all():
                    return UNKNOWABLE
                continue
            mine = found[part.first : part.first + len(part.result)]
            if part.rows and not rounding and runtime_api.rows_agree(part.rows, mine, part.result, MAX_ENTRY):
                is_any_known = True
                continue
            text = first_difference(mine, part.result, *part.bounds(), rounding, first=part.first)
            if text not in {None, UNKNOWABLE}:
                return text
            is_any_known = is_any_known or text is None
    if not is_computed:
        return "it reports a non-finite result where the default kernel's is finite"
    return None if is_any_known else UNKNOWABLE


UNKNOWABLE_NOW: Final = "its result could not be compared: products were reading the packed copy of older values"
INCOMPARABLE: Final = (UNKNOWABLE, UNKNOWABLE_NOW)
"""Reasons that reject a kernel without showing that it is wrong."""
