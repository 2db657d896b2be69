"""Both libraries in turns, in one process; rounds go on while it is open on which side of its goal a spelling is."""

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
"""Of rounds, with replacement, for an interval of 90 %."""
RTOL: Final = 1e-4


class WrongAnswerError(AssertionError):
    """The two libraries do not agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How long and how often to measure."""

    rounds: int = 15
    most_rounds: int = 60  # while the interval holds the goal
    sample_s: float = 1e-3


@dataclass(slots=True)
class Race:
    """Seconds per call of one spelling, by round."""

    goal: float
    scipy_s: list[float] = field(default_factory=list)
    ours_s: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """SciPy's time over ours: above 1 we are faster. The median of rounds, whose two samples are neighbours."""
        return statistics.median(theirs / ours for theirs, ours in zip(self.scipy_s, self.ours_s, strict=True))

    @property
    def interval(self) -> tuple[float, float]:
        """5th and 95th percentile of the ratio over draws of as many rounds (bootstrap)."""
        ratios = [theirs / ours for theirs, ours in zip(self.scipy_s, self.ours_s, strict=True)]
        rng = random.Random(0)
        medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(N_DRAWS))
        return medians[N_DRAWS // 20], medians[-N_DRAWS // 20]

    @property
    def is_open(self) -> bool:
        """Whether the ratio may as well be on the other side of the goal."""
        low, high = self.interval
        return low < self.goal <= high

    @property
    def misses(self) -> bool:
        """Whether the whole interval lies below the goal."""
        return self.interval[1] < self.goal

    def record(self) -> dict[str, Any]:
        """What is kept of it."""
        times = {"scipy_s": statistics.median(self.scipy_s), "ours_s": statistics.median(self.ours_s)}
        kept = {"ratio": self.ratio, "interval": self.interval, "goal": self.goal, "misses": self.misses}
        return {**times, **kept, "rounds": len(self.ours_s)}


def _as_array(found: Any) -> Any:
    return found.toarray() if scipy.sparse.issparse(found) else np.asarray(found)


def compare(name: str, theirs: Any, ours: Any) -> None:
    """WrongAnswerError unless the two are alike; large sparse results are compared by their entries."""
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
    """The spelling with SciPy's class and with ours, over a matrix that stays alive as users keep it."""
    import autosparse

    m = matrix(spelling, entries)
    of = Operands(*m.shape)
    return {"scipy": spelling.prepare(m, of), "ours": spelling.prepare(autosparse.csr(m), of)}


def race(spelling: Spelling, entries: int, protocol: Protocol) -> Race:
    """Compare the answers, then take turns."""
    contenders = calls(spelling, entries)
    compare(spelling.name, contenders["scipy"](), contenders["ours"]())
    first_s = {name: max(warm_up(run, protocol.sample_s), 1e-9) for name, run in contenders.items()}
    n_calls = calls_per_sample(first_s, protocol.sample_s)
    found, order = Race(spelling.goal(entries)), list(contenders)
    while len(found.ours_s) < protocol.rounds or (len(found.ours_s) < protocol.most_rounds and found.is_open):
        order.reverse()
        for name in order:
            contenders[name]()  # its own data in the caches, its threads awake
            seconds = timed_calls(contenders[name], n_calls[name], time.perf_counter)
            (found.scipy_s if name == "scipy" else found.ours_s).append(seconds)
    return found
