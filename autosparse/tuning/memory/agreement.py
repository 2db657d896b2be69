"""Comparison of a kernel's result with the default kernel's, entry by entry within the bounds of rounding.

Two sums of the same n products, in any order, differ by at most about ``n * eps * sum |a| |b|``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

AnyArray = NDArray[Any]  # an array of one native dtype

BLOCK: Final = 1 << 16
"""Number of result entries compared at a time; they stay in the caches."""
UNKNOWABLE: Final = "its result could not be compared: values of the matrix are not finite"


def first_difference(
    found: AnyArray, wanted: AnyArray, sums: AnyArray, n_terms: AnyArray | int, rounding: float = 0.0
) -> str | None:
    """Return a text on the first entry that differs by more than rounding allows; None if there is none.

    `sums` bounds the sum of the absolute values of the products of each row of the result, and `n_terms` is their
    number. `rounding`: additional relative error of values stored in lower precision.
    """
    info = np.finfo(wanted.dtype)
    real = info.dtype.type
    # Either part of a complex product sums two real products.
    n_products = real(2.0**1.5 if wanted.dtype.kind == "c" else 1.0)
    # Limits need two digits, so the result's own precision suffices; it loses 1 % at most.
    terms = np.asarray(n_terms).astype(info.dtype) * n_products + real(4)
    each = (terms * info.eps + real(rounding)) * real(1.01)
    limits = (each * sums.real.astype(info.dtype, copy=False) + terms * info.tiny).reshape(-1, 1)
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
