"""Graph convolutional network (Kipf and Welling 2017), accelerated without a change of the model.

python examples/gcn.py
"""

from __future__ import annotations

import torch
from graph import communities, normalised
from training import compare


class GCN(torch.nn.Module):
    """Two layers of A (X W)."""

    def __init__(self, n_features: int, n_hidden: int, n_classes: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(n_features, n_hidden)
        self.second = torch.nn.Linear(n_hidden, n_classes)

    def forward(self, A: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
        """Return the class scores, of shape (n, n_classes)."""
        X = torch.relu(A @ self.first(X))  # A is a torch.sparse_csr tensor
        return A @ self.second(X)


if __name__ == "__main__":
    adjacency, features, labels = communities()
    A = normalised(adjacency)
    torch.manual_seed(0)
    model = GCN(features.shape[1], 64, 7)
    compare(model, lambda m: m(A, features), lambda m: m(A, features), labels)
