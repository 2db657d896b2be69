"""Problem: the operation, operands and machine of a computation, without any choice of how it is computed."""

from __future__ import annotations

import numpy as np

from autosparse.core.pattern import Pattern, TensorPattern
from autosparse.core.target import Target
from autosparse.core.values import dataclass


def columns_bucket(n_dense_cols: int) -> int:
    """Return the smallest power of two >= `n_dense_cols`. Widths of one bucket share plans; 1 (SpMV) has its own."""
    return 1 << max(0, n_dense_cols - 1).bit_length()


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Operation on one pattern, for a number of dense columns, a dtype, a number of threads and a target.

    `matmul`: ``C = op(A) @ B`` with op(A) = A or its transpose; `sddmm`: values of ``A ∘ (X @ Yᵀ)``; `mttkrp`: the
    product of a tensor with factors, `mode` as rows; `spgemm`: the product of two sparse matrices, `other` the second
    one's pattern. `n_dense_cols` is the number of columns of the dense operands, 1
    for a vector. `dtype` is the dtype of the computation, the upcast of all operands. `threads` is the maximum number
    of threads of a kernel. Results differ from SciPy's by a rounding of A's values only where `storage` allows it.
    """

    operation: str
    pattern: Pattern | TensorPattern
    transposed: bool
    n_dense_cols: int
    dtype: str
    threads: int
    deterministic: bool
    target: Target
    mode: int = 0
    other: Pattern | None = None  # pattern of a second sparse operand
    storage: str = ""  # type that A's values may be rounded to (setting `storage`), or DICTIONARY: few distinct values

    @property
    def matrix(self) -> Pattern:
        """Pattern of an operation on a matrix."""
        assert isinstance(self.pattern, Pattern), f"{self.operation} is about tensors"
        return self.pattern

    @property
    def tensor(self) -> TensorPattern:
        """Pattern of an operation on a tensor."""
        assert isinstance(self.pattern, TensorPattern), f"{self.operation} is about matrices"
        return self.pattern

    @property
    def result_rows(self) -> int:
        """Number of rows of a dense result, the matrix C or M."""
        return self.pattern.shape[1 if self.transposed else self.mode]

    @property
    def n_flops(self) -> int:
        """Number of multiplications and additions of the product."""
        return len(self.pattern.shape) * self.pattern.nnz * self.n_dense_cols

    @property
    def operand_bytes(self) -> int:
        """Bytes of the sparse operand as the user stores it, the unit of the limit on extra memory."""
        item = np.dtype(self.dtype).itemsize
        return self.pattern.csr_bytes(item) if isinstance(self.pattern, Pattern) else self.pattern.coo_bytes(item)

    @property
    def group(self) -> str:
        """Name of the group of problems whose tunings share an expected gain: operation and bucket of widths."""
        return f"{self.operation}|{columns_bucket(self.n_dense_cols)}"

    @property
    def name(self) -> str:
        """Name of the operation, with its mode where that is not 0."""
        return f"{self.operation}@{self.mode}" if self.mode else self.operation
