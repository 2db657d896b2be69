"""Sums, differences and elementwise products of two matrices of one class, by SciPy's loops or the C runtime's.

The entries, their order and bits, and the dtypes are those of SciPy's methods, whose checks take 8 us for each result.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from scipy.sparse import _sparsetools as loops

from autosparse import light
from autosparse.light.adoption import own_part

LOOPS: Final = {"_plus_": np.add, "_minus_": np.subtract, "_elmul_": np.multiply}
"""Functions of NumPy by the names of SciPy's loops whose results have the dtype of the operands."""
COMPARED_FROM: Final = 1 << 12
"""Minimum number of entries of the left matrix for which patterns are compared, which takes 5 us."""
FROM_ENTRIES: Final = 1 << 14
"""Minimum number of entries of the left matrix for which the C runtime merges in less time than SciPy's loop."""


def are_of_a_class(A: Any, B: Any, name: str) -> bool:
    """Return whether B has A's shape and class, which is no user's, and SciPy's loop `name` is one of `LOOPS`."""
    kind = type(A)
    is_plain = type(B) is kind and kind._twin._twin is kind and name in LOOPS
    return is_plain and len(A._shape) == 2 and A._shape == B._shape


def are_alike(A: Any, left: Any, right: Any) -> bool:
    """Return whether results of (indptr, indices, data) of A and of another matrix have the dtypes of these arrays."""
    dtype, index = left[2].dtype, left[1].dtype
    if not (right[2].dtype == dtype and dtype.char in light.PLAIN_TYPES and dtype.isnative):
        return False
    if not left[0].dtype == right[0].dtype == right[1].dtype == index:
        return False
    is_narrow = left[1].size + right[1].size <= light.INT32_MAX
    return is_narrow if index == light.INT32 else index == light.INT64 and isinstance(A, sps.sparray)


def by_loop(name: str, n_minor: int, left: Any, right: Any) -> list[Any]:
    """Return new (indptr, indices, data) of the result of sound operands by SciPy's loop `name`.

    Long arrays are the first parts of others, as those of SciPy's method are, unless more than half would be unused.
    """
    n_both = left[0].item(-1) + right[0].item(-1)
    indptr, indices, data = np.empty_like(left[0]), np.empty(n_both, left[1].dtype), np.empty(n_both, left[2].dtype)
    getattr(loops, f"csr{name}csr")(indptr.size - 1, n_minor, *left, *right, indptr, indices, data)
    nnz = indptr.item(-1)
    if nnz == n_both:
        return [indptr, indices, data]
    parts = indices[:nnz], data[:nnz]
    return [indptr, *(parts if nnz >= max(FROM_ENTRIES, n_both // 2) else (part.copy() for part in parts))]


def of_one_pattern(name: str, left: Any, right: Any, empty: Any) -> list[Any] | None:
    """Return new (indptr, indices, data) of the result where both operands have one pattern, in canonical format.

    `empty` allocates. Return None where patterns differ or results are 0, which SciPy's loops leave out.
    """
    (starts, indices, values), other = left, right[2]
    is_one = starts.item(-1) == indices.size == values.size == other.size and indices.size >= COMPARED_FROM
    is_one = is_one and all(
        one is same or np.array_equal(one, same) for one, same in zip(left[:2], right[:2], strict=True)
    )
    kind = values.dtype.kind
    if not is_one or kind == "b" or (kind == "c" and name == "_elmul_"):  # C multiplies complex infinities differently
        return None
    if not loops.csr_has_canonical_format(starts.size - 1, starts, indices):
        return None
    made = starts.copy(), empty(indices.shape, indices.dtype), empty(values.shape, values.dtype)
    made[1][...] = indices
    with np.errstate(all="ignore"):
        LOOPS[name](values, other, out=made[2])
    return list(made) if np.count_nonzero(made[2]) == indices.size else None


def merged(A: Any, B: Any, name: str) -> Any:
    """Return what SciPy's loop `name` computes of a light matrix A and B; None where SciPy should compute it."""
    if not are_of_a_class(A, B, name):
        return None
    rows, others = light.rows_of(A), light.rows_of(B)
    left, right = (None if one is None else one.sound() for one in (rows, others))
    if rows is None or left is None or right is None:
        return None
    pair = (*left[0], left[1]), (*right[0], right[1])
    if not are_alike(A, *pair):
        return None
    if pair[0][1].size < FROM_ENTRIES:
        return own_part(A, A._shape, by_loop(name, rows.n_minor, *pair))
    start_ns, is_due = perf_counter_ns(), pair[0][1].size >= light.LONG_SUM or light._spent_ns >= light.RUNTIME_NS // 2
    runtime = light.runtime() if is_due or light._native is not None else None
    arrays = of_one_pattern(name, *pair, np.empty if runtime is None else runtime.empty)
    if arrays is None and runtime is not None:
        arrays = runtime.sum_of(name, pair, runtime.empty, 0)
    if arrays is None and pair[0][1].size >= light.LONG_SUM:
        return None  # a light matrix of the first parts of arrays would be a copy of them
    made = own_part(A, A._shape, arrays or by_loop(name, rows.n_minor, *pair))
    light.count(start_ns, share=1 if runtime is None else light.SPARSE_SHARE)
    return made
