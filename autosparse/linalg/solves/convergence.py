"""Estimate the number of iterations that a solve has left from its residuals: pure arithmetic.

The logarithm of the residual falls at a rate that changes slowly in most solves. The rate over the second half of the
iterations is extrapolated to the target. Four cases are treated separately:

* superlinear convergence: the certain number of iterations is half of that by the fastest rate seen;
* a plateau, stagnation at the attainable accuracy, or an unknown target: the solve is expected to run as long again;
* divergence: no iterations are expected, because the user or an overflow may end the solve at any moment;
* the first iterations: at most `HORIZON` times the iterations that have run.
"""

from __future__ import annotations

import math
from typing import Final

from autosparse.core.values import dataclass

HORIZON: Final = 8.0
"""Maximum number of expected iterations per iteration that has run; few residuals do not support long extrapolation."""
CERTAINTY: Final = 0.5
"""Fraction of the extrapolated iterations that is certain; superlinear solves end sooner than their rate predicts."""
FLAT: Final = 0.05
"""Minimum decrease of the residual's natural logarithm over half of the iterations that counts as convergence."""
LASTING: Final = 0.25
"""Fraction of the iterations so far by which a plateau is certain to continue."""
DIVERGED: Final = 1e3
"""Ratio of the residual to its smallest value above which a solve counts as diverging."""
MAX_MARKS: Final = 96
"""Maximum number of stored residuals; they are taken at geometrically growing iterations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Expected number of iterations left in a solve: a likely and an almost certain number."""

    likely: float
    certain: float


NOTHING: Final = Left(likely=0.0, certain=0.0)
"""Estimate of a solve that is about to end or diverges."""


class Convergence:
    """Residuals of one solve at some of its iterations, with its target and iteration limit."""

    __slots__ = ("_marks", "limit", "target")

    def __init__(self, *, target: float = 0.0, limit: float = math.inf) -> None:
        self.target, self.limit = target, limit
        self._marks: list[tuple[int, float]] = []  # (iterations done, logarithm of the smallest residual)

    def left(self, n_done: int, best: float, now: float) -> Left:
        """Return the iterations left after `n_done`, with the smallest residual `best` and the last residual `now`."""
        most = max(0.0, self.limit - n_done)
        if not math.isfinite(now) or not best > 0.0 or now > DIVERGED * best:
            return NOTHING
        log_best = math.log(best)
        if len(self._marks) < MAX_MARKS:
            self._marks.append((n_done, log_best))
        if n_done < 2 or len(self._marks) < 2:
            return Left(likely=min(most, HORIZON), certain=0.0)
        half, fastest = self._rates(n_done, log_best)
        gap = log_best - math.log(self.target) if self.target > 0.0 else math.inf
        if gap <= 0.0:
            return NOTHING
        if half * n_done < 2.0 * FLAT or gap == math.inf:
            return Left(likely=min(most, float(n_done)), certain=min(most, LASTING * n_done))
        most = min(most, HORIZON * n_done)
        return Left(likely=min(most, gap / half), certain=CERTAINTY * min(most, gap / fastest))

    def _rates(self, n_done: int, log_best: float) -> tuple[float, float]:
        """Return the fall of the residual's logarithm per iteration: in the last half, and the fastest of several."""
        spans = []
        for share in (0.5, 0.75, 0.0):
            at, log_then = self._marks[0]
            for n, log_there in self._marks:
                if n > share * n_done or n >= n_done:
                    break
                at, log_then = n, log_there
            spans.append((log_then - log_best) / max(1, n_done - at))
        return spans[0], max(spans)
