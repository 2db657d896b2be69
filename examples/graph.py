"""Synthetic social graph for the examples: communities whose members are linked to each other, with noisy features."""

from __future__ import annotations

import torch


def communities(n: int = 10_000, n_classes: int = 7, degree: int = 12, n_features: int = 64, seed: int = 0):
    """Return the adjacency (torch.sparse_csr of ones), features (n, n_features) and the class of each node."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(n_classes, (n,), generator=generator)
    members = [torch.nonzero(labels == c).flatten() for c in range(n_classes)]
    nodes = torch.arange(n).repeat_interleave(degree)
    friends = torch.randint(n, (n * degree,), generator=generator)
    same = torch.rand(n * degree, generator=generator) < 0.7
    for c, group in enumerate(members):
        pick = same & (labels[nodes] == c)
        friends[pick] = group[torch.randint(len(group), (int(pick.sum()),), generator=generator)]
    edges = torch.cat([torch.stack([nodes, friends]), torch.stack([friends, nodes]), torch.arange(n).expand(2, n)], 1)
    adjacency = torch.sparse_coo_tensor(edges, torch.ones(edges.shape[1]), (n, n)).coalesce()
    ones = torch.ones(adjacency.values().shape[0])
    adjacency = torch.sparse_coo_tensor(adjacency.indices(), ones, (n, n), is_coalesced=True).to_sparse_csr()
    features = torch.nn.functional.one_hot(labels, n_features).float()
    return adjacency, features + torch.randn(n, n_features, generator=generator), labels


def normalised(A: torch.Tensor) -> torch.Tensor:
    """Return D^-1/2 A D^-1/2, the adjacency of a graph convolution (Kipf and Welling 2017)."""
    crow, col = A.crow_indices(), A.col_indices()
    scale = crow.diff().clamp(min=1).float().rsqrt()
    values = A.values() * scale.repeat_interleave(crow.diff()) * scale[col]
    return torch.sparse_csr_tensor(crow, col, values, A.shape, check_invariants=False)
