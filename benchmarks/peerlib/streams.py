"""Two streams of calls that alternate in blocks, so that drift of the machine affects both alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from peerlib.timing import Clock, timed_calls

BLOCK_S = 0.05  # duration up to which blocks grow: long against clock resolution, short against drift


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Seconds of the first `n_measured` calls of each stream, and seconds per call in the last block."""

    first_s: float
    second_s: float
    n_measured: int
    first_pace_s: float
    second_pace_s: float

    def ratio(self, n_calls: int | None = None) -> float:
        """Return the time of the first stream over the second for `n_calls` calls.

        Calls that were not measured are extrapolated at the pace of the last block.
        """
        left = (n_calls or self.n_measured) - self.n_measured
        return (self.first_s + left * self.first_pace_s) / (self.second_s + left * self.second_pace_s)


@dataclass(frozen=True, slots=True)
class Stream:
    """A function to call repeatedly; each block of calls runs inside `around()`, which is not timed."""

    run: Callable[[], Any]
    around: Callable[[], AbstractContextManager[Any]] = nullcontext


def side_by_side(
    first: Stream,
    second: Stream,
    *,
    n_calls: int,
    most_s: float,
    second_leads: bool = False,
    clock: Clock = time.perf_counter,
) -> Totals:
    """Run both streams `n_calls` times, or until `most_s` have passed; the streams alternate in leading a block."""
    spent_s, last_s = [0.0, 0.0], [0.0, 0.0]
    n_done, n_block, leader = 0, 1, int(second_leads)
    start = clock()
    while n_done < n_calls and (n_done == 0 or clock() - start < most_s):
        n_block = min(n_block, n_calls - n_done)
        for which in (leader, 1 - leader):
            stream = (first, second)[which]
            with stream.around():
                last_s[which] = timed_calls(stream.run, n_block, clock)
            spent_s[which] += last_s[which] * n_block
        n_done, leader = n_done + n_block, 1 - leader
        if max(last_s) * n_block < BLOCK_S:
            n_block *= 2
    return Totals(
        first_s=spent_s[0],
        second_s=spent_s[1],
        n_measured=n_done,
        first_pace_s=last_s[0],
        second_pace_s=last_s[1],
    )
