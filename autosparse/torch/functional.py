"""Differentiable products on sparse structures: spmm, sddmm, edge_softmax, attention, gat.

A is a `Csr` or a torch tensor of layout sparse_csr, sparse_csc or sparse_coo. Values and dense operands share one real
or complex floating dtype. bfloat16 and float16 are computed in float32 and rounded once. Gradients of any order are
available; the gradient of A has one number per stored entry.
"""

# mypy: allow-untyped-calls
# (torch's functions are not all typed, its autograd classes not at all)
from __future__ import annotations

import torch

from autosparse.errors import ShapeError
from autosparse.ops import SDDMM
from autosparse.torch.autograd import functions
from autosparse.torch.autograd.attention import Additive, DotAttention, additive_scores, weighted_sum
from autosparse.torch.autograd.compiled import run_as_is
from autosparse.torch.checks import REAL, autocast, common, ranks
from autosparse.torch.matrix import Csr, Sparse, as_csr, upright
from autosparse.torch.matrix import spmm as spmm  # noqa: PLC0414  re-exported: users look for it here


@run_as_is
def sddmm(A: Sparse, X: torch.Tensor, Y: torch.Tensor) -> Csr:
    """Return A ∘ (X @ Y): each entry A[i, j] times ⟨X[i, :], Y[:, j]⟩; X (n, K), Y (K, m) → a `Csr` with A's structure.

    The product X @ Y is computed only at the entries of A. Y may be a transposed view: ``sddmm(A, Q, K.T)``.

    >>> A = torch.eye(2).to_sparse_csr()
    >>> asp.torch.sddmm(A, torch.ones(2, 3), torch.ones(3, 2)) @ torch.ones(2)
    tensor([3., 3.])
    """
    A = as_csr(A)
    (own, X, Y), result = autocast(A.rows.fit(A.values), X, Y)
    dtype = common(SDDMM.name, own, X, Y)
    if X.dim() != 2 or Y.dim() != 2 or X.shape[1] != Y.shape[0] or (X.shape[0], Y.shape[1]) != tuple(A.shape):
        raise ShapeError.unfit(SDDMM.name, wanted="A (n, m), X (n, K), Y (K, m)", A=A.shape, X=X.shape, Y=Y.shape)
    sides = (Y.t().to(dtype), X.to(dtype)) if A.is_transposed else (X.to(dtype), Y.t().to(dtype))
    dots = functions.sampled(A.rows, *sides)
    values = own.to(dtype)
    if values.is_complex() and dots.requires_grad and values._is_view():
        values = values.clone()  # PyTorch cannot conjugate a view of a sparse tensor's values
    return A.with_values((values * dots).to(result))


@run_as_is
def edge_softmax(A: Sparse, scores: torch.Tensor) -> torch.Tensor:
    """Normalise scores by a softmax over each row of A: exp(s[p]) / Σ exp(s[q]) over the entries q in the row of p.

    `scores` has shape (nnz,) or (nnz, H), in the order of A's values.

    >>> A = torch.ones(2, 2).to_sparse_csr()
    >>> asp.torch.edge_softmax(A, torch.zeros(4))
    tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """
    A = as_csr(A)
    rows = upright(A, "edge_softmax")
    dtype = common("edge_softmax", scores, known=REAL)
    if scores.dim() not in (1, 2) or scores.shape[0] != A.nnz:
        wanted = f"scores of shape ({A.nnz},) or ({A.nnz}, heads): one for each entry of A"
        raise ShapeError.unfit("edge_softmax", wanted=wanted, A=A.shape, scores=scores.shape)
    return functions.row_softmax(rows, scores.to(dtype)).to(scores.dtype)


@run_as_is
def attention(
    A: Sparse, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, *, scale: float | None = None
) -> torch.Tensor:
    """Compute sparse attention: out[i] = Σ_j p[i, j] V[j], with p[i] the softmax over row i of scale ⟨Q[i], K[j]⟩.

    Q (n, H, D), K (m, H, D), V (m, H, F) → (n, H, F), or all without H. `scale` defaults to 1/√D. The entries of A
    select the pairs (i, j); its values are not used. The scores, the softmax and the sum are computed in one pass.

    >>> A, V = torch.eye(2).to_sparse_csr(), torch.tensor([[1.0], [2.0]])
    >>> asp.torch.attention(A, torch.ones(2, 4), torch.ones(2, 4), V)  # row i attends only to column i
    tensor([[1.],
            [2.]])
    """
    A = as_csr(A)
    rows = upright(A, "attention")
    (Q, K, V), result = autocast(Q, K, V)
    dtype = common("attention", Q, K, V, known=REAL)
    wanted = "A (n, m), Q (n, H, D), K (m, H, D), V (m, H, F), all with or all without H, D of 1 or more"
    ranks("attention", wanted=wanted, dims=(2, 3), Q=Q, K=K, V=V)
    q, k, v = (t.unsqueeze(1) if t.dim() == 2 else t for t in (Q, K, V))
    n, m = A.shape
    if q.shape != (n, *k.shape[1:]) or k.shape[0] != m or v.shape[:2] != k.shape[:2] or not q.shape[2]:
        raise ShapeError.unfit("attention", wanted=wanted, A=A.shape, Q=Q.shape, K=K.shape, V=V.shape)
    scale = q.shape[2] ** -0.5 if scale is None else scale
    q, k, v = (one.to(dtype) for one in (q, k, v))
    if functions.is_transformed():
        out = weighted_sum(rows, scale * functions.sampled(rows, q, k), v)
    else:
        out = DotAttention.apply(rows, q, k, v, float(scale))
    return (out.squeeze(1) if V.dim() == 2 else out).to(result)


@run_as_is
def gat(
    A: Sparse, target: torch.Tensor, source: torch.Tensor, V: torch.Tensor, *, negative_slope: float = 0.2
) -> torch.Tensor:
    """Aggregate with graph attention (Veličković et al. 2018): out[i] = Σ_j p[i, j] V[j] over the entries (i, j) of A.

    p[i] is the softmax over row i of leaky_relu(target[i] + source[j]), where negative sums are multiplied by
    `negative_slope`. target (n, H), source (m, H), V (m, H, F) → (n, H, F), or all without H. A's values are not used.

    >>> A, V = torch.ones(2, 2).to_sparse_csr(), torch.tensor([[1.0], [2.0]])
    >>> asp.torch.gat(A, torch.zeros(2), torch.zeros(2), V)  # equal scores: the mean
    tensor([[1.5000],
            [1.5000]])
    """
    A = as_csr(A)
    rows = upright(A, "gat")
    (target, source, V), result = autocast(target, source, V)
    dtype = common("gat", target, source, V, known=REAL)
    wanted = "A (n, m), target (n, H), source (m, H), V (m, H, F), all with or all without H"
    ranks("gat", wanted=wanted, dims=(2, 3), V=V)
    single = V.dim() == 2
    q, k, v = (target.unsqueeze(1), source.unsqueeze(1), V.unsqueeze(1)) if single else (target, source, V)
    n, m = A.shape
    heads = v.shape[1]
    if q.shape != (n, heads) or k.shape != (m, heads) or v.shape[0] != m:
        raise ShapeError.unfit("gat", wanted=wanted, A=A.shape, target=target.shape, source=source.shape, V=V.shape)
    q, k, v = (one.to(dtype) for one in (q, k, v))
    if functions.is_transformed():
        out = weighted_sum(rows, additive_scores(rows, q, k, negative_slope), v)
    else:
        out = Additive.apply(rows, q, k, v, float(negative_slope))
    return (out.squeeze(1) if single else out).to(result)
