"""GraphSAGE with mean aggregation (Hamilton et al. 2017): one call computes the mean over neighbours.

python examples/graphsage.py
"""

from __future__ import annotations

import torch
from graph import communities
from training import compare

import autosparse as asp


class GraphSAGE(torch.nn.Module):
    """Two layers of X W + mean(neighbours of X) U."""

    def __init__(self, n_features: int, n_hidden: int, n_classes: int) -> None:
        super().__init__()
        widths = (n_features, n_hidden, n_classes)
        self.own = torch.nn.ModuleList(map(torch.nn.Linear, widths, widths[1:]))
        self.neighbours = torch.nn.ModuleList(map(torch.nn.Linear, widths, widths[1:]))

    def forward(self, mean, X: torch.Tensor) -> torch.Tensor:
        """Return the class scores; `mean(X)` averages over neighbours."""
        for layer, (own, neighbours) in enumerate(zip(self.own, self.neighbours, strict=True)):
            X = own(X) + mean(neighbours(X))
            X = torch.relu(X) if layer == 0 else X
        return X


if __name__ == "__main__":
    adjacency, features, labels = communities()
    A = asp.torch.csr(adjacency)  # shares the tensor's memory and keeps its plan
    torch.manual_seed(0)
    model = GraphSAGE(features.shape[1], 64, 7)
    plain = lambda m: m(lambda X: torch.sparse.mm(adjacency, X, "mean"), features)  # noqa: E731
    ours = lambda m: m(lambda X: asp.torch.spmm(A, X, reduce="mean"), features)  # noqa: E731
    compare(model, plain, ours, labels)
