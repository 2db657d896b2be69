"""Expected answers of the functions of `autosparse.torch`, computed with dense tensors in double precision."""

from __future__ import annotations

import torch


def solid(X):
    """Return `X` without conjugate and negative bits and without a graph."""
    X = X.detach()
    return torch.zeros(X.shape, dtype=X.dtype) if X._is_zerotensor() else X.resolve_conj().resolve_neg().clone()


def wide(X):
    X = solid(X)
    return X.to(torch.complex128 if X.is_complex() else torch.float64)


def matrix_of(case, values=None):
    """Return the dense matrix of a case's entries."""
    values = wide(case.values if values is None else values)
    D = torch.zeros(case.n, case.m, dtype=values.dtype)
    return D.index_put((case.row, case.col), values, accumulate=True)


def softmax_of(case, scores):
    powers = (scores - (scores.max() if scores.numel() else 0)).exp()
    sums = torch.zeros(case.n, *scores.shape[1:], dtype=scores.dtype).index_add(0, case.row, powers)
    return powers / sums[case.row]


def reduced(case, values, X, reduce):
    if reduce == "sum":
        return matrix_of(case, values) @ X
    products = wide(values).view(-1, *[1] * (X.dim() - 1)) * X[case.col]
    out = torch.zeros(case.n, *X.shape[1:], dtype=products.dtype)
    for i in range(case.n):
        of_row = products[case.row == i]
        if len(of_row):
            out[i] = {"mean": of_row.mean, "max": lambda d, r=of_row: r.amax(d), "min": lambda d, r=of_row: r.amin(d)}[
                reduce
            ](0)
    return out


def weighted(case, scores, V):
    out = torch.zeros(case.n, *V.shape[1:], dtype=torch.float64)
    return out.index_add(0, case.row, softmax_of(case, scores)[..., None] * wide(V)[case.col])
