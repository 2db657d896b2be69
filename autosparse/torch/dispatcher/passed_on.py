"""Products of COO tensors that PyTorch computes, after a check of their indices: its kernels read out of bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from autosparse.torch.dispatcher.fallback import aten_fallbacks, check_coordinates
from autosparse.torch.dispatcher.operators import Keys


def _checked(operator: str) -> Callable[..., Any]:
    """Return a kernel that checks the indices of COO tensors, then calls PyTorch's kernel. It raises StructureError."""

    def kernel(keys: Keys, *given: Any, **more: Any) -> Any:  # Any: arguments of the dispatcher
        for one in (*given, *more.values()):
            if isinstance(one, torch.Tensor):
                check_coordinates(one)
        return aten_fallbacks[f"coo::{operator}"].call_boxed(keys, *given, **more)

    return kernel


OPERATORS: Final = ("bmm", "bmm.out", "hspmm", "hspmm.out", "sspaddmm.out", "_sparse_sparse_matmul")
"""The operators. The C++ module has the same list (`CHECKED` in module.cpp)."""
TABLE: Final = {operator: _checked(operator) for operator in OPERATORS}
"""Kernels by operator, for the dispatch key SparseCPU."""
