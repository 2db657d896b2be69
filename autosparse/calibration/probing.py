"""Timing of the primitives that `calibrate` measures. Rates of the machine: `autosparse.tuning.rates.probing`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

SAMPLE_S: Final = 0.02
"""Minimum seconds of one timing sample."""
N_SAMPLES: Final = 7
"""Samples of each time; the fastest counts."""


def seconds_each(call: Callable[[int], None]) -> float:
    """Return the seconds of one round of ``call(n_rounds)``, from the fastest of N_SAMPLES samples."""
    rounds = 1
    while (took_s := _timed_s(call, rounds)) < SAMPLE_S:
        rounds = max(2 * rounds, int(rounds * SAMPLE_S / max(1e-9, took_s)) + 1)
    return min(_timed_s(call, rounds) for _ in range(N_SAMPLES)) / rounds


def _timed_s(call: Callable[[int], None], rounds: int) -> float:
    start_s = time.perf_counter()
    call(rounds)
    return time.perf_counter() - start_s
