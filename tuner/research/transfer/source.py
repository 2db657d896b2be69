"""Cost model of a source platform: trees over pattern statistics, program parameters and counts on the pattern.

Fitting needs scikit-learn (extra `train`); prediction and storage need NumPy alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from autosparse.tuner.features.pattern_vector import matrix_vector
from autosparse.tuner.learned.safetensors import read_safetensors
from autosparse.tuner.learned.trees import Trees
from autosparse.tuner.research.targets.accelerator import Accelerator
from autosparse.tuner.research.training.boosting import BoostSettings, fit
from autosparse.tuner.research.training.meaning import write_safetensors
from autosparse.tuner.research.transfer.counts import counted, program_numbers
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowReal, Real
from autosparse.core.pattern import Pattern
from autosparse.errors import RecordError

Floats = NDArray[NarrowReal]

SOURCE_TREES: Final = BoostSettings(n_trees=300, rate=0.08, leaves=31, fewest=20, focus=0.5)
FEW_TREES: Final = BoostSettings(n_trees=150, rate=0.08, leaves=15, fewest=10, focus=0.5)
"""Settings for samples of only a few patterns."""
KIND: Final = "accelerator source"


def plain_rows(pattern: Pattern, target: Accelerator) -> Floats:
    """Return the features of `described` without the counts on the pattern, so that the cost is O(nonzeros)."""
    vector, programs = matrix_vector(pattern), program_numbers(target)
    return np.hstack([np.repeat(vector[None], len(programs), axis=0), programs]).astype(NarrowReal)


def described(pattern: Pattern, target: Accelerator) -> Floats:
    """Return the trees' inputs for all configurations of `target` on `pattern`, (configurations, features) float32."""
    return np.hstack([plain_rows(pattern, target), counted(pattern, target)])


@dataclass(frozen=True, eq=False)
class SourceModel:
    """Cost model trained on a source platform; `trees` predict log times from rows of features."""

    trees: Trees = field(repr=False)
    name: str = ""

    def costs(self, rows: Floats) -> Floats:
        """Return predicted logarithms of times for rows of features, (n,), up to a constant per pattern."""
        return self.trees.predict(rows)

    def write(self, path: Path) -> None:
        """Write the model as safetensors."""
        write_safetensors(path, self.trees.tensors(), {"kind": KIND, "name": self.name})

    @classmethod
    def read(cls, path: Path) -> SourceModel:
        """Read a model; raise RecordError when the file holds none."""
        tensors, facts = read_safetensors(path)
        if facts.get("kind") != KIND:
            raise RecordError.broken(path.name, reason=f"kind {facts.get('kind')!r}, not {KIND!r}")
        try:
            return cls(Trees.of(tensors, 0), facts.get("name", ""))
        except (KeyError, ValueError) as error:
            raise RecordError.broken(path.name, reason=f"no trees: {error}") from error


def fit_source(
    rows: Sequence[Floats], y: Sequence[NDArray[Real]], *, name: str = "", settings: BoostSettings = SOURCE_TREES
) -> SourceModel:
    """Fit trees to (features, log times) of each pattern; raise MissingExtraError without scikit-learn."""
    centred = [one - one.mean() for one in y]
    weights = np.concatenate([np.exp(-settings.focus * (one - one.min())) for one in centred])
    fitted = fit(np.vstack(rows), np.concatenate(centred), n_sketch=0, settings=settings, weights=weights)
    return SourceModel(fitted.trees, name)
