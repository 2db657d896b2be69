"""C[i,j] = sum_k op(A)[i,k] * B[k,j], op(A) sparse (A or its transpose), B and C dense (j absent for vectors)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse.core.pattern import Pattern
from autosparse.ops.base import Operation


def reference(pattern: Pattern, data: NDArray[Any], B: NDArray[Any], *, transposed: bool = False) -> NDArray[Any]:
    """SciPy's answer: ``op(A) @ B``, shape (rows of op(A),) or (rows of op(A), columns of B)."""
    import scipy.sparse

    nnz = pattern.nnz
    matrix = scipy.sparse.csr_array((data[:nnz], pattern.indices[:nnz], pattern.indptr), shape=pattern.shape)
    result: NDArray[Any] = np.asarray((matrix.T if transposed else matrix) @ B)
    return result


MATMUL: Final = Operation(
    name="matmul",
    expression="C[i,j] += A[i,k] * B[k,j]",
    dense_index="j",
    reference=reference,
    # Before anything was measured here: vector products gain from rows as vector lanes, smaller indices and blocks,
    # wide ones from blocks, shared rows of B and column tiles.
    gain_prior={1: 0.31, 2: 0.10, 16: 0.08, 128: 0.06},
    estimate_prior={1: 0.30, 2: 0.05, 16: 0.05, 128: 0.07},
)
