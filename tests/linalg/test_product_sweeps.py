"""Tests that a sweep fused with a product computes what the product and a separate sweep compute, to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
import scipy.sparse.linalg as scipys
from autosparse._native import python_objects, runtime_api

import autosparse as asp
from autosparse.dispatch import state as dispatch_state
from autosparse.linalg.operators import ProductSweep, product_of
from autosparse.linalg.sweeps import Combine, Dot, Sweep
from tests.linalg.systems import grid
from tests.native import cases
from tests.native.hooks import on_several_threads
from tests.tuning.forcing import force, schedule_of, until

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")

N_ROWS = 5003
"""More rows than several chunks of a sweep, and no multiple of one."""
LONG = 9000
"""Number of entries of a row that the runtime divides among threads."""


@pytest.fixture(autouse=True)
def fast_calls_from_the_start(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(dispatch_state, "FIRST_FAST_PATH", 2)
    with asp.options(effort="off"):
        yield


def made(shape: int | tuple[int, ...], code: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if code in "FD" else values).astype(code)


def matrix(code: str, *, has_long_row: bool) -> Any:
    """Return a matrix with empty rows, rows of different lengths, and perhaps a long row."""
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 9, N_ROWS)
    if has_long_row:
        lengths[[1500, 4999]] = LONG
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    indices = np.concatenate([np.sort(rng.choice(LONG, n, replace=False)) for n in lengths]).astype(np.int32)
    return asp.csr(sps.csr_array((made(indptr[-1], code, 6), indices, indptr), shape=(N_ROWS, LONG)))


def served(A: Any, x: Any) -> None:
    """Compute products until a fast call serves them."""
    out = np.empty((A.shape[0], *x.shape[1:]), x.dtype)
    for _ in range(4):
        asp.matmul(A, x, out=out)
    assert A._cell.fast_path is not None


def open_fast_path(A: Any, x: Any) -> None:
    """Let a fast call serve the next products, without the limit at which tuning continues.

    A product that takes long, as on a busy machine, is followed by a step of tuning instead of a fast path.
    """
    for _ in until(lambda: A._cell.dispatcher.hot[1, False].fast_path is not None):
        asp.matmul(A, x, out=np.empty(A.shape[0]))
    A._cell.dispatcher.hot[1, False].fast_path.open()


class Counting:
    """A function that counts the calls that returned something."""

    def __init__(self, call: Any) -> None:
        self.call, self.n = call, 0

    def __call__(self, *arguments: Any) -> Any:
        found = self.call(*arguments)
        self.n += found is not None
        return found


@pytest.mark.skipif(python_objects.FastCall is None, reason="needs the extension module")
@pytest.mark.parametrize("code", ["f", "d", "F", "D"])
@pytest.mark.parametrize("has_long_row", [False, True])
def test_the_fused_sweep_has_the_bits_of_a_separate_one(code: str, has_long_row: bool) -> None:
    A, x, u = matrix(code, has_long_row=has_long_row), made(LONG, code, 1), made(N_ROWS, code, 2)
    served(A, x)
    wanted, out = np.empty(N_ROWS, code), np.empty(N_ROWS, code)
    asp.matmul(A, x, out=wanted)
    dots = Sweep([Combine(wanted, (wanted, u)), Dot(wanted, u), Dot(wanted, wanted)])(0.5, -1.0)
    for threads in (1, 2, 3):
        with asp.options(threads=threads), on_several_threads():
            served(A, x)
            fused = ProductSweep(product_of(A, x.dtype), [Combine(out, (out, u)), Dot(out, u), Dot(out, out)])
            fused._after = counting = Counting(fused._after)
            assert fused(x, out, 0.5, -1.0) == dots
            assert out.tobytes() == wanted.tobytes()
            assert counting.n == 1


@pytest.mark.skipif(python_objects.FastCall is None, reason="needs the extension module")
@pytest.mark.parametrize("schedule", ["csr", "columns", "diagonals", "slices"])
@pytest.mark.parametrize("n", [N_ROWS, 40_009])
def test_a_sweep_after_a_generated_kernel_has_the_bits_of_a_separate_one(n: int, schedule: str) -> None:
    A = asp.csr(sps.csr_array(sps.diags_array([np.full(n - 1, -1.0), made(n, "d", 3)], offsets=[-1, 0])))
    x, u = made(n, "d", 1), made(n, "d", 2)
    with asp.options(effort="measure", extra_memory=8.0):
        trial = force(A, schedule_of(schedule, 1))
        for threads in (1, 2, 3):
            with asp.options(threads=threads), on_several_threads():
                open_fast_path(A, x)
                wanted, out, kept, summed = A @ x, np.empty(n), u.copy(), u.copy()
                dots = Sweep([Combine(kept, (wanted, kept)), Dot(kept, u), Dot(wanted, x)])(0.5, -1.0)
                for steps in ([Dot(out, x)], [Combine(summed, (out, summed)), Dot(summed, u), Dot(out, x)]):
                    fused = ProductSweep(product_of(A, x.dtype), steps)
                    fused._after = counting = Counting(fused._after)
                    open_fast_path(A, x)
                    assert fused(x, out, *[0.5, -1.0][: 2 * len(steps) - 2]) == dots[-2 * len(steps) + 1 :]
                    assert (trial.ready, counting.n) == (True, 1)
                assert (out.tobytes(), summed.tobytes()) == (wanted.tobytes(), kept.tobytes())


@pytest.mark.skipif(python_objects.FastCall is None, reason="needs the extension module")
@pytest.mark.parametrize("sigma", [16, 512])
def test_a_sweep_waits_for_rows_that_are_sorted_beside_slices_of_diagonals(sigma: int) -> None:
    """Check that no chunk is taken as complete while its rows are in a window with rows from far away."""
    n, rng = N_ROWS, np.random.default_rng(4)
    far = np.flatnonzero(np.arange(n) // 16 % 3 == 0)
    stray = sps.coo_array((made(far.size, "d", 5), (far, rng.integers(0, n, far.size))), shape=(n, n))
    A = asp.csr(sps.csr_array(sps.diags_array([np.full(n - 1, -1.0), made(n, "d", 3)], offsets=[-1, 0]) + stray))
    x, made_by = made(n, "d", 1), cases.schedule(f"i1:U,k1:D,i0:U | i=16 | sigma={sigma} | bits=16", "i1 k1 i0")
    with asp.options(effort="measure", extra_memory=8.0), on_several_threads():
        force(A, made_by)
        served(A, x)
        wanted, out = A @ x, np.empty(n)
        dots, fused = Sweep([Dot(wanted, x)])(), ProductSweep(product_of(A, x.dtype), [Dot(out, x)])
        for _ in range(20):
            out.fill(np.nan)
            open_fast_path(A, x)
            assert fused(x, out) == dots
    assert out.tobytes() == wanted.tobytes()


@pytest.mark.skipif(python_objects.FastCall is None, reason="needs the extension module")
@pytest.mark.parametrize("schedule", ["columns", "diagonals"])
def test_a_sweep_is_executed_once_where_padding_was_multiplied_by_infinity(schedule: str) -> None:
    n = 40_009
    A = asp.csr(sps.csr_array(sps.diags_array([np.ones(n - 7), np.ones(n)], offsets=[-7, 0])))
    x, u = np.ones(n), made(n, "d", 2)
    with asp.options(effort="measure", extra_memory=8.0):
        force(A, schedule_of(schedule, 1))
        served(A, x)
        x[0] = np.inf
        wanted, summed, out = A @ x, u.copy(), np.empty(n)
        ProductSweep(product_of(A, x.dtype), [Combine(summed, (out, summed))])(x, out, 1.0, -1.0)
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(summed, wanted - u)


def test_what_no_fast_call_serves_is_computed_in_two_passes() -> None:
    A, x, u = matrix("d", has_long_row=False), made(LONG, "d", 1), made(N_ROWS, "d", 2)
    out, wanted = np.empty(N_ROWS), A @ x
    for product in (product_of(A, x.dtype), lambda v, to: np.copyto(to, A @ v)):
        assert ProductSweep(product, [Dot(out, u)])(x, out) == Sweep([Dot(wanted, u)])()
    transposed, narrow = np.empty(LONG), asp.options(deterministic=True)
    with narrow:
        served(A.T, u)
        found = ProductSweep(product_of(A.T, u.dtype), [Dot(transposed, x)])(u, transposed)
        wanted = A.T @ u
    assert found == Sweep([Dot(wanted, x)])()


@pytest.mark.skipif(python_objects.FastCall is None, reason="needs the extension module")
def test_a_write_to_the_matrix_is_seen() -> None:
    m = sps.eye_array(3000, format="csr")
    A, x, out = asp.csr(m), np.ones(3000), np.empty(3000)
    served(A, x)
    fused = ProductSweep(product_of(A, x.dtype), [Dot(out, out)])
    assert fused(x, out) == (3000.0,)
    A.data[7] = 3.0
    assert fused(x, out) == (3008.0,)
    assert out[7] == 3.0


@pytest.mark.skipif(python_objects.FastCall is None, reason="needs the extension module")
def test_a_product_of_another_length_is_not_fused() -> None:
    A, x, out, u = asp.csr(sps.eye_array(300, format="csr")), np.ones(300), np.empty(300), np.ones(20)
    served(A, x)
    fused = ProductSweep(product_of(A, x.dtype), [Dot(u, u)])
    fused._after = counting = Counting(fused._after)
    assert fused(x, out) == (20.0,)
    assert counting.n == 0


def test_inside_a_trace_product_and_sweep_are_timed_apart() -> None:
    A, b = asp.csr(sps.eye_array(2000, format="csr") * 2.0), np.arange(2000.0)
    with asp.linalg.trace() as solves:
        asp.linalg.cg(A, b, maxiter=3)
    assert solves[0].n_products == 1
    assert solves[0].products_s > 0
    assert solves[0].vectors_s > 0


@pytest.mark.skipif(python_objects.FastCall is None, reason="needs the extension module")
@pytest.mark.parametrize("name", ["cg", "minres", "lsqr", "lsmr", "gmres", "bicgstab"])
@pytest.mark.parametrize("schedule", ["slices", "csr"])
def test_a_solve_follows_a_change_of_the_structure_of_a_tuned_matrix(name: str, schedule: str) -> None:
    plain, b = sps.csr_array(grid(70, 70) + sps.eye_array(4900)), np.ones(4900)
    with asp.options(effort="measure"):
        A = asp.csr(plain, copy=True)
        force(A, schedule_of(schedule, 1))
        served(A, b)
        for m in (A, plain):
            m[1, 3] = m[3, 1] = 0.5
        found, wanted = (getattr(library, name)(m, b)[0] for library, m in ((asp.linalg, A), (scipys, plain)))
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3 * abs(wanted).max())
