"""Data that solves derive from the values of a matrix and keep with it: copies in another dtype, norms.

A float32 matrix with a float64 right-hand side, an integer matrix, and the conjugate of a complex matrix each need a
copy. The copy is kept until the matrix is freed, so that later solves find it tuned. Written values are copied again at
the next solve. A changed structure needs a new copy.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from autosparse.light.matrices import Slots
from autosparse.linalg.solves.solve import operand_of
from autosparse.linalg.solves.workspace import Conversion, memory_of

if TYPE_CHECKING:
    from autosparse.operands.csr import Operand

Fact = TypeVar("Fact")


def converted(A: Any, dtype: np.dtype[Any], *, is_conjugated: bool = False) -> Any:  # Any: autosparse arrays
    """Return A, or its conjugate, with values of `dtype`: A itself where nothing differs, else the kept copy of A.

    The library is loaded for a copy.
    """
    is_conjugated = is_conjugated and A.dtype.kind == "c"
    if A.dtype == dtype and not is_conjugated:
        return A
    from autosparse.arrays import construct

    matrix: Any = A  # its classes get SciPy's attributes when they are made
    operand: Operand = A._cell
    operand.refresh()
    conversions, key = memory_of(operand).conversions, (dtype.char, is_conjugated)
    kept = conversions.get(key)
    if kept is None or kept.structure_version != operand.structure_version:
        matrix = A.astype(dtype)
        kept = conversions[key] = Conversion(
            construct.wrapped(matrix.conj() if is_conjugated else matrix),
            operand.structure_version,
            operand.values_version,
        )
    elif kept.values_version != operand.values_version:
        values = operand.data[: operand.nnz]
        kept.matrix.data[: operand.nnz] = values.conj() if is_conjugated else values
        kept.values_version = operand.values_version
    return kept.matrix if kept.matrix.format == A.format else kept.matrix.T


def remembered(
    A: Any, name: Hashable, find: Callable[[], Fact], *, of_values: bool = True
) -> Fact:  # Any: whatever solvers take
    """Return `find()`; for a complete autosparse array it is called once per version of structure and values.

    With `of_values` False the result depends on the structure alone and is kept when values change. The result must not
    refer to the array itself.
    """
    operand = operand_of(A) if isinstance(A, Slots) else None
    if operand is None:
        return find()
    operand.refresh()
    facts, key = memory_of(operand).facts, (name, A.format)
    versions = operand.structure_version, operand.values_version if of_values else -1
    kept = facts.get(key)
    if kept is None or kept[0] != versions:
        kept = facts[key] = versions, find()
    fact: Fact = kept[1]
    return fact
