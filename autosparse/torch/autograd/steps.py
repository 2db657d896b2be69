"""Reductions over the entries of each row by PyTorch's own functions, which have derivatives of any kind.

They take memory for each entry, and serve inside transforms of `torch.func`.
"""

# mypy: allow-untyped-calls
# (torch's functions are not all typed)
from __future__ import annotations

import torch

from autosparse.torch.autograd.derivatives import row_of_entries
from autosparse.torch.structure import IndexArrays


def extreme(rows: IndexArrays, values: torch.Tensor, X: torch.Tensor, *, least: bool) -> torch.Tensor:
    """Return the maximum (minimum if `least`) of A[i, j] X[j, k] over the entries of each row i; 0 for empty rows."""
    terms = values.unsqueeze(1) * X[rows.col.long()]
    row = row_of_entries(rows.crow).long().unsqueeze(1).expand_as(terms)
    start = terms.new_zeros((rows.n_rows, terms.shape[1]))
    return start.scatter_reduce(0, row, terms, "amin" if least else "amax", include_self=False)


def row_softmax(rows: IndexArrays, scores: torch.Tensor) -> torch.Tensor:
    """Return the softmax of `scores` (nnz,) or (nnz, H) over the entries of each row."""
    row = row_of_entries(rows.crow).long()
    flat = scores.unsqueeze(1) if scores.dim() == 1 else scores
    index = row.unsqueeze(1).expand_as(flat)
    top = flat.new_zeros((rows.n_rows, flat.shape[1])).scatter_reduce(
        0, index, flat.detach(), "amax", include_self=False
    )
    powers = (flat - top[row]).exp()
    sums = flat.new_zeros((rows.n_rows, flat.shape[1])).scatter_add(0, index, powers)
    found = powers / sums[row]
    return found.squeeze(1) if scores.dim() == 1 else found
