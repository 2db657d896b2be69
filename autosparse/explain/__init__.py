"""What runs for a product and why: ``print(A.explain(B))``, ``A.explain(B).html("page.html")``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from autosparse.errors import ShapeError
from autosparse.explain.explanation import Explanation

if TYPE_CHECKING:
    from autosparse.operand import Operand

__all__ = ["Explanation", "explain"]


def explain(operand: Operand, B: Any = 1, *, transposed: bool = False) -> Explanation:
    """Explanation of ``M @ B``, or ``Mᵀ @ B`` when `transposed`; B: the dense operand or its number of columns.

    Runs and tunes nothing. B may be whatever the product takes, so its type is left open. ShapeError (a ValueError)
    when B does not fit, OptionError when a number of columns is not >= 1.
    """
    from autosparse import executor

    columns = B if np.ndim(B) == 0 else _n_columns(operand, np.shape(B), transposed=transposed)
    return Explanation(executor.report(operand, columns, transposed=transposed))


def _n_columns(operand: Operand, shape: tuple[int, ...], *, transposed: bool) -> int:
    """Columns of a dense operand of `shape`; 1 for a vector."""
    M = (operand.n_minor, operand.n_major) if transposed else (operand.n_major, operand.n_minor)
    if len(shape) > 2 or shape[0] != M[1]:
        raise ShapeError.mismatch("matmul: dimension mismatch", left=M, right=shape)
    return 1 if len(shape) == 1 else shape[1]
