"""Problem: what is to be computed. Never how."""

from __future__ import annotations

from dataclasses import dataclass

from autosparse.pattern import Pattern
from autosparse.target import Target


def columns_bucket(n_dense_cols: int) -> int:
    """Smallest power of two >= `n_dense_cols`: plans are shared by widths of one bucket (1 is its own: SpMV)."""
    return 1 << max(0, n_dense_cols - 1).bit_length()


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One operation on one pattern: ``C = op(A) @ B`` with op(A) = A or its transpose, for `matmul`.

    `n_dense_cols` is the number of columns of the dense operand (1 for a vector); `dtype` the dtype that is computed
    in (the upcast of both operands); `threads` the most threads a kernel may use.
    """

    operation: str
    pattern: Pattern
    transposed: bool
    n_dense_cols: int
    dtype: str
    threads: int
    deterministic: bool
    target: Target

    @property
    def result_shape(self) -> tuple[int, int]:
        """Shape of C."""
        rows = self.pattern.n_cols if self.transposed else self.pattern.n_rows
        return rows, self.n_dense_cols

    @property
    def n_flops(self) -> int:
        """Multiplications and additions of the product."""
        return 2 * self.pattern.nnz * self.n_dense_cols
