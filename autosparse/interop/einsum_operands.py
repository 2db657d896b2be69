"""Conversion of einsum operands of pydata/sparse or pandas to SciPy objects or autosparse tensors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from autosparse.interop import foreign


def operands(given: Sequence[Any]) -> tuple[Any, ...]:
    """Return einsum's operands, those of pydata/sparse and pandas converted; neither library is imported."""
    if "sparse" not in sys.modules and "pandas" not in sys.modules:
        return tuple(given)
    return tuple(map(_as_operand, given))


def _as_operand(obj: Any) -> Any:
    sparse = sys.modules.get("sparse")
    if sparse is None or not isinstance(obj, foreign.class_of(sparse, "SparseArray")) or obj.ndim == 2:
        return foreign.as_scipys(obj)
    from autosparse.arrays.sparse_tensor import tensor  # most einsums have no such operand

    return tensor(obj if type(obj).__name__ == "COO" else obj.asformat("coo"), copy=False)
