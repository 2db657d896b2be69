"""Tests of whether sliced kernels share products between threads, by the serial time that they report to the pool."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse._native import runtime_api
from autosparse._native.ir.rough_times import SHARED_MIN_NS, mixes_rows

from autosparse import _native
from autosparse.core.formats import Format
from autosparse.core.pattern import Pattern
from autosparse.core.schedule import SuperSchedule
from tests.native import cases
from tests.native.runtime_cases import needs_runtime

pytestmark = needs_runtime

PARALLEL = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int,
    ctypes.c_double,
)  # fmt: skip
TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def matrix(n_rows: int, per_row: int) -> sp.csr_array:
    """Return a matrix with `per_row` or `per_row` - 1 entries in random columns of each row."""
    rng = np.random.default_rng(0)
    lengths = per_row - rng.integers(0, 2, n_rows)
    columns = np.concatenate([np.sort(rng.choice(n_rows, int(n), replace=False)) for n in lengths])
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return sp.csr_array((np.ones(len(columns), np.float32), columns.astype(np.int32), indptr), (n_rows, n_rows))


def bound(M: sp.csr_array, fmt: str, **fields: int) -> _native.BoundKernel:
    """Return the kernel of a format, bound to M."""
    made: SuperSchedule = cases.schedule(fmt, "i1 k1 i0", **fields)
    return cases.kernel(cases.spec(made)).bind(
        _native.pack(Pattern(*M.shape, M.indptr, M.indices), M.data, made.format, transposed=False)
    )


def told_ns(made: _native.BoundKernel, M: sp.csr_array) -> list[float]:
    """Return the serial times in ns that a product on two threads reports to the pool; [] where it does not ask."""
    told: list[float] = []

    @PARALLEL
    def parallel(task: int, context: int, n: int, least: int, most: int, n_threads: int, serial_ns: float) -> int:
        told.append(serial_ns)
        TASK(task)(context, 0, n)
        return 0

    made._operand.parallel = runtime_api.ffi.cast("void *", ctypes.cast(parallel, ctypes.c_void_p).value)
    x, y = np.ones((M.shape[1], 1), np.float32), np.empty((M.shape[0], 1), np.float32)
    made.run(x.ctypes.data, 1, y.ctypes.data, 1, 1, 2)
    assert (y[:, 0] == M @ x[:, 0]).all()
    return told


@pytest.mark.parametrize("sigma", [1, 512])
def test_gathered_cells_are_worth_a_helper_from_thirty_thousand_on(sigma):
    """Check the reported time: gathered cells take 0.3 to 0.5 ns each on one thread."""
    M = matrix(3_200, 11)
    (serial_ns,) = told_ns(bound(M, "i1:U,k1:S,i0:U | i=8" + (f" | sigma={sigma}" if sigma > 1 else "")), M)
    assert SHARED_MIN_NS <= serial_ns < 2 * SHARED_MIN_NS


def test_slices_with_few_cells_are_not_shared():
    M = matrix(1_000, 11)
    (serial_ns,) = told_ns(bound(M, "i1:U,k1:S,i0:U | i=8"), M)
    assert serial_ns < SHARED_MIN_NS


def test_rows_in_order_of_their_lengths_are_not_written_by_several_threads_where_rows_are_short():
    """Check short rows in order of their lengths, where threads would write to the same lines of C."""
    short, long = matrix(6_000, 6), matrix(1_200, 40)
    fmt = "i1:U,k1:S,i0:U | i=8 | sigma=8192"
    assert told_ns(bound(short, fmt), short) == []
    assert told_ns(bound(long, fmt), long) != []
    assert told_ns(bound(short, "i1:U,k1:S,i0:U | i=8 | sigma=512"), short) != []


def test_only_windows_are_mixed():
    """Check that rows count as mixed only where one window spans a large part of the matrix."""
    fmt = Format.parse("i1:U,k1:S,i0:U | i=8 | sigma=8192")
    assert mixes_rows(fmt, n_rows=8_192, n_cells=50_000)
    assert not mixes_rows(fmt, n_rows=80_000, n_cells=500_000)
    assert not mixes_rows(Format.parse("i1:U,k1:C"), n_rows=8_192, n_cells=50_000)
