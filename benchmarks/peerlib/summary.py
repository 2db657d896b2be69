"""Summaries of times: ratio of the best peer's time to ours per matrix, and distributions of ratios."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Versus:
    """Best peer on one matrix, among peers of the same kind (with or without ``out=``), and its time over ours."""

    matrix: str
    peer: str
    ratio: float  # its time / our time of the same kind; above 1 we are faster


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Distribution of ratios over matrices."""

    n: int
    geomean: float
    p5: float
    p50: float
    p95: float
    least: float

    @classmethod
    def of(cls, ratios: Sequence[float]) -> Distribution:
        """Summarise at least one ratio; percentiles interpolate linearly."""
        ordered = sorted(ratios)
        return cls(
            n=len(ordered),
            geomean=math.exp(statistics.fmean(map(math.log, ordered))),
            p5=percentile(ordered, 5),
            p50=percentile(ordered, 50),
            p95=percentile(ordered, 95),
            least=ordered[0],
        )


def percentile(ordered: Sequence[float], q: float) -> float:
    """Return the q-th percentile of values in increasing order, by linear interpolation."""
    position = (len(ordered) - 1) * q / 100
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def ratios(times_s: Mapping[str, float], fills: Mapping[str, bool], ours: Mapping[bool, str]) -> dict[str, float]:
    """Return each peer's time over ours of the same kind; `ours` names our contender per kind (fills or not)."""
    own = set(ours.values())
    return {
        peer: time_s / times_s[ours[fills[peer]]]
        for peer, time_s in times_s.items()
        if peer not in own and ours[fills[peer]] in times_s
    }


def best_peer(matrix: str, against: Mapping[str, float]) -> Versus:
    """Return the peer with the least ratio."""
    peer = min(against, key=lambda name: against[name])
    return Versus(matrix, peer, against[peer])
