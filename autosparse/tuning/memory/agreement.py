"""Comparison of a kernel's result with the default kernel's, entry by entry within the bounds of rounding.

Two sums of the same n products, in any order, differ by at most about ``n * eps * sum |a| |b|``.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

AnyArray = NDArray[Any]  # an array of one native dtype

BLOCK: Final = 1 << 16
"""Maximum number of result entries that are compared at a time; they stay in the caches."""
ROWS: Final = 1 << 13
"""Maximum number of rows, or of summed values, at a time.

Temporary arrays of this size come from memory that the process has; larger ones come from new pages, which take longer
than the comparison.
"""
BESIDE_TILE: Final = 13
"""Maximum number of columns compared beside one whole tile: odd, and a sum of several powers of two."""
UNKNOWABLE: Final = "its result could not be compared: values of the matrix are not finite"


def first_difference(
    found: AnyArray, wanted: AnyArray, sums: AnyArray, n_terms: AnyArray | int, rounding: float = 0.0, *, first: int = 0
) -> str | None:
    """Return a text on the first entry that differs by more than rounding allows; None if there is none.

    `sums` bounds the sum of the absolute values of the products of each row of the result, and `n_terms` is their
    number. `rounding`: additional relative error of values stored in lower precision. `first`: number of the first row.
    """
    info = np.finfo(wanted.dtype)
    real = info.dtype.type
    # Either part of a complex product sums two real products.
    n_products = real(2.0**1.5 if wanted.dtype.kind == "c" else 1.0)
    is_any_known, step = False, max(1, min(ROWS, BLOCK // max(1, wanted.shape[1])))
    for at in range(0, wanted.shape[0], step):
        part = slice(at, at + step)
        # Limits need two digits, so the result's own precision suffices; it loses 1 % at most.
        own_terms = n_terms[part] if isinstance(n_terms, np.ndarray) else np.asarray(n_terms)
        terms = own_terms.astype(info.dtype) * n_products + real(4)
        each = (terms * info.eps + real(rounding)) * real(1.01)
        limits = (each * sums[part].real.astype(info.dtype, copy=False) + terms * info.tiny).reshape(-1, 1)
        # Where magnitudes overflow, the order of summation decides the result.
        is_known = limits < info.max / 4
        is_any_known = is_any_known or bool(is_known.any())
        # An unwritten entry is NaN, which compares unequal.
        is_near = np.abs(found[part] - wanted[part]) <= limits
        if not is_near.all() and (is_off := ~is_near & is_known).any():
            row, column = np.argwhere(is_off)[0]
            value, expected = found[at + row, column], wanted[at + row, column]
            return f"{value:.9g} instead of {expected:.9g} at row {first + at + row}, column {column} of the result"
    return None if is_any_known or not wanted.size else UNKNOWABLE


def row_magnitudes(indptr: AnyArray, values: AnyArray) -> AnyArray:
    """Return the sum of the absolute values of each row, as real numbers, without arrays of the size of `values`."""
    sums = np.zeros(len(indptr) - 1, np.abs(values[:0]).dtype)
    ends = np.searchsorted(indptr, np.arange(0, values.size, ROWS), side="right") - 1  # rows in which blocks begin
    for first, last in itertools.pairwise((*dict.fromkeys(ends.tolist()), len(sums))):
        lengths = np.diff(indptr[first : last + 1])
        is_filled = lengths > 0
        starts = (indptr[first:last] - indptr[first])[is_filled]
        if starts.size:
            block = np.abs(values[indptr[first] : indptr[last]])
            sums[first:last][is_filled] = np.add.reduceat(block, starts)
    return sums
