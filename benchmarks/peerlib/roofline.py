"""Roofline of a case: a lower bound on its time from multiply-adds and from memory traffic (Williams et al. 2009).

Limits are measured on the contenders' machine: multiply-adds per second with operands in registers, and bytes per
second of reads and of triads (a = b + s c), at footprints from the first-level cache to beyond the last. Caches stay
warm between calls, so a product's limit is the bandwidth of the smallest cache that holds all data it must touch. These
are A in CSR (CSF for tensors), the rows of the dense operands that A refers to, and the result, each once. Formats that
store less than CSR can exceed the limit.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from autosparse.core.target import Target
from peerlib.c_peers import C_TYPES, own_library
from peerlib.case import Case
from peerlib.tensor_peers import csf_levels

SMALLEST_BYTES: Final = 1 << 15
LARGEST_BYTES: Final = 1 << 30
SAMPLE_S: Final = 2e-3
MAX_S: Final = 0.3
"""Maximum seconds of a sample, if threads keep waiting for each other."""
PROPORTIONAL: Final = 1.7
N_SAMPLES: Final = 3
MAX_GROWTH: Final = 64
"""Maximum factor by which the rounds of a sample grow at once."""
LINE_VALUES: Final = 128
"""Divisor of the lengths of slices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Rates that `threads` threads reach together with values of one type."""

    dtype: str
    threads: int
    flops: float  # operations per second, a multiply-add counted as two
    read: tuple[tuple[float, float], ...]  # (footprint in bytes, bytes per second), by growing footprint
    triad: tuple[tuple[float, float], ...]

    @property
    def curve(self) -> list[tuple[float, float]]:
        """Better rate of reads and triads at every footprint, made non-increasing with the footprint."""
        better = [(size, max(one, other)) for (size, one), (_, other) in zip(self.read, self.triad, strict=True)]
        rates = list(itertools.accumulate((rate for _, rate in reversed(better)), max))
        return [(size, rate) for (size, _), rate in zip(better, reversed(rates), strict=True)]

    def bandwidth(self, n_bytes: float) -> float:
        """Return bytes per second for operands of `n_bytes` in total, interpolated in logarithms of both."""
        sizes, rates = zip(*self.curve, strict=True)
        return float(np.exp(np.interp(np.log(max(n_bytes, 1.0)), np.log(sizes), np.log(rates))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Minimum work of a case."""

    flops: float
    n_bytes: float

    def least_s(self, limits: Limits) -> float:
        """Return the roofline, in seconds."""
        return max(self.flops / limits.flops, self.n_bytes / limits.bandwidth(self.n_bytes))

    def bound(self, limits: Limits) -> str:
        """Return which of the two limits applies."""
        by_flops = self.flops / limits.flops > self.n_bytes / limits.bandwidth(self.n_bytes)
        return "multiply-adds" if by_flops else "bytes"


# -- limits -----------------------------------------------------------------------------------------------------------


def measure_limits(dtype: str, threads: int, *, largest_bytes: int | None = None) -> Limits:
    """Measure the limits, in about two seconds; raise RuntimeError without a C compiler.

    `largest_bytes` defaults to twice the last cache, at most LARGEST_BYTES.
    """
    library = own_library("roofline.c", dtype)
    largest = largest_bytes or min(LARGEST_BYTES, max(2 * Target.host().l3_bytes, 1 << 26))
    item = np.dtype(dtype).itemsize
    sizes = [SMALLEST_BYTES << step for step in range(max(2, math.ceil(math.log2(largest / SMALLEST_BYTES)) + 1))]
    least = 3 * threads * LINE_VALUES  # values of a triad on the shortest slices
    room = np.ones(max(sizes[-1] // item, least) + LINE_VALUES, dtype)  # zeros would be mapped to a single page
    start = -room.ctypes.data % 64 // item
    c_real = {"float": ctypes.c_float, "double": ctypes.c_double}[C_TYPES[dtype]]
    library.read_all.restype = c_real

    def at(offset: int) -> ctypes.c_void_p:
        return ctypes.c_void_p(room.ctypes.data + (start + offset) * item)

    def rate(n_arrays: int, n_bytes: int, call: Callable[[int, int], object]) -> tuple[float, float]:
        per_thread = max(1, n_bytes // (n_arrays * threads * item * LINE_VALUES)) * LINE_VALUES
        moved = n_arrays * threads * per_thread * item
        return float(moved), moved / fastest_s(lambda rounds: call(per_thread, rounds))

    def read(per_thread: int, rounds: int) -> None:
        library.read_all(at(0), *_longs(per_thread, rounds), threads)

    def triad(per_thread: int, rounds: int) -> None:
        arrays = [at(n * threads * per_thread) for n in range(3)]
        library.triad(*arrays, c_real(0.5), *_longs(per_thread, rounds), threads)

    result = np.zeros(1, dtype)

    def multiply_add(rounds: int) -> int:
        address = ctypes.c_void_p(result.ctypes.data)
        return int(library.multiply_add(address, c_real(0.999), c_real(1e-3), *_longs(rounds), threads))

    per_round = 2.0 * multiply_add(1) * threads
    return Limits(
        dtype=dtype,
        threads=threads,
        flops=per_round / fastest_s(multiply_add),
        read=tuple(rate(1, size, read) for size in sizes),
        triad=tuple(rate(3, size, triad) for size in sizes),
    )


def limits_or_none(dtype: str, threads: int, *, largest_bytes: int | None = None) -> Limits | None:
    """Return `measure_limits`, or None if it cannot be compiled."""
    try:
        return measure_limits(dtype, threads, largest_bytes=largest_bytes)
    except (RuntimeError, OSError):
        return None


def _longs(*numbers: int) -> list[ctypes.c_int64]:
    return [ctypes.c_int64(one) for one in numbers]


def fastest_s(call: Callable[[int], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds of a round of ``call(rounds)``, in the fastest of N_SAMPLES calls: a limit is a best case.

    Samples grow until they last SAMPLE_S and twice the rounds take about twice the time. If other processes use the
    cores, threads wait milliseconds for each other at the end of every call.
    """
    rounds = 1
    while True:
        once_s, twice_s = (min(_timed_s(call, n, clock) for _ in range(N_SAMPLES)) for n in (rounds, 2 * rounds))
        if (once_s >= SAMPLE_S and twice_s >= PROPORTIONAL * once_s) or twice_s > MAX_S:
            return twice_s / (2 * rounds)
        rounds *= max(2, min(MAX_GROWTH, math.ceil(SAMPLE_S / max(once_s, 1e-9))))


def _timed_s(call: Callable[[int], object], rounds: int, clock: Callable[[], float]) -> float:
    start_s = clock()
    call(rounds)
    return clock() - start_s


# -- work -------------------------------------------------------------------------------------------------------------


def work_of(case: Case) -> Work:
    """Return the multiply-adds and bytes of one call."""
    return WORK[case.operation.kind](case)


def roofline_of(case: Case, limits: Limits) -> dict[str, Any]:
    """Return the roofline fields of a record."""
    work = work_of(case)
    return {
        "flops": work.flops,
        "bytes": work.n_bytes,
        "least_s": work.least_s(limits),
        "bound": work.bound(limits),
        "bandwidth": limits.bandwidth(work.n_bytes),
    }


def _csr_bytes(A: Any) -> int:
    return int(A.data.nbytes + A.indices.nbytes + A.indptr.nbytes)


def _n_columns(A: Any) -> int:
    """Return the number of columns with entries, which is the number of rows of B that are read."""
    return int(np.count_nonzero(np.bincount(A.indices, minlength=A.shape[1])))


def _matmul(case: Case) -> Work:
    A, n = case.A, case.operation.n_dense_cols
    return Work(flops=2.0 * A.nnz * n, n_bytes=_csr_bytes(A) + (_n_columns(A) + A.shape[0]) * n * A.data.itemsize)


def _sampled(case: Case) -> Work:
    """Return the work of SDDMM: rows without entries need no row of X; values of A are read, those of S are written."""
    A, n = case.A, case.operation.n_dense_cols
    n_rows = int(np.count_nonzero(np.diff(A.indptr)))
    return Work(
        flops=2.0 * A.nnz * n,
        n_bytes=_csr_bytes(A) + A.data.nbytes + (_n_columns(A) + n_rows) * n * A.data.itemsize,
    )


def _mttkrp(case: Case) -> Work:
    """Return the work of MTTKRP: one row multiply-add per entry and per inner node of CSF (SPLATT's factoring)."""
    T, mode, n = case.A, case.operation.mode, case.operation.n_dense_cols
    _, ids, ptr, values = csf_levels(case)
    n_inner = sum(len(level) for level in ids[1:-1])
    stored = sum(level.nbytes for level in (*ids, *ptr)) + values.nbytes
    touched = sum(np.unique(row).size for at, row in enumerate(T.coords) if at != mode)
    return Work(flops=2.0 * (T.nnz + n_inner) * n, n_bytes=stored + (touched + T.shape[mode]) * n * T.data.itemsize)


def _sparse(case: Case) -> Work:
    """Return the work of SpGEMM: A is read, and the product is written in CSR."""
    A = case.A
    n_products = int(np.diff(A.indptr).astype(np.int64)[A.indices].sum())
    return Work(flops=2.0 * n_products, n_bytes=_csr_bytes(A) + _csr_bytes(A @ A))


WORK: Final[dict[str, Callable[[Any], Work]]] = {
    "spmv": _matmul,
    "spmm": _matmul,
    "sddmm": _sampled,
    "mttkrp": _mttkrp,
    "spgemm": _sparse,
}
"""Function that returns the minimum work of a case, by kind of operation."""
