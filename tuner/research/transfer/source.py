"""Cost model of a source platform: trees over pattern statistics, program parameters and counts on the pattern.

Fitting needs scikit-learn (extra `train`); prediction and storage need NumPy alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from autosparse.tuner.features.pattern_vector import matrix_vector
from autosparse.tuner.learned.safetensors import read_safetensors
from autosparse.tuner.learned.trees import Trees
from autosparse.tuner.research.targets.accelerator import Accelerator
from autosparse.tuner.research.training.boosting import BoostSettings, fit
from autosparse.tuner.research.training.meaning import write_safetensors
from autosparse.tuner.research.transfer.counts import counted, program_numbers
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowReal, Real, WideIndex
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


Ints = NDArray[WideIndex]
Doubles = NDArray[Real]

PER_PATTERN: Final = 100
"""Configurations measured per pattern (DASH section 4.1)."""
CLIPPED: Final = (-3.0, 2.5)
"""Bounds of learned log ratios, as `training.boosting.CLIPPED`; differences among slow programs do not matter."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Measured times of configurations on one pattern, in any unit, since only ratios within a pattern are used."""

    pattern: str  # a name of the pattern
    numbers: Ints = field(repr=False)  # (n,) positions in Accelerator.configurations
    times: Doubles = field(repr=False)  # (n,) > 0

    def __post_init__(self) -> None:
        if self.numbers.shape != self.times.shape or self.numbers.ndim != 1 or not self.numbers.size:
            facts = f"{self.numbers.shape} configurations, {self.times.shape} times"
            raise RecordError.bad_field("samples", self.pattern, facts, expected="as many of one as of the other, > 0")
        if not np.all(np.isfinite(self.times) & (self.times > 0)):
            raise RecordError.bad_field("samples", self.pattern, float(self.times.min()), expected="times > 0")

    @property
    def y(self) -> Doubles:
        """Return logarithms of the times over their geometric mean, clipped, (n,)."""
        logs = np.log(self.times)
        clipped: Doubles = np.clip(logs - logs.mean(), *CLIPPED)
        return clipped


def drawn(numbers: Sequence[int] | Ints, times: Doubles, *, rng: np.random.Generator, name: str = "") -> Samples:
    """Draw PER_PATTERN distinct members of `numbers` at random, or all if fewer; `times` is indexed by number."""
    known = np.unique(np.asarray(numbers, WideIndex))
    taken = np.sort(rng.choice(known, min(PER_PATTERN, known.size), replace=False))
    return Samples(name, taken, np.asarray(times, Real)[taken])


def to_measure(target: Accelerator, shape: tuple[int, int], *, seed: int = 0, n: int = PER_PATTERN) -> list[int]:
    """Return the numbers of configurations to measure for `shape`: the default and distinct random others."""
    same = target.distinct(*shape)
    known = sorted(set(same))
    default = same[target.configurations.index(target.default)]
    others = np.array([number for number in known if number != default], WideIndex)
    rng = np.random.default_rng(seed)
    more = rng.permutation(others)[: max(0, n - 1)].tolist()
    return sorted([default, *more])


def best_distinct(costs: NDArray[Any], same: Sequence[int], k: int) -> list[int]:
    """Return the numbers of the k best distinct programs by `costs`; `same` is the result of `Accelerator.distinct`."""
    found: list[int] = []
    for number in np.argsort(costs, kind="stable").tolist():
        if same[number] not in found:
            found.append(same[number])
        if len(found) == k:
            break
    return found
