"""SpGEMM: C[i,j] = sum_k A[i,k] * B[k,j], all three sparse, row by row. No kernels are generated yet."""

from __future__ import annotations

from typing import Any, Final

from autosparse.core.expression import Access, IndexExpression
from autosparse.ops import names
from autosparse.ops.base import Operation
from autosparse.scalar import COMPLEX, REAL


def reference(A: Any, B: Any) -> Any:  # Any: SciPy's sparse arrays
    """Return SciPy's product of two sparse arrays."""
    return A @ B


SPGEMM: Final[Operation] = Operation(
    name=names.SPGEMM,
    formula="C[i,j] += A[i,k] * B[k,j], all sparse",
    expressions=(
        IndexExpression(
            Access("C", ("i", "j")),
            Access("A", ("i", "k")),
            (),
            more_sparse=(Access("B", ("k", "j")),),
            sparse_output=True,
        ),
    ),
    reference=reference,
    library="SciPy",
    packed="",
    dtypes=(*REAL, *COMPLEX),
)
