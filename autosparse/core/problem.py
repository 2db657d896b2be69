"""Problem: what is to be computed. Never how."""

from __future__ import annotations

import numpy as np

from autosparse.core.pattern import Pattern, TensorPattern
from autosparse.core.target import Target
from autosparse.core.values import dataclass


def columns_bucket(n_dense_cols: int) -> int:
    """Smallest power of two >= `n_dense_cols`: plans are shared by widths of one bucket (1 is its own: SpMV)."""
    return 1 << max(0, n_dense_cols - 1).bit_length()


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One operation on one pattern.

    `matmul`: ``C = op(A) @ B`` with op(A) = A or its transpose; `sddmm`: values of ``A ∘ (X @ Yᵀ)``; `mttkrp`: the
    product of a tensor with factors, `mode` as rows. `n_dense_cols` is the number of columns of the dense operands (1
    for a vector); `dtype` the dtype that is computed in (the upcast of all operands); `threads` the most threads a
    kernel may use. Where values may be rounded (`storage`) the result may differ by that from SciPy's, elsewhere never.
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
    storage: str = (
        ""  # what A's values may be rounded to: the setting of that name; or DICTIONARY: they are of few kinds
    )

    @property
    def matrix(self) -> Pattern:
        """The pattern of an operation on a matrix."""
        assert isinstance(self.pattern, Pattern), f"{self.operation} is about tensors"
        return self.pattern

    @property
    def tensor(self) -> TensorPattern:
        """The pattern of an operation on a tensor."""
        assert isinstance(self.pattern, TensorPattern), f"{self.operation} is about matrices"
        return self.pattern

    @property
    def result_rows(self) -> int:
        """Rows of a dense result, the matrix C or M."""
        return self.pattern.shape[1 if self.transposed else self.mode]

    @property
    def n_flops(self) -> int:
        """Multiplications and additions of the product."""
        return len(self.pattern.shape) * self.pattern.nnz * self.n_dense_cols

    @property
    def operand_bytes(self) -> int:
        """Bytes of the sparse operand as the user has it: the unit of the bound on extra memory."""
        item = np.dtype(self.dtype).itemsize
        return self.pattern.csr_bytes(item) if isinstance(self.pattern, Pattern) else self.pattern.coo_bytes(item)

    @property
    def name(self) -> str:
        """The operation, with its mode where that is not the first."""
        return f"{self.operation}@{self.mode}" if self.mode else self.operation
