"""Inference with a pruned network whose weights are 90 % zero, with unchanged layers.

python examples/pruned_mlp.py
"""

from __future__ import annotations

import sys
import time
import warnings

import torch

import autosparse as asp

warnings.filterwarnings("ignore", message="Sparse")


def pruned(weight: torch.Tensor, keep: float, block: int = 1) -> torch.Tensor:
    """Return the largest fraction `keep` of the weights as a torch.sparse_csr tensor.

    With `block` > 1, whole blocks are kept, chosen by their norm.
    """
    n, m = weight.shape
    norms = weight.detach().view(n // block, block, m // block, block).square().sum((1, 3))
    least = norms.flatten().kthvalue(int((1 - keep) * norms.numel()) + 1).values
    mask = (norms >= least).repeat_interleave(block, 0).repeat_interleave(block, 1)
    return (weight.detach() * mask).to_sparse_csr()


def inference(weights: list[torch.Tensor], X: torch.Tensor) -> torch.Tensor:
    """Compute relu(X W1ᵀ) W2ᵀ ... with dense or sparse weights."""
    for layer, weight in enumerate(weights):
        X = torch.nn.functional.linear(torch.relu(X) if layer else X, weight)
    return X


def seconds(weights: list[torch.Tensor], X: torch.Tensor, n_runs: int = 20) -> float:
    """Return the seconds of one run, the minimum of `n_runs`."""
    times = []
    for _ in range(n_runs):
        start_s = time.perf_counter()
        inference(weights, X)
        times.append(time.perf_counter() - start_s)
    return min(times)


if __name__ == "__main__":
    torch.manual_seed(0)
    dense = [torch.randn(2048, 1024) / 32, torch.randn(2048, 2048) / 45, torch.randn(256, 2048) / 45]
    X = torch.randn(64, 1024)
    with torch.no_grad():
        for what, keep, block in (("90 %", 0.1, 1), ("95 %", 0.05, 1), ("90 % in 32 x 32 blocks", 0.1, 32)):
            sparse = [pruned(weight, keep, block) for weight in dense]
            masked = [weight.to_dense() for weight in sparse]
            dense_s, torch_s = seconds(masked, X), seconds(sparse, X)
            with asp.torch.override():
                assert torch.allclose(inference(sparse, X), inference(masked, X), atol=1e-3)
                our_s = seconds(sparse, X)
            sys.stdout.write(
                f"pruned by {what}: dense {dense_s * 1e3:.2f} ms, torch.sparse {torch_s * 1e3:.2f} ms, "
                f"autosparse {our_s * 1e3:.2f} ms\n"
            )
