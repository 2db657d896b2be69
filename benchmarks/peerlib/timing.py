"""Timing on a noisy machine: contenders alternate, samples are long enough, and medians are reported.

A sample consists of untimed calls for at least `warm_s`, after which the caches are the contender's own, and then of
enough timed calls to last `sample_s`. A round takes one sample of each contender in random order. Workers of OpenMP
spin for 3 to 10 ms after a product and occupy cores of the next contender: `settle_s` bounds the wait for their sleep.
Caches are not flushed between calls: this is the steady state of an iterative method.
"""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Clock = Callable[[], float]
ALIKE = 4
"""Factor within which contenders count as equally fast, and get the same number of calls per sample."""
SETTLE_S = 0.05
"""Value of `Protocol.settle_s` for contenders that use OpenMP."""
PAUSE_S = 2e-3
"""Sleep after which `settle` looks at the processor time of the process again."""
IDLE = 0.1
"""Share of a pause below which the process counts as idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """Duration and number of measurements."""

    rounds: int = 11
    sample_s: float = 1e-3
    warm_s: float = 2e-3
    settle_s: float = 0.0  # maximum wait for idle workers before each sample; 0: none
    most_s: float = 10.0  # for one case, all contenders together; limits the rounds, down to `least_rounds`
    least_rounds: int = 3
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Time of one call: median and quartiles over the samples."""

    median_s: float
    low_s: float
    high_s: float
    n_samples: int
    n_calls_per_sample: int

    @classmethod
    def of(cls, samples_s: list[float], n_calls: int) -> Timing:
        """Summarise per-call times."""
        # Median instead of mean: one page fault or another process changes the mean by tens of per cent.
        low, middle, high = (
            statistics.quantiles(samples_s, n=4, method="inclusive") if len(samples_s) > 1 else samples_s * 3
        )
        return cls(median_s=middle, low_s=low, high_s=high, n_samples=len(samples_s), n_calls_per_sample=n_calls)


def timed_calls(run: Callable[[], Any], n_calls: int, clock: Clock = time.perf_counter) -> float:
    """Return the seconds per call.

    The previous result is alive while the next one is computed, as in ``C = A @ B`` in a loop.
    """
    start = clock()
    for _ in itertools.repeat(None, n_calls):
        kept = run()
    elapsed_s = clock() - start
    del kept
    return elapsed_s / n_calls


def warm_up(run: Callable[[], Any], least_s: float, clock: Clock = time.perf_counter) -> float:
    """Call until `least_s` have passed, at least once; return the seconds of the fastest call."""
    start, fastest = clock(), float("inf")
    while True:
        fastest = min(fastest, timed_calls(run, 1, clock))
        if clock() - start >= least_s:
            return fastest


def settle(most_s: float, *, cpu: Clock = time.process_time, sleep: Callable[[float], None] = time.sleep) -> None:
    """Sleep until no thread of the process runs, for about `most_s` at most."""
    for _ in range(round(most_s / PAUSE_S)):
        before_s = cpu()
        sleep(PAUSE_S)
        if cpu() - before_s < IDLE * PAUSE_S:
            return


def calls_per_sample(first_s: Mapping[str, float], sample_s: float) -> dict[str, int]:
    """Return the number of calls that last `sample_s`, equal for contenders of similar speed.

    A sample of one call allocates its result where the previous one was. In a sample of two calls the second finds that
    memory in use and may request pages from the system: a contender with one call was 2.5 times as fast as an equal one
    with two.
    """
    fitting = {name: max(1, round(sample_s / call_s + 0.5)) for name, call_s in first_s.items()}
    most = max(fitting.values(), default=1)
    return {name: most if ALIKE * n >= most else n for name, n in fitting.items()}


def take_turns(
    contenders: Mapping[str, Callable[[], Any]], protocol: Protocol, *, clock: Clock = time.perf_counter
) -> dict[str, Timing]:
    """Time each contender in interleaved rounds."""
    first_s = {name: max(warm_up(run, 10 * protocol.warm_s, clock), 1e-9) for name, run in contenders.items()}
    n_calls = calls_per_sample(first_s, protocol.sample_s)
    round_s = sum((n_calls[name] + 1) * call_s + protocol.warm_s for name, call_s in first_s.items())
    rounds = min(protocol.rounds, max(protocol.least_rounds, int(protocol.most_s / round_s)))
    rng, order = random.Random(protocol.seed), list(contenders)
    samples_s: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        rng.shuffle(order)
        for name in order:
            settle(protocol.settle_s)
            warm_up(contenders[name], protocol.warm_s, clock)
            samples_s[name].append(timed_calls(contenders[name], n_calls[name], clock))
    return {name: Timing.of(samples, n_calls[name]) for name, samples in samples_s.items()}
