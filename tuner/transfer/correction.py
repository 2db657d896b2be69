"""The dearer transfer: trees learn from the target's samples what a source that reads counts leaves over.

Fitted with scikit-learn (extra `train`). It was chosen on matrices that judge nothing, from five sampled matrices on
(`benchmarks/results/transfer-validation.md`); with one the additive residual is as good.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from autosparse.tuner.transfer.source import FEW_TREES, Floats, SourceModel, fit_source
from numpy.typing import NDArray

FEWEST: Final = 5
"""Sampled matrices from which this was shown to be the best transfer."""


def can_fit() -> bool:
    """Whether scikit-learn is there."""
    return importlib.util.find_spec("sklearn") is not None


@dataclass(frozen=True, eq=False)
class Corrected:
    """Costs that `source` predicts from `described` rows, plus what `trees` make of the rows and these costs."""

    source: SourceModel = field(repr=False)
    trees: SourceModel = field(repr=False)

    def costs(self, rows: Floats) -> NDArray[np.float64]:
        """Logarithms of times but for a constant of the pattern; (n,)."""
        base = self.source.costs(rows)
        return np.asarray(base + self.trees.costs(_beside(rows, base)), np.float64)


def fit_correction(source: SourceModel, rows: Sequence[Floats], y: Sequence[NDArray[np.float64]]) -> Corrected:
    """From the samples' `described` rows and log times, pattern by pattern; MissingExtraError without scikit-learn."""
    bases = [source.costs(one) for one in rows]
    left = [one - base for one, base in zip(y, bases, strict=True)]
    beside = [_beside(one, base) for one, base in zip(rows, bases, strict=True)]
    return Corrected(source, fit_source(beside, left, settings=FEW_TREES))


def _beside(rows: Floats, base: NDArray[np.floating[Any]]) -> Floats:
    return np.column_stack([rows, base]).astype(np.float32)
