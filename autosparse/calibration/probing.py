"""Measurement of this machine's rates in a few seconds: bandwidth of each cache level, gathers, multiply-adds."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from autosparse.calibration.collection import context_for
from autosparse.config import options
from autosparse.core.dtypes import Byte
from autosparse.core.target import Target
from autosparse.errors import BuildError
from autosparse.tuner.features.setting import MachineRates
from autosparse.tuner.research.collect.operations import OPS
from autosparse.tuner.research.generators.coordinates import Coordinates

SAMPLE_S: Final = 0.02
"""Minimum seconds of one timing sample."""
N_SAMPLES: Final = 7
"""Samples of each rate; the fastest counts."""
MAX_BYTES: Final = 1 << 28
"""Bytes of source and target together in a copy that measures memory."""
ROWS: Final = 8192
"""Rows and columns of the matrix that measures gathers."""
PER_ROW: Final = 32
"""Entries per row of the matrix that measures gathers."""
BAND: Final = 64
"""Entries per row of the band matrix that measures multiply-adds."""
WIDE: Final = 256
"""Columns of B in the product that measures multiply-adds."""


def measured_rates(target: Target, threads: int) -> MachineRates:
    """Measure with `threads` threads, about three seconds; each rate is that of the fastest of N_SAMPLES samples.

    L1 and L2 belong to each core: one thread is measured, and its rate is multiplied by `threads`.
    """
    l3_bytes = min(MAX_BYTES, max(4 * target.l2_bytes * threads, target.l3_bytes // 2))
    with options(effort="off", threads=threads):
        return MachineRates(
            l1=threads * _copied(target.l1_bytes // 4, 1),
            l2=threads * _copied(target.l2_bytes // 4, 1),
            l3=_copied(l3_bytes // 4 // threads, threads),
            memory=_copied(MAX_BYTES // 2 // threads, threads),
            gathers=_gathered(),
            flops=_multiplied(),
        )


def _copied(n_bytes: int, threads: int) -> float:
    """Return the bytes read and written per second by threads that each copy `n_bytes` between private arrays."""
    pairs = [(np.ones(n_bytes, Byte), np.ones(n_bytes, Byte)) for _ in range(threads)]
    if threads == 1:
        (source, target), (nothing, other) = pairs[0], (pairs[0][0][:0], pairs[0][1][:0])
        call_s = seconds_each(lambda rounds: _copy(nothing, other, rounds))
        copy_s = seconds_each(lambda rounds: _copy(source, target, rounds))
        return 2.0 * n_bytes / max(copy_s - call_s, 0.1 * copy_s)
    with ThreadPoolExecutor(threads) as pool:

        def all_copy(rounds: int) -> None:
            for done in [pool.submit(_copy, source, target, rounds) for source, target in pairs]:
                done.result()

        return 2.0 * n_bytes * threads / seconds_each(all_copy)


def _copy(source: NDArray[Byte], target: NDArray[Byte], rounds: int) -> None:
    for _ in range(rounds):
        np.copyto(target, source)


def _gathered() -> float:
    """Return the entries per second of the default SpMV with random columns, everything in the L2 caches."""
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(ROWS), PER_ROW)
    pattern = Coordinates.of((ROWS, ROWS), (rows, rng.integers(0, ROWS, rows.size)))
    return pattern.nnz / _product_s(pattern, 1)


def _multiplied() -> float:
    """Return the operations per second of the default product of a band matrix with WIDE columns, B's rows in L1."""
    rows = np.repeat(np.arange(ROWS // 8), BAND)
    pattern = Coordinates.of((ROWS // 8, ROWS), (rows, rows + np.tile(np.arange(BAND), ROWS // 8)))
    return 2.0 * pattern.nnz * WIDE / _product_s(pattern, WIDE)


def _product_s(pattern: Coordinates, n_dense_cols: int) -> float:
    """Measure the seconds of a product by the default kernel."""
    product = next(op for op in OPS.values() if op.n_dims == len(pattern.shape))  # of a matrix and a dense operand
    with context_for(pattern, dataclasses.replace(product, n_dense_cols=n_dense_cols)) as bench:
        run = bench.runner(bench(None))
        if run is None:
            raise BuildError("the default kernel does not run")

        def repeat(rounds: int) -> None:
            for _ in range(rounds):
                run()

        return seconds_each(repeat)


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


def keep_rates(rates: MachineRates, path: Path) -> None:
    """Write `rates` to `path` atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    staged.write_text(json.dumps(rates.to_data()), encoding="utf-8")
    staged.replace(path)
