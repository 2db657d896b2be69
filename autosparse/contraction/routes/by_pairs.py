"""Route for einsums of several matrices by products of pairs, which `light.pairs` plans."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import scipy.sparse as sps

from autosparse.config import get_options
from autosparse.contraction.kinds import OperandKind, arrays_of
from autosparse.contraction.routes import elementwise as by_entry
from autosparse.contraction.routes import existing
from autosparse.contraction.subscripts import Subscripts
from autosparse.light import pairs
from autosparse.light.expressions import COMMON, EXACT, FOR_FINITE, run

NOMINAL_BITS: Final = 10
"""Number of bits of the number of entries with which it is decided whether a plan exists."""


class _TooLargeError(Exception):
    """Exception for an intermediate product of two sparse matrices with more than `existing.MAX_PRODUCTS` terms."""


def direct(kinds: Sequence[OperandKind], subscripts: Subscripts, dtype: np.dtype[Any]) -> existing.Direct | None:
    """Return the route by products of pairs, or None if these do not lead to the result."""
    is_large = max(subscripts.extents.values(), default=0) > existing.MAX_PLACES
    if is_large or dtype.char not in existing.OF_SCIPY or any(kind.is_tensor for kind in kinds):
        return None
    n_bits = tuple(NOMINAL_BITS if kind.is_sparse else -1 for kind in kinds)
    if pairs.plan(subscripts.inputs, subscripts.output, tuple(kind.shape for kind in kinds), n_bits) is None:
        return None
    compute = functools.partial(_result, subscripts.inputs, subscripts.output, dtype)
    route = existing.Route(compute, "products and sums of one or two operands at a time", begins=True)
    return existing.Direct(route, tuple(range(len(kinds))), dtype)


def _result(inputs: tuple[str, ...], output: str, dtype: np.dtype[Any], *operands: Any) -> Any:
    """Return the einsum by a plan for these numbers of entries; None where it might not be einsum's, or is too large.

    Options `deterministic` exclude it, because results of a BLAS depend on its threads.
    """
    n_bits = tuple(_size(one).bit_length() if sps.issparse(one) else -1 for one in operands)
    plan = pairs.plan(inputs, output, tuple(one.shape for one in operands), n_bits)
    if plan is None or get_options().deterministic:
        return None
    if plan[1] == FOR_FINITE and not all(map(existing.is_finite, operands)):
        return None
    try:
        found = run(plan, [_ours(one) if sps.issparse(one) and one.ndim == 2 else one for one in operands], _STEPS)
    except _TooLargeError:
        return None
    found = found if found.dtype == dtype else found.astype(dtype)
    found = found if sps.issparse(found) else np.asarray(found)
    return found if plan[1] == EXACT or existing.is_finite(found) else None


def _size(A: Any) -> int:
    """Return the number of stored entries of CSR, CSC, or a vector."""
    return int(arrays_of(A)[1].size if A.ndim == 2 else A.nnz)


def _ours(A: Any) -> Any:
    """Return a CSR or CSC matrix as one of this library over the same arrays, without a conversion."""
    return existing.ours(A.T).T if A.format == "csc" else existing.ours(A)


def _product(A: Any, B: Any, is_left_turned: bool, is_right_turned: bool, is_inner: bool) -> Any:
    left, right = (A.T if is_left_turned else A).tocsr(), (B.T if is_right_turned else B).tocsr()
    if is_inner and existing.n_products(left, right) > existing.MAX_PRODUCTS:
        raise _TooLargeError
    return existing.product(left, right)


_STEPS: Final[Mapping[str, Callable[..., Any]]] = {
    **COMMON,
    "sampled": pairs.sampled,
    "outer": pairs.outer,
    "sums": lambda A, of_columns: (by_entry.column_sums if of_columns else by_entry.row_sums)(A),
    "total": by_entry.total,
    "product": _product,
    "multiply": lambda A, B, is_turned: by_entry.product(A, B.T if is_turned else B),
    "entries": lambda A, X, is_turned: by_entry.at_entries(A, X.T if is_turned else X),
    "scale": lambda A, x, of_rows: (by_entry.rows_scaled if of_rows else by_entry.columns_scaled)(A, x),
    "rows": lambda A, is_turned: existing.ours(by_entry.by_rows(A.T.tocsr()) if is_turned else A.tocsr()),
}
"""Functions of the steps of plans, for complete matrices."""
