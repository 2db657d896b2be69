"""Transfer by trees: boosted trees fit the residuals of a source model on the target's samples (extra `train`).

Validation matrices showed it to be best from five sampled matrices on (`benchmarks/results/transfer-validation.md`).
With one matrix, the additive residual is as good.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from autosparse.tuner.research.transfer.source import FEW_TREES, Floats, SourceModel, fit_source
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowReal, Real

FEWEST: Final = 5
"""Minimum number of sampled matrices for which validation found this to be the best transfer."""


def can_fit() -> bool:
    """Return whether corrections can be fitted here, which needs scikit-learn."""
    return importlib.util.find_spec("sklearn") is not None


@dataclass(frozen=True, eq=False)
class Corrected:
    """Cost model of a target platform: costs predicted by the model `source`, plus a correction by `trees`."""

    source: SourceModel = field(repr=False)
    trees: SourceModel = field(repr=False)

    def costs(self, rows: Floats) -> NDArray[Real]:
        """Return predicted logarithms of times for rows of features, (n,), up to a constant per pattern."""
        base = self.source.costs(rows)
        return np.asarray(base + self.trees.costs(_beside(rows, base)), Real)


def fit_correction(source: SourceModel, rows: Sequence[Floats], y: Sequence[NDArray[Real]]) -> Corrected:
    """Fit a correction of `source` to samples on a target: feature rows (`described`) and log times, per pattern.

    Raises MissingExtraError without scikit-learn.
    """
    bases = [source.costs(one) for one in rows]
    left = [one - base for one, base in zip(y, bases, strict=True)]
    beside = [_beside(one, base) for one, base in zip(rows, bases, strict=True)]
    return Corrected(source, fit_source(beside, left, settings=FEW_TREES))


def _beside(rows: Floats, base: NDArray[np.floating[Any]]) -> Floats:
    return np.column_stack([rows, base]).astype(NarrowReal)
