"""Matrix product C[i,j] = sum_k op(A)[i,k] * B[k,j]: op(A) is A or its transpose, sparse; B and C are dense.

For vectors there is no j.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse.core.expression import Access, IndexExpression
from autosparse.core.pattern import Pattern
from autosparse.ops import names
from autosparse.ops.base import COMPLEX, REAL, Collected, DeviceProduct, Operation, Words


def reference(pattern: Pattern, data: NDArray[Any], B: NDArray[Any], *, transposed: bool = False) -> NDArray[Any]:
    """Return SciPy's ``op(A) @ B``, of shape (rows of op(A),) or (rows of op(A), columns of B)."""
    import scipy.sparse

    nnz = pattern.nnz
    matrix = scipy.sparse.csr_array((data[:nnz], pattern.indices[:nnz], pattern.indptr), shape=pattern.shape)
    result: NDArray[Any] = np.asarray((matrix.T if transposed else matrix) @ B)
    return result


def is_model_stale(n_rows: int, nnz: int, n_dense_cols: int) -> bool:
    """Return whether the default kernel uses a second thread here, but did not when models were trained."""
    return n_dense_cols == 1 and 6_000 <= 0.45 * nnz + 0.6 * n_rows < 18_000  # its serial nanoseconds, as in matmul.c


MATMUL: Final[Operation] = Operation(
    name=names.MATMUL,
    formula="C[i,j] += A[i,k] * B[k,j]",
    expressions=(IndexExpression(Access("C", ("i", "j")), Access("A", ("i", "k")), (Access("B", ("k", "j")),)),),
    reference=reference,
    library="SciPy",
    dtypes=(*REAL, *COMPLEX),
    abilities=frozenset({"transposed", "storage", "rows", "symmetric", "slices"}),
    synonyms=("spmv", "spmm"),
    runtime_loops="asp_ready_kernel",
    block_loops="asp_ready_blocks",
    panel_loops="asp_ready_row_panels",
    model="matrix_product",
    parts="products",
    device=(DeviceProduct(name="spmv", kind="vector"), DeviceProduct(name="matmul", kind="columns")),
    # Expected gains before this machine has measured any. Products with a vector gain from rows as vector lanes,
    # smaller indices and blocks. Wide products gain from blocks, shared rows of B and column tiles.
    gain_prior={1: 0.31, 2: 0.10, 16: 0.08, 128: 0.06},
    estimate_prior={1: 0.30, 2: 0.05, 16: 0.05, 128: 0.07},
    # The statistics model errs by about 20 %. Seven wide products for which it predicted savings of 20 to 25 % saved
    # nothing on average.
    statistics_margins={1: 0.20, 128: 0.30},
    # Wide products for which the learned model predicted savings of 10 to 20 % saved -14 to 15 %. For 8 columns its
    # predictions are more accurate.
    learned_margins={1: 0.10, 2: 0.05, 9: 0.20},
    agreed_margins={128: 0.10},
    is_model_stale=is_model_stale,
    learned_names={1: "spmv", 2: "spmm8", 9: "spmm32", 91: "spmm256"},
    algorithms={"spmv": "vector", "spmm": "columns"},
    collected=(
        Collected(name="spmv", algorithm="spmv", n_dense_cols=1),
        Collected(name="spmm32", algorithm="spmm", n_dense_cols=32),
        Collected(name="spmm256", algorithm="spmm", n_dense_cols=256),
        Collected(name="spmm4", algorithm="spmm", n_dense_cols=4, model="spmm8"),
        Collected(name="spmm8", algorithm="spmm", n_dense_cols=8),
        Collected(name="spmm64", algorithm="spmm", n_dense_cols=64, model="spmm32"),
        Collected(name="spmm128", algorithm="spmm", n_dense_cols=128, model="spmm256"),
    ),
    words=Words(
        title="{A} @ B, B {width}",
        dense="B",
        statement="C[i, j] += A[i, k] * B[k, j]",
        dense_shapes="{n_cols} x {n_vecs}",
        default_nest=(
            "parallel for i in rows                    # equal shares of the nonzeros",
            "  for j1 in tiles of the columns of B     # a tile of the row of C stays in registers",
            "    for k in stored columns of row i",
            "      C[i, j] += A[i, k] * B[k, j]",
        ),
    ),
)
