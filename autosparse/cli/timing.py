"""Time several calls in turn and compare medians, so that other load on the machine slows all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

Call = Callable[[], object]


def race(
    calls: Mapping[str, Call], *, rounds: int = 15, sample_s: float = 2e-3, limit_s: float = 3.0
) -> dict[str, float]:
    """Return the median seconds of one run of each of `calls` by name, timed in turn; short ones repeat in a sample.

    Timing stops after `rounds`, or after `limit_s` seconds with at least three rounds. Each call first runs twice
    without being counted, to warm up and to choose the number of repetitions.
    """
    repeats = {name: _repeats(call, sample_s) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    end_s = time.perf_counter() + limit_s
    for turn in range(rounds):
        for name, call in calls.items():
            samples[name].append(_time_s(call, repeats[name]) / repeats[name])
        if turn >= 2 and time.perf_counter() > end_s:
            break
    return {name: statistics.median(taken) for name, taken in samples.items()}


def once(call: Call) -> float:
    """Return the seconds of a single call."""
    return _time_s(call, 1)


def _repeats(call: Call, sample_s: float) -> int:
    call()
    return max(1, min(1000, round(sample_s / max(_time_s(call, 1), 1e-7))))


def _time_s(call: Call, repeats: int) -> float:
    start_s = time.perf_counter()
    for _ in range(repeats):
        call()
    return time.perf_counter() - start_s
