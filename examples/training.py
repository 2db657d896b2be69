"""Train a model twice from the same start, without and with autosparse, and print losses and times."""

from __future__ import annotations

import copy
import sys
import time
import warnings
from collections.abc import Callable

import torch

import autosparse as asp

warnings.filterwarnings("ignore", message="Sparse")  # PyTorch warns once that its sparse tensors are beta


def epochs(model: torch.nn.Module, forward: Callable, labels: torch.Tensor, n_epochs: int):
    """Train on the full batch; return the losses and the seconds per epoch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses, start_s = [], time.perf_counter()
    for _ in range(n_epochs):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(forward(model), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, (time.perf_counter() - start_s) / n_epochs


def compare(model: torch.nn.Module, plain: Callable, ours: Callable, labels: torch.Tensor, n_epochs: int = 50) -> None:
    """Train with `plain` and, under the override, with `ours`; both compute the model's output.

    Print losses and times.
    """
    twin = copy.deepcopy(model)
    losses, plain_s = epochs(model, plain, labels, n_epochs)
    with asp.torch.override():
        our_losses, our_s = epochs(twin, ours, labels, n_epochs)
    gap = max(abs(a - b) for a, b in zip(losses, our_losses, strict=True))
    sys.stdout.write(
        f"loss {losses[0]:.3f} -> {losses[-1]:.4f} (torch), {our_losses[-1]:.4f} (autosparse), "
        f"never further apart than {gap:.1e}\n"
        f"epoch {plain_s * 1e3:.1f} ms (torch), {our_s * 1e3:.1f} ms (autosparse): "
        f"{plain_s / our_s:.2f} times as fast\n"
    )
