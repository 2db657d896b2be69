"""Cost estimates of tuning steps on this machine, learned from every step performed, and the gains of past tuning.

Estimates are rates (seconds per unit), so that one observation serves all matrices. They start from conservative values
and move towards the observed ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from autosparse.core.values import dataclass, field
from autosparse.targets.priors import number, numbers

DEFAULT_RATES_S: Final = numbers("step seconds per unit")
"""Kind of step -> seconds per unit, before any observation on this machine."""
STARTS: Final = {kind: fixed_s / DEFAULT_RATES_S[kind] for kind, fixed_s in numbers("step fixed seconds").items()}
"""Kind of step -> units that take as long as the fixed cost of a step; a tiny matrix must not inflate the rate."""

MEMORY: Final = 8
"""Number of observations that a rate averages over; the weight of a new one never falls below 1/MEMORY."""
MAX_JUMP: Final = number("cost estimates", "maximum jump")
"""Maximum factor over the mean at which a single observation counts, since a process may be stopped for a minute."""


class RunningMean(NamedTuple):
    """Running mean of observations, exponentially weighted after the first `MEMORY` ones."""

    value: float
    n_seen: int = 0


@dataclass(slots=True)
class CostEstimates:
    """Measured seconds per unit by kind of step, and mean gains (fraction of time saved) by operation and width.

    An observation replaces a table, so that other threads can read the old one meanwhile. Of two observations at once,
    one may be lost.
    """

    rates_s: Mapping[str, RunningMean] = field(default_factory=dict)
    gains: Mapping[str, RunningMean] = field(default_factory=dict)
    is_changed: bool = field(default=False, compare=False)  # something was observed since the last write

    def price_s(self, kind: str, units: float = 1.0) -> float:
        """Return the expected seconds of a step of `kind` that processes `units` units."""
        seen = self.rates_s.get(kind)
        return (seen.value if seen else DEFAULT_RATES_S[kind]) * (units + STARTS.get(kind, 0.0))

    def observe(self, kind: str, seconds: float, units: float = 1.0) -> None:
        """Update the rate of `kind` by one step that took `seconds`; steps without units or time are ignored."""
        if units <= 0 or seconds <= 0 or not math.isfinite(seconds):
            return
        mean, n_seen = self.rates_s.get(kind, RunningMean(DEFAULT_RATES_S[kind]))
        rate_s = min(seconds / (units + STARTS.get(kind, 0.0)), MAX_JUMP * mean)
        self.rates_s = {**self.rates_s, kind: RunningMean(mean + (rate_s - mean) / min(n_seen + 1, MEMORY), n_seen + 1)}
        self.is_changed = True

    def observe_gain(self, group: str, gain: float) -> None:
        """Update the mean gain of the problems in `group` by one tuning: `gain` is 0 when the default kernel won."""
        mean, n_seen = self.gains.get(group, RunningMean(0.0))
        gain = min(max(gain, 0.0), 0.99)
        self.gains = {**self.gains, group: RunningMean(mean + (gain - mean) / min(n_seen + 1, MEMORY), n_seen + 1)}
        self.is_changed = True

    def to_record(self) -> dict[str, Any]:
        """Return the estimates as JSON-ready data; `from_record` inverts it."""
        return {
            "rates_s": {kind: [mean.value, mean.n_seen] for kind, mean in sorted(self.rates_s.items())},
            "gains": {kind: [mean.value, mean.n_seen] for kind, mean in sorted(self.gains.items())},
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> CostEstimates:
        """Read the result of `to_record`; invalid parts are dropped, since estimates never justify a failure."""
        record = record if isinstance(record, Mapping) else {}
        rates_s, gains = _means(record.get("rates_s")), _means(record.get("gains"))
        most_s = {kind: MAX_RECORDED * rate_s for kind, rate_s in DEFAULT_RATES_S.items()}
        likely = {kind: mean for kind, mean in rates_s.items() if kind in most_s and 0 < mean.value <= MAX_RATE_S}
        return cls(
            {kind: RunningMean(min(mean.value, most_s[kind]), mean.n_seen) for kind, mean in likely.items()},
            {kind: mean for kind, mean in gains.items() if mean.value <= 1.0},
        )


MAX_RECORDED: Final = number("cost estimates", "maximum recorded ratio")
"""Maximum recorded rate over the default rate; an expensive step is performed, and thus observed, less often."""
MAX_RATE_S: Final = number("cost estimates", "maximum rate s")  # larger rates and 0, which would stay 0, are dropped
MAX_SEEN: Final = 2**53


def _means(table: Any) -> dict[str, RunningMean]:
    """Return the running means in a table {name: [value, count]} from a record; invalid entries are skipped."""
    means: dict[str, RunningMean] = {}
    if not isinstance(table, Mapping):
        return means
    for name, pair in table.items():
        match pair:
            case [int() | float() as value, int() as n_seen] if 0 <= value <= MAX_SEEN and 0 <= n_seen <= MAX_SEEN:
                means[str(name)] = RunningMean(float(value), n_seen)
            case _:
                continue
    return means
