"""Race of both libraries in alternation in one process, with rounds added while the interval contains the goal."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import scipy.sparse
from peerlib.timing import calls_per_sample, timed_calls, warm_up

from spellinglib.catalogue import Operands, Spelling, matrix

N_DRAWS: Final = 1000
"""Number of bootstrap draws of rounds for a 90 % interval."""
RTOL: Final = 1e-4


class WrongAnswerError(AssertionError):
    """Error raised if the two libraries disagree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """Duration and number of measurements."""

    rounds: int = 15
    most_rounds: int = 60  # maximum, used while the interval contains the goal
    sample_s: float = 1e-3


@dataclass(slots=True)
class Race:
    """Seconds per call of one spelling, by round."""

    goal: float
    scipy_s: list[float] = field(default_factory=list)
    ours_s: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """SciPy's time over ours; above 1 ours is faster.

        The median over rounds, whose two samples are adjacent in time.
        """
        return statistics.median(theirs / ours for theirs, ours in zip(self.scipy_s, self.ours_s, strict=True))

    @property
    def interval(self) -> tuple[float, float]:
        """5th and 95th percentile of the ratio over bootstrap draws of the rounds."""
        ratios = [theirs / ours for theirs, ours in zip(self.scipy_s, self.ours_s, strict=True)]
        rng = random.Random(0)
        medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(N_DRAWS))
        return medians[N_DRAWS // 20], medians[-N_DRAWS // 20]

    @property
    def is_open(self) -> bool:
        """Return whether the interval contains the goal."""
        low, high = self.interval
        return low < self.goal <= high

    @property
    def misses(self) -> bool:
        """Return whether the whole interval lies below the goal."""
        return self.interval[1] < self.goal

    def record(self) -> dict[str, Any]:
        """Return the record of the race."""
        times = {"scipy_s": statistics.median(self.scipy_s), "ours_s": statistics.median(self.ours_s)}
        kept = {"ratio": self.ratio, "interval": self.interval, "goal": self.goal, "misses": self.misses}
        return {**times, **kept, "rounds": len(self.ours_s)}


def _as_array(found: Any) -> Any:
    return found.toarray() if scipy.sparse.issparse(found) else np.asarray(found)


def compare(name: str, theirs: Any, ours: Any) -> None:
    """Raise WrongAnswerError unless the two are alike; large sparse results are compared by their entries."""
    if scipy.sparse.issparse(theirs) and np.prod(theirs.shape) > 1e7:
        theirs, ours = (part.tocsr(copy=True) for part in (theirs, ours))
        for part in (theirs, ours):
            part.sum_duplicates()
        pairs = [(theirs.indptr, ours.indptr), (theirs.indices, ours.indices), (theirs.data, ours.data)]
    else:
        pairs = [(_as_array(theirs), _as_array(ours))]
    for expected, found in pairs:
        if expected.shape != found.shape or not np.allclose(found, expected, rtol=RTOL, atol=RTOL):
            raise WrongAnswerError(f"{name}: the answers of the two libraries differ")


def calls(spelling: Spelling, entries: int) -> dict[str, Callable[[], Any]]:
    """Return calls of the spelling with SciPy's class and with autosparse's, over a matrix that stays alive."""
    import autosparse

    m = matrix(spelling, entries)
    of = Operands(*m.shape)
    return {"scipy": spelling.prepare(m, of), "ours": spelling.prepare(autosparse.csr(m), of)}


def race(spelling: Spelling, entries: int, protocol: Protocol) -> Race:
    """Compare the answers, then time both in alternation."""
    contenders = calls(spelling, entries)
    compare(spelling.name, contenders["scipy"](), contenders["ours"]())
    first_s = {name: max(warm_up(run, protocol.sample_s), 1e-9) for name, run in contenders.items()}
    n_calls = calls_per_sample(first_s, protocol.sample_s)
    found, order = Race(spelling.goal(entries)), list(contenders)
    while len(found.ours_s) < protocol.rounds or (len(found.ours_s) < protocol.most_rounds and found.is_open):
        order.reverse()
        for name in order:
            contenders[name]()  # warms the caches and wakes the threads
            seconds = timed_calls(contenders[name], n_calls[name], time.perf_counter)
            (found.scipy_s if name == "scipy" else found.ours_s).append(seconds)
    return found
