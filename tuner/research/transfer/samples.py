"""Measurements of one pattern on one target: configuration numbers and their times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from autosparse.tuner.research.targets.accelerator import Accelerator
from numpy.typing import NDArray

from autosparse.core.dtypes import Real, WideIndex
from autosparse.errors import RecordError

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
