"""Predictors of DASH's network (Figure 8): a perceptron, or a recurrent network or Transformer.

A predictor reads the concatenated embeddings of pattern, configuration and latent code. The paper does not describe its
alternatives to the perceptron. Here these read the embeddings as a sequence, one element each, and a linear layer reads
the last element of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import torch

WIDTH: Final = 64
"""Width of an element of the sequence, and of the state."""
N_HEADS: Final = 4
"""Number of attention heads of the Transformer."""


class SequencePredictor(torch.nn.Module):
    """Predictor that reads embeddings of the given widths as a sequence."""

    def __init__(self, widths: Sequence[int], reader: torch.nn.Module) -> None:
        super().__init__()
        self.widths = tuple(widths)
        self.elements = torch.nn.ModuleList(torch.nn.Linear(width, WIDTH) for width in widths)
        self.reader = reader
        self.cost = torch.nn.Linear(WIDTH, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the costs, (n, 1), from the concatenated embeddings (n, sum of widths)."""
        parts = inputs.split(self.widths, dim=1)  # type: ignore[no-untyped-call]
        sequence = torch.stack([layer(part) for layer, part in zip(self.elements, parts, strict=True)], dim=1)
        read = self.reader(sequence)
        states = read[0] if isinstance(read, tuple) else read  # recurrent networks also return their last state
        costs: torch.Tensor = self.cost(states[:, -1])
        return costs


def perceptron(widths: Sequence[int]) -> torch.nn.Module:
    """Return the predictor of Table 5, three linear layers."""
    return torch.nn.Sequential(
        torch.nn.Linear(sum(widths), 128), torch.nn.ReLU(),
        torch.nn.Linear(128, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1),
    )  # fmt: skip


def lstm(widths: Sequence[int]) -> torch.nn.Module:
    """Return a predictor with a long short-term memory of one layer."""
    return SequencePredictor(widths, torch.nn.LSTM(WIDTH, WIDTH, batch_first=True))


def gru(widths: Sequence[int]) -> torch.nn.Module:
    """Return a predictor with gated recurrent units of one layer."""
    return SequencePredictor(widths, torch.nn.GRU(WIDTH, WIDTH, batch_first=True))


def transformer(widths: Sequence[int]) -> torch.nn.Module:
    """Return a predictor with one Transformer encoder layer, without dropout."""
    layer = torch.nn.TransformerEncoderLayer(WIDTH, N_HEADS, 2 * WIDTH, dropout=0.0, batch_first=True)
    return SequencePredictor(widths, layer)


PREDICTORS: Final[Mapping[str, Callable[[Sequence[int]], torch.nn.Module]]] = {
    "mlp": perceptron, "lstm": lstm, "gru": gru, "transformer": transformer,
}  # fmt: skip
"""Functions that make a predictor for embeddings of given widths, by name."""
