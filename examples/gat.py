"""Graph attention network (Veličković et al. 2018): scores, softmax and weighted sum in one pass over the edges.

python examples/gat.py
"""

from __future__ import annotations

import warnings

import torch
from graph import communities
from training import compare

import autosparse as asp

warnings.filterwarnings("ignore", message="index_reduce")


def plain_attention(A: torch.Tensor, target: torch.Tensor, source: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
    """Compute the attention layer with PyTorch alone, through arrays of shape (edges, heads, features)."""
    col = A.col_indices()
    row = torch.arange(A.shape[0]).repeat_interleave(A.crow_indices().diff())
    scores = torch.nn.functional.leaky_relu(target[row] + source[col], 0.2)
    most = torch.full_like(target, -torch.inf).index_reduce(0, row, scores.detach(), "amax")
    powers = (scores - most[row]).exp()
    alpha = powers / torch.zeros_like(target).index_add(0, row, powers)[row]
    return torch.zeros_like(X).index_add(0, row, alpha.unsqueeze(2) * X[col])


class GAT(torch.nn.Module):
    """Two attention layers: `heads` heads of `n_hidden` features, then one head of `n_classes` features."""

    def __init__(self, n_features: int, n_hidden: int, n_classes: int, heads: int) -> None:
        super().__init__()
        shapes = ((n_features, heads, n_hidden), (heads * n_hidden, 1, n_classes))
        self.shapes = shapes
        self.features = torch.nn.ModuleList(torch.nn.Linear(n, h * f, bias=False) for n, h, f in shapes)
        self.target = torch.nn.ParameterList(torch.randn(h, f) / f**0.5 for _, h, f in shapes)
        self.source = torch.nn.ParameterList(torch.randn(h, f) / f**0.5 for _, h, f in shapes)

    def forward(self, attention, X: torch.Tensor) -> torch.Tensor:
        """Return the class scores; `attention(target, source, Z)` aggregates over neighbours."""
        for layer, (_, h, f) in enumerate(self.shapes):
            Z = self.features[layer](X).view(-1, h, f)
            target, source = (Z * self.target[layer]).sum(2), (Z * self.source[layer]).sum(2)
            X = attention(target, source, Z).flatten(1)
            X = torch.nn.functional.elu(X) if layer == 0 else X
        return X


if __name__ == "__main__":
    adjacency, features, labels = communities()
    A = asp.torch.csr(adjacency)
    torch.manual_seed(0)
    model = GAT(features.shape[1], 8, 7, heads=8)
    plain = lambda m: m(lambda t, s, X: plain_attention(adjacency, t, s, X), features)  # noqa: E731
    ours = lambda m: m(lambda t, s, X: asp.torch.gat(A, t, s, X), features)  # noqa: E731
    compare(model, plain, ours, labels, n_epochs=10)
