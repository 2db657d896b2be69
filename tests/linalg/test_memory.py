"""Tests that a solve allocates no more memory than SciPy's, the matrix's own copy, and rows of its transpose."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
import scipy.sparse.linalg as scipys
from autosparse._native import memory, runtime_api

import autosparse as asp
from autosparse.dispatch import turned

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")

SIDE = 200
ADJOINT = ("bicg", "qmr", "lsqr", "lsmr")
"""Solvers that multiply by the transpose, of which rows may be kept."""
HOW: dict[str, dict[str, Any]] = {
    **{name: {"rtol": 1e-30, "maxiter": 8} for name in ("cg", "cgs", "bicg", "bicgstab", "minres", "qmr")},
    "gmres": {"rtol": 1e-30, "maxiter": 3, "restart": 10},
    "lsqr": {"atol": 0, "btol": 0, "iter_lim": 8},
    "lsmr": {"atol": 0, "btol": 0, "maxiter": 8},
}
SLACK_BYTES = 1 << 18
"""Bytes for Python's own objects, and for buffers whose size does not grow with the matrix."""


def grid() -> Any:
    line = sps.diags_array([-np.ones(SIDE - 1), np.full(SIDE, 2.1), -np.ones(SIDE - 1)], offsets=[-1, 0, 1])
    eye = sps.eye_array(SIDE)
    return sps.csr_array(sps.kron(line, eye) + sps.kron(eye, line))


def peak_bytes(call: Callable[[], object]) -> int:
    """Return the largest number of bytes that were allocated at once during the call."""
    gc.collect()
    memory.release_kept()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(autouse=True, params=["with rows of the transpose", "without them"])
def price_of_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let measured times decide neither when rows of the transpose are made nor whether they are dropped."""
    monkeypatch.setattr(turned, "PRICE_NS", 0 if request.param.startswith("with ") else 1 << 40)
    monkeypatch.setattr(turned, "TRIALS", 1 << 30)


@pytest.mark.parametrize("name", HOW)
def test_a_solve_takes_the_memory_of_scipys_and_a_copy(name: str) -> None:
    m, small = grid(), sps.eye_array(8, format="csr")
    b = np.random.default_rng(0).standard_normal(m.shape[0])
    ours, theirs = getattr(asp.linalg, name), getattr(scipys, name)
    own_bytes = m.data.nbytes + m.indices.nbytes + m.indptr.nbytes
    for each, A in ((theirs, small), (ours, asp.csr(small))):
        each(A, np.ones(8), **HOW[name])  # loads modules
    with asp.options(effort="off"):  # no packed copies
        scipy_bytes = peak_bytes(lambda: theirs(m, b, **HOW[name]))
        our_bytes = peak_bytes(lambda: ours(asp.csr(m), b, **HOW[name]))
    assert our_bytes <= scipy_bytes + own_bytes * (2 if name in ADJOINT else 1) + SLACK_BYTES


@pytest.mark.parametrize("name", [name for name in HOW if name != "bicg"])  # SciPy's
def test_a_second_solve_needs_no_vectors_but_its_result(name: str) -> None:
    """Check that work vectors, rows of the transpose and converted copies are kept with the matrix."""
    A = asp.csr(grid())
    b, solve = np.random.default_rng(0).standard_normal(A.shape[0]), getattr(asp.linalg, name)
    with asp.options(effort="off"):
        for _ in range(2):
            solve(A, b, **HOW[name])
        again_bytes = peak_bytes(lambda: solve(A, b, **HOW[name]))
    assert again_bytes <= 3 * b.nbytes + SLACK_BYTES, "x, and x0 or variances"


COLUMNS = 8
BLOCKS = {"cg": 4, "bicgstab": 6, "minres": 8, "gmres": 2}
"""Blocks of the shape of B that a solver needs without M, x included; gmres solves columns of short rows one by one."""


@pytest.mark.parametrize("name", BLOCKS)
def test_columns_allocate_the_blocks_of_the_recurrence(name: str) -> None:
    """Check that no block is allocated that nothing uses, and that a second solve allocates its result alone."""
    A, B = asp.csr(grid()), np.random.default_rng(0).standard_normal((SIDE * SIDE, COLUMNS))
    how = {**HOW[name], "columns": True}
    vectors_bytes = 4 * B[:, 0].nbytes  # of one column, and sums of dot products: 16 bytes per 8 KiB of a block
    with asp.options(effort="off"):
        getattr(asp.linalg, name)(asp.csr(sps.eye_array(8, format="csr")), np.ones((8, COLUMNS)), **how)
        first_bytes = peak_bytes(lambda: getattr(asp.linalg, name)(A, B, **how))
        again_bytes = peak_bytes(lambda: getattr(asp.linalg, name)(A, B, **how))
    basis_bytes = 13 * B[:, 0].nbytes if name == "gmres" else 0
    assert first_bytes <= BLOCKS[name] * B.nbytes + vectors_bytes + basis_bytes + SLACK_BYTES
    assert again_bytes <= (2 if name == "gmres" else 1) * B.nbytes + vectors_bytes + SLACK_BYTES
