"""Pairwise loss L = Σ over pairs of schedules of one pattern of sign(y_j - y_k) φ(ŷ_j - ŷ_k), φ(x) = max(0, 1 - x).

Only the order matters, not the time (WACO section 4.1.3). The mean over pairs replaces the sum, so that patterns with
fewer known pairs weigh the same.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from autosparse.tuner.research.training.ranking import known_order
from numpy.typing import NDArray

from autosparse.core.dtypes import Flag, NarrowReal, WideIndex

NOISE: Final = 0.01
"""Minimum relative time difference of a pair; below it, the order is noise."""


def known_pairs(ratios: NDArray[NarrowReal], censored: NDArray[Flag]) -> tuple[NDArray[WideIndex], NDArray[WideIndex]]:
    """Return (slower, faster): indices of the pairs whose order is known and exceeds the noise."""
    is_slower = known_order(ratios, censored) > 0
    is_slower &= ratios[:, None] > (1 + NOISE) * ratios[None, :]
    slower, faster = np.nonzero(is_slower)
    return slower, faster


def hinge_loss(costs: torch.Tensor, slower: NDArray[WideIndex], faster: NDArray[WideIndex]) -> torch.Tensor:
    """Return the mean over pairs of max(0, 1 - (cost of the slower - cost of the faster)); 0 without pairs."""
    if not len(slower):
        return costs.sum() * 0.0
    margin = costs[torch.from_numpy(slower)] - costs[torch.from_numpy(faster)]
    loss: torch.Tensor = torch.clamp(1.0 - margin, min=0.0).mean()
    return loss
