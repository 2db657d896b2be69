"""Measurement of this machine's rates: bandwidth of each cache level, gathers, multiply-adds, starts of threads.

Tuning measures for LIMIT_S where no record exists, the command `calibrate` longer. Both use `measured_rates`. Each rate
is that of the fastest of several samples, because other work on the machine makes samples slower, never faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from autosparse._native import runtime_api
from autosparse.core.dtypes import Byte, NarrowIndex, NarrowReal
from autosparse.core.target import Target
from autosparse.core.values import dataclass
from autosparse.targets.priors import number
from autosparse.tuning.rates.probed import ProbedRates
from autosparse.tuning.rates.scaling import usual_memory_share

LIMIT_S: Final = number("step seconds per unit", "rates")
"""Maximum seconds of a measurement by tuning, allocation included. More time gives more samples."""
SAMPLE_S: Final = number("measuring rates", "sample s")
"""Minimum seconds of one sample on one thread; shorter ones would time the clock and calls of Python."""
SHARED_SAMPLE_S: Final = number("measuring rates", "shared sample s")
"""Minimum seconds of a copy by several threads of Python, which take up to 0.1 ms to start and time themselves."""
MIN_SAMPLES: Final = 3
"""Minimum number of samples of a rate, whatever the time limit, for work that is shorter than SAMPLE_S."""
MAX_SAMPLES: Final = 50
"""Maximum number of samples of one rate."""
MAX_UNTIMED: Final = 64
"""Number of rounds after which a clock that has not moved is one that a program has stopped, as its tests do."""
MIN_BYTES: Final = 24 << 20
"""Minimum footprint in bytes of the copy that measures memory: source and target of all threads together.

The cost models count the last-level cache at 16 L2 sizes at most, since servers share it with other processes.
"""
MAX_BYTES: Final = 128 << 20
"""Maximum footprint in bytes of the same copy. First writes to new memory take most of the time limit."""
ROWS: Final = 4096
"""Rows and columns of the matrix that measures gathers. Its operands fit into an L2 cache of 1 MiB."""
PER_ROW: Final = 24
"""Entries per row of the matrix that measures gathers."""
BAND_ROWS: Final = 512
"""Rows of the band matrix that measures multiply-adds."""
BAND: Final = 32
"""Entries per row of the band matrix."""
WIDE: Final = 256
"""Columns of B in the product that measures multiply-adds."""
COPIES: Final = 64
"""Maximum number of copies by one call of NumPy. A call takes as long as a copy of an L1 cache."""
LINE_BYTES: Final = 64
HASH: Final = 2_654_435_761
"""Knuth's multiplier of hashing, which makes random columns."""
PAUSE_S: Final = number("measuring rates", "pause s")
"""Seconds after which the pool's threads sleep (docs/howto/threads.md)."""

MIN_BUSY: Final = number("measuring rates", "minimum busy")
"""Minimum processor time of work by one thread over wall time; below it, other programs used the core meanwhile."""
MAX_CAUTION_S: Final = number("measuring rates", "longest caution s")
"""Maximum seconds to wait while the pool restricts products to one thread, as after its threads were started."""

Repeat = Callable[[int], "float | None"]
"""Type of a function that does a piece of work n times; it returns the seconds if the caller's clock would not tell."""
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Measurement:
    """Measured rates, and whether they are wrong: other programs used the cores meanwhile, or the clock stood still."""

    rates: ProbedRates
    is_disturbed: bool


def measured_rates(
    target: Target, threads: int, *, limit_s: float = LIMIT_S, work: Workloads | None = None,
    clock: Clock = time.perf_counter, cpu_clock: Clock = time.process_time,
) -> Measurement:  # fmt: skip
    """Measure the rates of `threads` threads and of one thread in about `limit_s` seconds.

    L1 and L2 caches belong to each core, so one thread is measured and its rate is multiplied by `threads`.
    """
    timer, far = _Timer(clock() + limit_s, clock, cpu_clock), far_bytes(target, threads)
    work = work or Workloads(far, threads)
    try:
        one_gathers, gathers = (timer.rate(*work.gather(n), 0.06, n) for n in (1, threads))
        flops = timer.rate(*work.multiply(threads), 0.06, threads)
        l1, l2 = (
            threads * timer.rate(n, work.copy(n, 1), 0.03) for n in (target.l1_bytes * 3 // 4, target.l2_bytes // 2)
        )
        n_entries = work.gather(1)[0]
        start_s = max(0.0, n_entries / gathers - n_entries / one_gathers / threads)
        wake_s = timer.wake_s(work, threads, n_entries / gathers)
        near = min(far // 2, 2 * target.l2_bytes * threads)
        shared_s = SHARED_SAMPLE_S if threads > 1 else SAMPLE_S
        begin_s = clock()
        copy = work.copy(near, threads)
        write_s = clock() - begin_s
        l3 = timer.rate(near, copy, 0.1, threads, shared_s)
        core_l3 = timer.rate(near // threads, work.copy(near // threads, 1), 0.1)
        if timer.is_written(work, threads, (near, far), write_s):
            memory = timer.rate(far, work.copy(far, threads), 0.4, threads, shared_s)
            core_memory = timer.rate(far, work.copy(far, 1), 1.0)
        else:  # a footprint of `near` would give the rate of the last cache
            memory, core_memory = (rate * usual_memory_share(target) for rate in (l3, core_l3))
    finally:
        work.close()
    rates = ProbedRates(
        l1=l1, l2=l2, l3=l3, memory=memory, gathers=gathers, flops=flops, core_l3=core_l3, core_memory=core_memory,
        start_s=start_s, wake_s=wake_s,
    )  # fmt: skip
    return Measurement(rates, is_disturbed=timer.is_disturbed)


def far_bytes(target: Target, threads: int) -> int:
    """Return the footprint of the copy that measures memory: beyond the L2 caches of all threads, within MAX_BYTES.

    It exceeds the last-level cache, too, where that fits into MAX_BYTES twice. A larger one is shared with other
    processes, and the cost models do not count on it.
    """
    wanted = max(MIN_BYTES, 6 * target.l2_bytes * threads)
    if 2 * target.l3_bytes <= MAX_BYTES:
        wanted = max(wanted, 2 * target.l3_bytes)
    return min(wanted, MAX_BYTES) // (2 * threads) * 2 * threads


class _Timer:
    """Timer of pieces of work that shares the time until `end_s` among them."""

    def __init__(self, end_s: float, clock: Clock, cpu_clock: Clock) -> None:
        self._end_s, self._clock, self._cpu_clock = end_s, clock, cpu_clock
        self.is_disturbed = False  # other programs used the cores during one of the rates, or the clock stood still

    def left_s(self) -> float:
        """Return the seconds until the end; negative after it."""
        return self._end_s - self._clock()

    def rate(self, units: float, repeat: Repeat, share: float, threads: int = 1, sample_s: float = SAMPLE_S) -> float:
        """Return the units per second of the fastest sample, in at most about `share` of the time that is left.

        `threads` threads work. A sample has as many rounds as `sample_s` takes. A first run finds cold caches and does
        not count.
        """
        begin_s, cpu_s = self._clock(), self._cpu_clock()
        limit_s = begin_s + share * max(0.0, self._end_s - begin_s)
        self._sample_s(repeat, 1)
        rounds, best_s = 1, self._sample_s(repeat, 1)
        while rounds * best_s < sample_s and rounds < (1 << 20 if best_s > 0 else MAX_UNTIMED):
            rounds = max(2 * rounds, min(64 * rounds, int(sample_s / max(best_s, 1e-9)) + 1))
            best_s = min(best_s, self._sample_s(repeat, rounds))
        for n in range(MAX_SAMPLES if best_s > 0 else 0):
            is_short = rounds * best_s < 4 * sample_s
            if self._clock() + rounds * best_s > limit_s and (n >= MIN_SAMPLES or not is_short):
                break
            best_s = min(best_s, self._sample_s(repeat, rounds))
        busy = (self._cpu_clock() - cpu_s) / max(self._clock() - begin_s, 1e-9)
        self.is_disturbed |= best_s <= 0 or (threads == 1 and busy < MIN_BUSY)  # several threads start too late
        return units / max(best_s, 1e-12)

    def _sample_s(self, repeat: Repeat, rounds: int) -> float:
        start_s = self._clock()
        own_s = repeat(rounds)
        return (self._clock() - start_s if own_s is None else own_s) / rounds

    def is_written(self, work: Workloads, threads: int, sizes: tuple[int, int], step_s: float) -> bool:
        """Write a footprint once, from the first of `sizes` to the last; return whether the time left allows it.

        It grows by the first size, which took `step_s`. New memory of a virtual machine is slow in phases.
        """
        step, far = sizes
        size = step
        while size < far and self.left_s() > step_s * (far - size) / step:
            begin_s, size = self._clock(), min(far, size + step)
            work.copy(size, threads)
            step_s = self._clock() - begin_s
        return size == far

    def wake_s(self, work: Workloads, threads: int, usual_s: float) -> float:
        """Return the least seconds by which a product after a pause exceeds `usual_s`; 0 for one thread."""
        if threads == 1:
            return 0.0
        found, (_, product) = list[float](), work.gather(threads)
        for _ in range(2):
            work.pause()
            found.append(self._sample_s(product, 1) - usual_s)
        return max(0.0, min(found))


class Workloads:
    """Pieces of work that are timed: NumPy's copies, and products by the default kernels."""

    def __init__(self, far: int, threads: int) -> None:
        spare = COPIES * LINE_BYTES * threads
        self._source, self._target = (np.empty(far // 2 + spare, Byte) for _ in range(2))
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._n_touched = 0  # bytes of both arrays that were written, so that the system has assigned memory
        # Multiplicative hashing: importing NumPy's random generators would take 10 ms.
        columns = (np.arange(ROWS * PER_ROW) * HASH % (1 << 32) * ROWS >> 32).astype(NarrowIndex)
        self._narrow = _csr(ROWS, PER_ROW, columns), np.ones(ROWS, NarrowReal), np.empty(ROWS, NarrowReal)
        band = np.add.outer(np.arange(BAND_ROWS, dtype=NarrowIndex), np.arange(BAND, dtype=NarrowIndex)).ravel()
        B, C = np.ones((BAND_ROWS + BAND, WIDE), NarrowReal), np.empty((BAND_ROWS, WIDE), NarrowReal)
        self._wide = _csr(BAND_ROWS, BAND, band), B, C

    def _parts(self, n_bytes: int, threads: int) -> list[tuple[NDArray[Byte], NDArray[Byte]]]:
        size, spare = n_bytes // threads, COPIES * LINE_BYTES
        begins = [at * (size + spare) for at in range(threads)]
        return [(self._source[at : at + size], self._target[at : at + size + spare]) for at in begins]

    def _touch(self, n_bytes: int) -> None:
        """Write the first bytes of both arrays once, in parallel."""
        begin, self._n_touched = self._n_touched, max(self._n_touched, n_bytes)
        if begin < n_bytes:
            fill = map if self._pool is None else self._pool.map
            list(fill(lambda one: one[begin:n_bytes].fill(1), (self._source, self._target)))

    def copy(self, n_bytes: int, threads: int) -> Repeat:
        """Return a copy of `n_bytes` / 2 bytes, divided among `threads` threads."""
        self._touch(n_bytes // 2 + threads * COPIES * LINE_BYTES)
        parts, pool = self._parts(n_bytes // 2, threads), self._pool
        if threads == 1 or pool is None:
            return lambda rounds: _copy(*parts[0], rounds)
        return lambda rounds: max(one.result() for one in [pool.submit(_copy, *pair, rounds) for pair in parts])

    def gather(self, threads: int) -> tuple[float, Repeat]:
        """Return the number of entries of a cache-resident SpMV with random columns, and the product."""
        return float(ROWS * PER_ROW), _settled(_product(*self._narrow, threads), threads)

    def multiply(self, threads: int) -> tuple[float, Repeat]:
        """Return the number of operations of a wide SpMM whose rows of B stay in the L1 cache, and the product."""
        return 2.0 * BAND_ROWS * BAND * WIDE, _settled(_product(*self._wide, threads), threads)

    def pause(self) -> None:
        """Sleep until the pool's threads sleep."""
        time.sleep(PAUSE_S)

    def close(self) -> None:
        """Free memory and threads."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)
        del self._source, self._target


def _csr(n_rows: int, per_row: int, columns: NDArray[NarrowIndex]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    indptr = np.arange(0, n_rows * per_row + 1, per_row, dtype=NarrowIndex)
    return indptr, columns, np.ones(columns.size, NarrowReal)


def _copy(source: NDArray[Byte], target: NDArray[Byte], rounds: int) -> float:
    """Copy `source` `rounds` times by few calls of NumPy, without Python's lock; return the seconds of this thread.

    Each copy begins LINE_BYTES after the one before: NumPy would change the order of loops over equal copies.
    """
    start_s = time.perf_counter()
    for left in range(rounds, 0, -COPIES):
        shape = min(left, COPIES), source.size
        np.copyto(as_strided(target, shape, (LINE_BYTES, 1)), np.broadcast_to(source, shape))
    return time.perf_counter() - start_s


def _settled(product: Repeat, threads: int) -> Repeat:
    """Return `product` after a first run, which may start threads, and after the pool's restriction to one thread."""
    product(1)
    if threads > 1:
        time.sleep(min(MAX_CAUTION_S, runtime_api.lib.asp_pool_caution_left_ns() * 1e-9))
    return product


def _product(csr: Any, B: NDArray[Any], out: NDArray[Any], threads: int) -> Repeat:
    shape = (out.shape[0], B.shape[0])

    def repeat(rounds: int) -> None:
        lib = runtime_api.lib
        lib.asp_pool_tune_call_intervals(0)  # the pool compares numbers of threads by the user's own products alone
        try:
            for _ in range(rounds):
                runtime_api.matmul(csr, shape, B, out, threads=threads)
        finally:
            lib.asp_pool_tune_call_intervals(1)

    return repeat
