"""Comparison: before a kernel serves, its result on the operand beside the default kernel's
(docs/design/cache-and-trust.md).

A compiler that ends well may have made anything. The dense operands are made up, none of their entries is zero or
small, so that no stored entry can be left out unseen; the result is written over NaN, so that nothing that was not
written can be taken for a result. Two sums of the same n products, in whatever order, differ by no more than about
``n * eps * sum |a| |b|``: a kernel whose result differs by more computes something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from autosparse._native import memory, runtime_api
from autosparse.core.formats import DICTIONARY
from autosparse.core.problem import Problem
from autosparse.ops import OPS
from autosparse.tuning.memory.sizes import sized
from autosparse.tuning.trials.operand_adapter import AnyArray, Trustworthy, adapter_of

if TYPE_CHECKING:
    from autosparse.core.composite import Schedule
    from autosparse.dispatch.protocols import Bound
    from autosparse.operands.unfolding import AnyOperand

MAX_COLUMNS: Final = 45
"""... that are compared where the schedule has no column tiles, or one that is wider than the product."""
BESIDE_TILE: Final = 13
"""Columns beside one whole tile: odd, and several powers of two."""
BLOCK: Final = 1 << 16
"""Entries of results that are compared at a time: they stay in the caches."""
STORAGE_ROUNDING: Final = {"": 0.0, DICTIONARY: 0.0, "bfloat16": 2.0**-8, "float16": 2.0**-11}
FIXED_UNITS: Final = 1 << 17
"""What a comparison costs besides, in entries."""


def columns_compared(problem: Problem, schedule: Schedule) -> int:
    """Columns that reach all of a kernel's code: one whole tile of columns and what remains behind it."""
    n, tile = problem.n_dense_cols, schedule.dense_split("j")
    if n == 1 or not tile or tile > n:
        return min(n, MAX_COLUMNS)
    return tile + min(tile - 1, BESIDE_TILE)


def result_rows(problem: Problem) -> int:
    """Rows of the result, or its entries where these are the sparse operand's."""
    if OPS[problem.operation].is_sampled:
        return problem.pattern.nnz
    return problem.result_rows


def kind(problem: Problem, n_columns: int) -> str:
    """Name of the price of a comparison."""
    return sized("compare", problem.pattern.nnz if n_columns == 1 else 0)


def units(problem: Problem, n_columns: int) -> float:
    """What the price of a comparison is proportional to: entries that are read and written."""
    n_results, nnz = result_rows(problem), problem.pattern.nnz
    return FIXED_UNITS + float(nnz + 3 * n_results + sum(problem.pattern.shape)) * n_columns


def difference(problem: Problem, operand: AnyOperand, bound: Bound, schedule: Schedule, n_threads: int) -> str | None:
    """What is wrong with the result of a bound kernel; None when it is the default kernel's within rounding.

    Reads the operand as it is now: a packed copy must be up to date. MemoryError where there is no room for results.
    """
    n_columns = columns_compared(problem, schedule)
    with np.errstate(all="ignore"):  # values may be anything
        default = adapter_of(problem.operation).trustworthy(problem, operand, n_columns, n_threads)
        runtime_api.raise_for(default.call.by_default(n_threads, 0))
        found = _poisoned(default.result)
        if not default.anew(found).by(bound, n_threads):
            is_finite = bool(np.isfinite(default.result).all())
            return "it reports a result that is not finite where it is" if is_finite else UNKNOWABLE
        rounding = STORAGE_ROUNDING[schedule.format.values]
        return _compare(found, default, rounding)


UNKNOWABLE: Final = "its result could not be compared: values of the matrix are not finite"
UNKNOWABLE_NOW: Final = "its result could not be compared: products were reading the packed copy of older values"
INCOMPARABLE: Final = (UNKNOWABLE, UNKNOWABLE_NOW)
"""Nothing is known against the kernel, but it cannot serve."""


def _poisoned(like: AnyArray) -> AnyArray:
    array = memory.empty_scratch(like.shape, like.dtype)
    array.fill(np.nan)
    return array


def _compare(found: AnyArray, default: Trustworthy, rounding: float) -> str | None:
    """Row by row, within twice the bound on the error of one sum."""
    wanted, info = default.result, np.finfo(default.result.dtype)
    # Of limits two digits matter: they are computed in the result's own precision, which loses 1 % at most.
    n_terms = np.asarray(default.n_terms).astype(wanted.dtype) + wanted.dtype.type(4)
    each = (n_terms * info.eps + wanted.dtype.type(rounding)) * wanted.dtype.type(1.01)
    limits = (each * default.sums.astype(wanted.dtype, copy=False) + n_terms * info.tiny).reshape(-1, 1)
    # Where magnitudes overflow, the order of a sum decides what becomes of it.
    is_known = limits < info.max / 4
    step = max(1, BLOCK // max(1, wanted.shape[1]))
    for at in range(0, wanted.shape[0], step):
        part = slice(at, at + step)
        # Not a number, which compares with nothing, was not written.
        is_near = np.abs(found[part] - wanted[part]) <= limits[part]
        if not is_near.all() and (is_off := ~is_near & is_known[part]).any():
            row, column = np.argwhere(is_off)[0]
            mine, theirs = found[at + row, column], wanted[at + row, column]
            return f"{mine:.9g} instead of {theirs:.9g} at row {at + row}, column {column} of the result"
    return None if is_known.any() or not wanted.size else UNKNOWABLE
