"""Matrix product C[i,j] = sum_k op(A)[i,k] * B[k,j]: op(A) is A or its transpose, sparse; B and C are dense.

For vectors there is no j.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from autosparse.core.expression import Access, IndexExpression
from autosparse.ops import names, tuned
from autosparse.ops.base import DeviceProduct, Operation, Words
from autosparse.scalar import COMPLEX, REAL

if TYPE_CHECKING:  # the build, which has no NumPy, emits kernels of this operation
    from numpy.typing import NDArray

    from autosparse.core.pattern import Pattern


def reference(pattern: Pattern, data: NDArray[Any], B: NDArray[Any], *, transposed: bool = False) -> NDArray[Any]:
    """Return SciPy's ``op(A) @ B``, of shape (rows of op(A),) or (rows of op(A), columns of B)."""
    import numpy as np
    import scipy.sparse

    nnz = pattern.nnz
    matrix = scipy.sparse.csr_array((data[:nnz], pattern.indices[:nnz], pattern.indptr), shape=pattern.shape)
    result: NDArray[Any] = np.asarray((matrix.T if transposed else matrix) @ B)
    return result


MATMUL: Final[Operation] = Operation(
    name=names.MATMUL,
    formula="C[i,j] += A[i,k] * B[k,j]",
    expressions=(IndexExpression(Access("C", ("i", "j")), Access("A", ("i", "k")), (Access("B", ("k", "j")),)),),
    reference=reference,
    library="SciPy",
    dtypes=(*REAL, *COMPLEX),
    abilities=frozenset({"transposed", "storage", "rows", "slices"}),
    synonyms=("spmv", "spmm"),
    device=(DeviceProduct(name="spmv", kind="vector"), DeviceProduct(name="matmul", kind="columns")),
    tuning=tuned.MATMUL,
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
        transposed_nest=(
            "parallel for k in rows of A               # equal shares of the nonzeros, each with its own sums",
            "  for i in stored columns of row k",
            "    C[i, :] += A[k, i] * B[k, :]          # A is transposed first where C has many wide rows",
        ),
    ),
)
