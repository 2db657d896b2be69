"""Compare a kernel's result with the default kernel's on the operand at hand, before the kernel serves.

A compiler that returns no error may still have produced wrong code. The dense operands are synthetic and have no zero
or small entries, so that a missing stored entry shows. The result is filled with NaN first, so that an unwritten entry
shows. Two sums of the same n products, in any order, differ by at most about ``n * eps * sum |a| |b|``: a kernel with
a larger difference is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from autosparse._native import memory, runtime_api
from autosparse.core.formats import DICTIONARY
from autosparse.core.problem import Problem
from autosparse.ops import OPS
from autosparse.scalar import HALF, SCALARS
from autosparse.tuning.memory.sizes import sized
from autosparse.tuning.trials.operand_adapter import AnyArray, Trustworthy, adapter_of

if TYPE_CHECKING:
    from autosparse.core.composite import Schedule
    from autosparse.dispatch.protocols import Call
    from autosparse.operands.unfolding import AnyOperand

MAX_COLUMNS: Final = 45
"""Maximum number of columns compared if the schedule has no column tile narrower than the product."""
BESIDE_TILE: Final = 13
"""Maximum number of columns compared beside one whole tile: odd, and a sum of several powers of two."""
BLOCK: Final = 1 << 16
"""Number of result entries compared at a time; they stay in the caches."""
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


def kind(problem: Problem, n_columns: int) -> str:
    """Return the name under which the price of a comparison is recorded."""
    return sized("compare", problem.pattern.nnz if n_columns == 1 else 0)


def units(problem: Problem, n_columns: int) -> float:
    """Return the work of a comparison, to which its price is proportional: entries read and written, and a constant."""
    n_results, nnz = result_rows(problem), problem.pattern.nnz
    return FIXED_UNITS + float(nnz + 3 * n_results + sum(problem.pattern.shape)) * n_columns


def difference(
    problem: Problem, operand: AnyOperand, compute: Callable[[Call], bool], schedule: Schedule | None, n_threads: int
) -> str | None:
    """Return a text on how the result of `compute` differs from the default kernel's; None if only by rounding.

    It reads the operand as it is now, so a packed copy must be up to date. MemoryError is raised if results do not
    fit.
    """
    n_columns = columns_compared(problem, schedule)
    with np.errstate(all="ignore"):  # values may be inf or NaN
        default = adapter_of(problem.operation).trustworthy(problem, operand, n_columns, n_threads)
        runtime_api.raise_for(default.call.by_default(n_threads, 0))
        found = _poisoned(default.result)
        if not compute(default.anew(found)):
            is_finite = bool(np.isfinite(default.result).all())
            return "it reports a non-finite result where the default kernel's is finite" if is_finite else UNKNOWABLE
        rounding = STORAGE_ROUNDING[schedule.format.values if schedule else ""]
        return _compare(found, default, rounding)


UNKNOWABLE: Final = "its result could not be compared: values of the matrix are not finite"
UNKNOWABLE_NOW: Final = "its result could not be compared: products were reading the packed copy of older values"
INCOMPARABLE: Final = (UNKNOWABLE, UNKNOWABLE_NOW)
"""Reasons that reject a kernel without showing that it is wrong."""


def _poisoned(like: AnyArray) -> AnyArray:
    array = memory.empty_scratch(like.shape, like.dtype)
    array.fill(np.nan)
    return array


def _compare(found: AnyArray, default: Trustworthy, rounding: float) -> str | None:
    """Return a text on the first entry that differs by more than rounding allows; None if there is none.

    `rounding`: additional relative error of values stored in lower precision.
    """
    wanted, info = default.result, np.finfo(default.result.dtype)
    # Limits need two digits, so the result's own precision suffices; it loses 1 % at most.
    real = info.dtype.type
    # Either part of a complex product sums two real products.
    n_products = real(SCALARS[wanted.dtype.name].n_parts ** 1.5)
    n_terms = np.asarray(default.n_terms).astype(info.dtype) * n_products + real(4)
    each = (n_terms * info.eps + real(rounding)) * real(1.01)
    limits = (each * default.sums.real.astype(info.dtype, copy=False) + n_terms * info.tiny).reshape(-1, 1)
    # Where magnitudes overflow, the order of summation decides the result.
    is_known = limits < info.max / 4
    step = max(1, BLOCK // max(1, wanted.shape[1]))
    for at in range(0, wanted.shape[0], step):
        part = slice(at, at + step)
        # An unwritten entry is NaN, which compares unequal.
        is_near = np.abs(found[part] - wanted[part]) <= limits[part]
        if not is_near.all() and (is_off := ~is_near & is_known[part]).any():
            row, column = np.argwhere(is_off)[0]
            mine, theirs = found[at + row, column], wanted[at + row, column]
            return f"{mine:.9g} instead of {theirs:.9g} at row {at + row}, column {column} of the result"
    return None if is_known.any() or not wanted.size else UNKNOWABLE
