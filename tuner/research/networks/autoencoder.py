"""DASH's latent encoder (section 3.4): an autoencoder of a target's heterogeneous parameters, decoder dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from autosparse.tuner.research.targets.base import Category
from autosparse.tuner.research.targets.mapper import LATENT_WIDTH, OneHotParts
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowReal

EPOCHS: Final = 200
RATE: Final = 1e-3
HIDDEN: Final = 96


class AutoEncoder(torch.nn.Module):
    """Autoencoder of categories: one-hot parts -> LATENT_WIDTH numbers -> reconstruction of the parts."""

    def __init__(self, parts: OneHotParts) -> None:
        super().__init__()
        self.parts_read = parts
        self.encoder = torch.nn.Sequential(
            torch.nn.Linear(parts.width, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, LATENT_WIDTH)
        )
        self.decoder = torch.nn.Sequential(
            torch.nn.Linear(LATENT_WIDTH, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, parts.width)
        )

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the reconstruction of `rows`, (n, width)."""
        read: torch.Tensor = self.decoder(self.encoder(rows))
        return read

    def codes(self, categories: Sequence[Category]) -> NDArray[NarrowReal]:
        """Return the codes of categories; see LatentEncoder."""
        with torch.no_grad():
            found: NDArray[NarrowReal] = self.encoder(torch.from_numpy(self.parts_read.rows(categories))).numpy()
        return found


def trained_autoencoder(categories: Sequence[Category], *, epochs: int = EPOCHS, seed: int = 0) -> AutoEncoder:
    """Fit an autoencoder to the distinct categories by the mean squared reconstruction error (Adam)."""
    distinct = sorted(set(categories), key=str)
    parts = OneHotParts.of(distinct)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoEncoder(parts)
    rows = torch.from_numpy(parts.rows(distinct))
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(epochs):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(rows), rows)
        torch.autograd.backward(loss)
        optimizer.step()
    return model.eval()
