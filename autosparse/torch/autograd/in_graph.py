"""`spmm` in graphs of torch.compile and torch.export: code that they trace down to the operators of `operators`.

Other calls, and wrong ones, leave the graph: ``torch.compile`` runs them in Python between parts of the graph.
"""

# mypy: allow-untyped-calls
# (torch's functions are not all typed)
from __future__ import annotations

from typing import Any

import torch

from autosparse.scalar.tensors import COMPUTED
from autosparse.torch.autograd import operators
from autosparse.torch.checks import NUMBERS, autocast

Csr = Any  # autosparse.torch.Csr, whose module imports this one


def takes(A: Csr, X: Any, reduce: str) -> bool:
    """Return whether `spmm` can be part of a graph: sums and means of matching operands."""
    if not isinstance(X, torch.Tensor) or X.layout is not torch.strided or X.device.type != "cpu":
        return False
    if X.dim() not in (1, 2) or X.shape[0] != A.shape[1]:
        return False
    (values, dense), _ = autocast(A.values, X)
    if values.dtype is not dense.dtype or values.dtype not in NUMBERS:
        return False
    return reduce == "sum" or (reduce == "mean" and not A.is_transposed)


def spmm(A: Csr, X: torch.Tensor, reduce: str) -> torch.Tensor:
    """Compute `autosparse.torch.spmm` of operands that `takes` accepted."""
    (values, dense), result = autocast(A.values, X)
    dtype, rows = COMPUTED.get(values.dtype, values.dtype), A.rows
    found = operators.csr_product(
        rows.crow, rows.col, values.to(dtype), dense.to(dtype), rows.n_rows, rows.n_cols, A.is_transposed
    )
    if reduce == "mean":
        lengths = rows.crow.diff().clamp(min=1).to(dtype)
        found = found / (lengths.unsqueeze(1) if found.dim() == 2 else lengths)
    converted: torch.Tensor = found.to(result)
    return converted
