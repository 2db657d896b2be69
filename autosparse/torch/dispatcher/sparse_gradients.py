"""Sparse gradients of ``A @ B``: optional kernel that replaces PyTorch's autograd formula, whose gradient is dense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from autosparse.torch import matrix
from autosparse.torch.autograd import functions
from autosparse.torch.checks import HALF
from autosparse.torch.dispatcher.fallback import aten_fallbacks
from autosparse.torch.dispatcher.operators import SERVED, Keys


def mm(keys: Keys, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Compute aten::mm with autograd: the gradient of a CSR `a` is a CSR tensor with the same entries."""
    is_asked = a.layout is torch.sparse_csr and a.requires_grad and torch.is_grad_enabled()
    if is_asked and _ours(a, b) and not _is_transposed(a):
        A = matrix.as_csr(a)
        if a.dtype in HALF:  # as `operators.times`: computed in float32 and rounded once, as are the gradients
            return functions.product(A.rows, A.values.float(), b.float()).to(a.dtype)
        return functions.product(A.rows, A.values, b)
    result: torch.Tensor = aten_fallbacks["autograd::mm"].call_boxed(keys, a, b)
    return result


def _ours(a: torch.Tensor, b: torch.Tensor) -> bool:
    plain = b.layout is torch.strided and b.dim() == 2 and b.dtype is a.dtype is a.values().dtype and b.is_cpu
    return plain and a.dim() == 2 and a.dense_dim() == 0 and a.dtype in SERVED and a.shape[1] == b.shape[0]


def _is_transposed(a: torch.Tensor) -> bool:
    """Return whether `a` is a transpose, of a matrix by columns: PyTorch cannot accumulate gradients by columns."""
    return a.grad_fn is not None and a.grad_fn.name() in ("TBackward0", "TransposeBackward0")


TABLE: Final[dict[str, Callable[..., Any]]] = {"mm": mm}
"""Kernels by operator, for the dispatch key AutogradCPU."""
