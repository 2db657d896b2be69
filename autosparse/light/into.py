"""Public function `matmul`. Light matrices need no other module; the library computes all other products."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosparse import light
from autosparse.light.construct import wrapped_if_scipys

_complete: Callable[..., Any] | None = None  # `arrays.functions.matmul`, once it is imported


def matmul(A: Any, B: Any, *, out: NDArray[Any] | None = None) -> Any:
    """Compute C = A @ B, into `out` when given, and return C.

    Parameters
    ----------
    A
        Sparse matrix of shape (m, k). A matrix that is not autosparse's is wrapped for this call.
    B
        Array of shape (k,) or (k, n).
    out
        Array of shape (m,) or (m, n) and of the product's dtype, into which C is written. Its rows have no gaps between
        elements: it is in C order, or consists of rows of a wider array in C order. Where it overlaps B or the arrays
        of A, C is computed in other memory and copied.

    Returns
    -------
    C, which is `out` when that is given.

    Raises
    ------
    The errors of ``A @ B``; ShapeError, DtypeError or LayoutError if `out` has another shape, dtype or memory layout.

    >>> A, C = asp.csr(sps.eye_array(3, format="csr")), np.empty((3, 2))
    >>> asp.matmul(A, np.ones((3, 2)), out=C) is C
    True
    """
    global _complete
    if _complete is None:
        made = _by_loop(A, B, out) if light.may_be_light() else None
        if made is not None:
            return made
        _complete = importlib.import_module("autosparse.arrays.functions").matmul
    return _complete(A, B, out=out)


def _by_loop(A: Any, B: Any, out: Any) -> Any:
    """Return C = A @ B for a light matrix, or for a small one of SciPy, and an array B; None for other operands."""
    A = wrapped_if_scipys(A)
    is_plain = type(B) is np.ndarray and (out is None or (type(out) is np.ndarray and out.flags.carray))
    if light.rows_of(A) is None or not is_plain:
        return None
    C = A @ B
    if out is None:
        return C
    if type(C) is not np.ndarray or C.shape != out.shape or C.dtype != out.dtype:
        return None
    out[...] = C
    return out
