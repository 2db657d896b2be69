"""SDDMM: S[i,k] = A[i,k] * sum_j X[i,j] * Y[k,j] at A's stored entries; X and Y dense by rows, S with A's pattern.

Only the sampled dot products are computed. Duplicates and explicit zeros of A stay separate entries. Users pass the
second dense operand as Yᵀ, of shape (j, k); Y here has its rows (WACO §5, TACO).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse.core.expression import Access, IndexExpression
from autosparse.core.pattern import Pattern
from autosparse.ops import names, tuned
from autosparse.ops.base import DeviceProduct, Operation, Words
from autosparse.scalar import COMPLEX, DOUBLE

AnyArray = NDArray[Any]  # Any: one native dtype

FEW: Final = 4
"""Minimum ratio of rows to entries for which an operand that must be copied is copied only where entries need it."""
BLOCK_BYTES: Final = 1 << 24
"""Maximum bytes of gathered rows that `dots` holds at a time."""


def sample(pattern: Pattern, X: AnyArray, Y: AnyArray, *, threads: int = 0, flags: int = 0) -> AnyArray:
    """Compute <X[i, :], Y[k, :]> for each stored (i, k), without conjugation; X (n_rows, K), Y (n_cols, K) → (nnz,).

    X and Y have one native dtype; rows are copied unless their entries are adjacent. `flags`: flags of the C runtime.
    """
    from autosparse._native import runtime_api
    from autosparse.operands.dense import by_rows, row_step

    if X.shape[0] != pattern.n_rows or Y.shape != (pattern.n_cols, X.shape[1]) or X.dtype != Y.dtype:
        raise ValueError(f"pattern {pattern.shape}, X {X.shape} {X.dtype} and Y {Y.shape} {Y.dtype} do not fit")
    X, Y = by_rows(X, threads=threads), by_rows(Y, threads=threads)
    pointer, nnz = runtime_api.pointer, pattern.nnz
    values = np.empty(nnz, dtype=X.dtype)
    scale = runtime_api.ffi.new(f"{DOUBLE.c}[4]", [1.0, 0.0, 0.0, 0.0])
    status = runtime_api.lib.asp_sddmm(
        runtime_api.DTYPE_CODES[X.dtype.name], runtime_api.INDEX_CODES[pattern.index_dtype], *pattern.shape,
        pointer(pattern.indptr), pointer(pattern.indices), nnz, pointer(X), row_step(X), pointer(Y), row_step(Y),
        X.shape[1], 1, scale, runtime_api.ffi.NULL, pointer(values), threads, flags,
    )  # fmt: skip
    runtime_api.raise_for(status)
    return values


def with_few_rows(pattern: Pattern, X: AnyArray, Y: AnyArray) -> tuple[Pattern, AnyArray, AnyArray]:
    """Return the problem restricted to rows of X and Y that entries name, where copying all rows would cost more."""
    from autosparse.operands.dense import has_rows

    nnz = pattern.nnz
    if not has_rows(X) and FEW * nnz <= pattern.n_rows:
        rows = np.flatnonzero(pattern.row_lengths)
        starts = np.append(pattern.indptr[:-1][rows], pattern.indptr[-1:])
        pattern, X = Pattern(rows.size, pattern.n_cols, starts, pattern.indices), np.take(X, rows, axis=0)
    if not has_rows(Y) and FEW * nnz <= pattern.n_cols:
        Y = np.take(Y, pattern.indices[:nnz], axis=0)
        pattern = Pattern(pattern.n_rows, nnz, pattern.indptr, np.arange(nnz, dtype=pattern.indptr.dtype))
    return pattern, X, Y


def dots(pattern: Pattern, X: AnyArray, Y: AnyArray) -> AnyArray:
    """Compute `sample` by NumPy, in any dtype: pairs of rows are gathered, some at a time."""
    rows = pattern.rows_of_entries()
    columns = pattern.indices[: pattern.nnz]
    values: AnyArray = np.empty(pattern.nnz, dtype=np.result_type(X, Y))
    step = max(1, BLOCK_BYTES // max(1, X.shape[1] * X.itemsize))
    for at in range(0, pattern.nnz, step):
        part = slice(at, at + step)
        values[part] = np.einsum("pj,pj->p", X[rows[part]], Y[columns[part]])
    return values


def reference(pattern: Pattern, data: AnyArray, X: AnyArray, Y: AnyArray) -> AnyArray:
    """Compute the values of S by NumPy; Y is given by rows, as for kernels."""
    values: AnyArray = data[: pattern.nnz] * dots(pattern, X, Y)
    return values


SDDMM: Final[Operation] = Operation(
    name=names.SDDMM,
    formula="S[i,k] = A[i,k] * X[i,j] * Y[k,j]",
    expressions=(
        IndexExpression(
            Access("O", ("i", "k")),
            Access("A", ("i", "k")),
            (Access("X", ("i", "j")), Access("Y", ("k", "j"))),
            sampled=True,
        ),
    ),
    reference=reference,
    library="NumPy",
    packed="structure",
    default_dtypes=COMPLEX,
    abilities=frozenset({"rows"}),
    device=(DeviceProduct(name="sddmm", kind="sampled"),),
    tuning=tuned.SDDMM,
    words=Words(
        title="A ∘ (X @ Y), X {width}",
        dense="X, Y",
        statement="S[i, k] += A[i, k] * X[i, j] * Y[k, j]",
        dense_shapes="{n_rows} x {n_vecs}, {n_vecs} x {n_cols}",
        default_nest=(
            "parallel for p in stored entries (i, k)   # 32 at a time, the next ones fetched meanwhile",
            "  for j in columns of X                   # four entries together, vectors along j",
            "    S[p] += A[p] * X[i, j] * Y[k, j]",
        ),
    ),
)
