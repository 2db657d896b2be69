"""Tests of the rows of Mᵀ that compute Mᵀ @ B.

They are made once products have paid for them and dropped once an array was exported. Results equal SciPy's after
any write.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import python_objects

import autosparse as asp
from autosparse.config import decisive_options
from autosparse.dispatch import executor, turned
from autosparse.dispatch import state as dispatch_state
from autosparse.dispatch.state import FIRST_FAST_PATH

N, N_ENTRIES = 3_000, 1 << 16


@pytest.fixture(autouse=True)
def no_tuning() -> Any:
    with asp.options(effort="off"):
        yield


def matrix(dtype: str = "float64") -> Any:
    rng = np.random.default_rng(0)
    made = sps.random_array((N, N - 7), density=N_ENTRIES / N**2, random_state=rng, format="csr")
    return made.astype(dtype)


def turning(A: Any) -> turned.Turning:
    found = A._cell.dispatcher.turning
    assert found is not None
    return found  # type: ignore[no-any-return]


def paid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turned, "PRICE_NS", 0)
    monkeypatch.setattr(turned, "TRIALS", 1 << 30)  # keeps them even if they are slower


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("columns", [None, 1, 3, 16])
@pytest.mark.parametrize("order", ["C", "F"])
def test_products_are_scipys(monkeypatch: pytest.MonkeyPatch, dtype: str, columns: int | None, order: Any) -> None:
    paid(monkeypatch)
    m, shape = matrix(dtype), (N,) if columns is None else (N, columns)
    Y = np.asarray(np.random.default_rng(1).random(shape).astype(dtype), order=order)
    A = asp.csr(m)
    for _ in range(3):
        np.testing.assert_allclose(A.T @ Y, m.T @ Y, rtol=1e-4)
        np.testing.assert_allclose(Y.T @ A, Y.T @ m, rtol=1e-4)
    assert turning(A).made is not None
    out = np.zeros((N - 7, *shape[1:]), dtype)
    np.testing.assert_allclose(asp.matmul(A.T, Y, out=out), m.T @ Y, rtol=1e-4)
    B = asp.csc(m.tocsc())
    x = np.ones(N - 7, dtype)
    for _ in range(3):
        np.testing.assert_allclose(B @ x, m @ x, rtol=1e-4)


def test_transposed_rows_are_built_after_enough_product_time(monkeypatch: pytest.MonkeyPatch) -> None:
    A, found = asp.csr(matrix()), turned.Turning()
    A @ np.ones(N - 7)
    assert A._cell.rows is not None
    price_ns = turned.PRICE_NS * A.nnz
    for _ in range(9):
        found.count(A._cell, 1, price_ns // 10)
        assert found.made is None
    found.count(A._cell, 1, price_ns)  # the smallest measured time counts
    assert found.made is not None or found._spent_ns < price_ns
    found.count(A._cell, 1, price_ns // 10)
    assert found.made is not None
    assert found.n_bytes >= A.data.nbytes


def test_slower_transposed_rows_are_not_used() -> None:
    A, found = asp.csr(matrix()), turned.Turning()
    A @ np.ones(N - 7)
    found.count(A._cell, 1, turned.PRICE_NS * A.nnz)
    for _ in range(turned.TRIALS):
        assert found.rows(A._cell, 1) is not None
        found.count(A._cell, 1, turned.PRICE_NS * A.nnz * 2)
    assert found.rows(A._cell, 1) is None
    assert found.n_bytes == 0


def test_transposed_rows_are_judged_for_each_width() -> None:
    A, found = asp.csr(matrix()), turned.Turning()
    A @ np.ones(N - 7)
    found.count(A._cell, 1, turned.PRICE_NS * A.nnz)
    for n_vecs, took_ns in ((4, 5), (1, turned.PRICE_NS * A.nnz * 2)):
        for _ in range(turned.TRIALS):
            assert found.rows(A._cell, n_vecs) is not None
            found.count(A._cell, n_vecs, took_ns)
    assert found.rows(A._cell, 1) is None
    assert found.rows(A._cell, 4) is not None


@pytest.mark.parametrize("through", ["data", "kept", "indices", "transpose", "copy", "resized"])
def test_transposed_rows_see_every_write(monkeypatch: pytest.MonkeyPatch, through: str) -> None:
    paid(monkeypatch)
    m, y = matrix(), np.random.default_rng(2).random(N)
    A = asp.csr(m)
    kept = A.data if through == "kept" else None
    for turn in range(12):
        np.testing.assert_allclose(A.T @ y, m.T @ y, rtol=1e-10)
        if through == "data":
            A.data[turn] = m.data[turn] = turn
        elif kept is not None:
            kept[turn] = m.data[turn] = turn
        elif through == "transpose":
            A.T.data[turn] = m.data[turn] = turn
        elif through == "indices":
            A.indices[turn] = m.indices[turn] = turn
        elif through == "copy" and turn > 2:
            sharing = type(A)((A.data, A.indices, A.indptr), shape=A.shape)
            A.T @ y
            sharing.data[turn] = m.data[turn] = turn
        elif through == "resized" and turn > 2:
            other = A.T
            other.resize(*other.shape)
            other.data[turn] = 5.0
            m.data[turn] = A.data[turn]


@pytest.mark.parametrize("given", [{"deterministic": True}, {"overhead": 0.0}])
def test_options_can_exclude_transposed_rows(monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]) -> None:
    paid(monkeypatch)
    A = asp.csr(matrix())
    with asp.options(**given):
        for _ in range(4):
            A.T @ np.ones(N)
    assert A._cell.dispatcher.turning is None


def test_shared_arrays_and_small_matrices_have_no_transposed_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    paid(monkeypatch)
    m = matrix()
    shared, small = asp.csr(m, copy=False), asp.csr(m[: N // 24])
    for _ in range(30):
        shared.T @ np.ones(N)
        small.T @ np.ones(N // 24)
    assert turning(shared).made is None
    assert small._cell.dispatcher is None or small._cell.dispatcher.turning is None
    for _ in range(3):
        np.testing.assert_allclose(small.T @ np.ones((N // 24, 64)), m[: N // 24].T @ np.ones((N // 24, 64)))
    assert turning(small).made is not None  # 64 columns make it enough multiplications


def test_rows_are_dropped_and_rarely_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    paid(monkeypatch)
    A, y = asp.csr(matrix()), np.ones(N)
    n_made = 0
    for _ in range(40):
        A.T @ y
        n_made += turning(A).made is not None
        A.data  # noqa: B018 (reading hands the array out)
        A.T @ y
    assert 0 < n_made <= turned.MAX_DROPS
    assert turning(A).n_bytes == 0


def test_products_work_without_memory_for_transposed_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    paid(monkeypatch)

    def refused(*_: Any, **__: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(turned.runtime_api, "transpose", refused)
    m, y = matrix(), np.ones(N)
    A = asp.csr(m)
    for _ in range(4):
        np.testing.assert_allclose(A.T @ y, m.T @ y, rtol=1e-10)
    assert turning(A).made is None


def test_explain_counts_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    paid(monkeypatch)
    A = asp.csr(matrix())
    for _ in range(3):
        A.T @ np.ones(N)
    assert A._cell.dispatcher.turning.n_bytes > A.nnz * 12
    report = executor.report(A._cell, transposed=True)
    assert report.packed_bytes == turning(A).n_bytes


def test_fast_calls_do_not_replace_rows_that_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    paid(monkeypatch)
    A, y = asp.csr(matrix()), np.ones(N)
    for _ in range(FIRST_FAST_PATH + 5):
        A.T @ y
    assert turning(A).is_serving
    assert A._cell.fast_path is None


def open_fast_path(monkeypatch: pytest.MonkeyPatch, m: Any, columns: tuple[int, ...] = ()) -> tuple[Any, Any]:
    """Return an array of ours with a fast path that reads rows of its transpose, and that fast path."""
    monkeypatch.setattr(turned, "PRICE_NS", 0)
    monkeypatch.setattr(turned, "_is_chosen", lambda *_: True)
    monkeypatch.setattr(dispatch_state, "FIRST_FAST_PATH", 1)
    A = asp.csr(m)
    for _ in range(turned.TRIALS + 4):
        A.T @ np.ones((N, *columns), m.dtype)
    return A, A._cell.dispatcher.hot[columns[0] if columns else 1, True].fast_path


@pytest.mark.skipif(python_objects.FastCall is None, reason="needs the extension module")
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("columns", [(), (1,), (4,)])
def test_fast_paths_read_transposed_rows(monkeypatch: pytest.MonkeyPatch, dtype: str, columns: tuple[int, ...]) -> None:
    m = matrix(dtype)
    A, path = open_fast_path(monkeypatch, m, columns)
    Y, out = np.random.default_rng(3).random((N, *columns)).astype(dtype), np.zeros((N - 7, *columns), dtype)
    assert path.run(A._cell, Y, out, decisive_options(), True)
    np.testing.assert_array_equal(out, asp.csr(m.T.tocsr()) @ Y)  # the sums of a row are in the same order
    assert not path.run(A._cell, Y[:-1], out, decisive_options(), True)
    assert not path.run(A._cell, Y, out, decisive_options(), False)
    assert not path.run(A._cell, Y, Y[: N - 7], decisive_options(), True)


@pytest.mark.skipif(python_objects.FastCall is None, reason="needs the extension module")
@pytest.mark.parametrize("through", ["data", "kept", "indices", "other product", "refreshed"])
def test_fast_paths_see_every_write(monkeypatch: pytest.MonkeyPatch, through: str) -> None:
    m, y = matrix(), np.random.default_rng(2).random(N)
    A, path = open_fast_path(monkeypatch, m)
    n_served, kept = 0, A.data if through == "kept" else None
    for turn in range(1, 12):
        if through == "indices":
            A.indices[turn] = m.indices[turn] = turn
        elif kept is not None:
            kept[turn] = m.data[turn] = turn
        else:
            A.data[turn] = m.data[turn] = turn
        if through == "other product":
            np.testing.assert_allclose(A @ y[:-7], m @ y[:-7], rtol=1e-10)
        elif through == "refreshed":
            A._cell.refresh()
        out = np.zeros(N - 7)
        n_served += path.run(A._cell, y, out, decisive_options(), True)
        for _ in range(turn):
            np.testing.assert_allclose(A.T @ y, m.T @ y, rtol=1e-10)
    assert n_served == 0
    assert path.is_retired


@pytest.mark.skipif(python_objects.FastCall is None, reason="needs the extension module")
def test_closed_fast_paths_release_transposed_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    A, _ = open_fast_path(monkeypatch, matrix())
    rows = weakref.ref(turning(A).made.arrays[0])
    A.data[0] = 1.0
    A.T @ np.ones(N)
    gc.collect()
    assert rows() is None


@pytest.mark.skipif(python_objects.FastCall is None, reason="needs the extension module")
def test_fast_paths_wait_for_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    paid(monkeypatch)
    monkeypatch.setattr(dispatch_state, "FIRST_FAST_PATH", 1)
    m = matrix()
    alone, shared = asp.csr(m), asp.csr(m, copy=False)
    for A in (alone, shared):
        for _ in range(9):
            A.T @ np.ones(N)
    assert alone._cell.dispatcher.hot[1, True].fast_path is None
    assert shared._cell.dispatcher.hot[1, True].fast_path is not None  # rows of a shared matrix are never made


def test_products_that_tuning_samples_try_transposed_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A live tuner exists from the first products on where an earlier matrix has loaded its modules."""
    paid(monkeypatch)
    monkeypatch.setattr(dispatch_state.DispatchState, "is_sampled", True)
    m, y = matrix(), np.ones(N)
    A = asp.csr(m)
    for _ in range(6):
        np.testing.assert_allclose(A.T @ y, m.T @ y)
    assert turning(A).made is not None
    assert turning(A).is_serving


def times_made(A: Any, before_ns: int, by_rows_ns: int) -> int:
    """Return how often rows are made that lose on two threads, by products of `before_ns` without and with them."""
    found, n_made = turned.Turning(), 0
    with asp.options(threads=2):
        for _ in range((turned.PRICE_NS * A.nnz << turned.MAX_DROPS + 1) // before_ns + 2 * turned.MAX_DROPS):
            found.count(A._cell, 1, before_ns)
            n_made += found.made is not None
            for _ in range(turned.TRIALS if found.made is not None else 0):
                assert found.rows(A._cell, 1) is not None
                found.count(A._cell, 1, by_rows_ns)
        assert found.made is None
        assert not found.is_open(A._cell, 1)  # fast calls may compute
    return n_made


def test_slower_transposed_rows_are_tried_again_at_a_higher_price() -> None:
    A = asp.csr(matrix())
    A @ np.ones(N - 7)
    before_ns = turned.PRICE_NS * A.nnz << turned.MAX_DROPS
    assert times_made(A, before_ns, before_ns * 5 // 4) == turned.MAX_DROPS


@pytest.mark.parametrize(("before_ns", "by_rows_ns"), [(6_000, 6_400), (10**6, 2 * 10**6)])
def test_transposed_rows_that_more_threads_would_not_make_faster_are_given_up(before_ns: int, by_rows_ns: int) -> None:
    A = asp.csr(matrix())
    A @ np.ones(N - 7)
    assert times_made(A, before_ns, by_rows_ns) == 1


@pytest.mark.parametrize("multiplied", ["transpose", "adjoint", "copy"])
@pytest.mark.parametrize(("by_rows_ns", "are_made"), [(10**6, False), (10**5, True)])
def test_transposed_rows_are_made_where_products_by_rows_are_faster(
    monkeypatch: pytest.MonkeyPatch, by_rows_ns: int, are_made: bool, multiplied: str
) -> None:
    A, x = asp.csr(matrix()), np.ones(N - 7)
    operand = {"transpose": A.T, "adjoint": A.T.conj(), "copy": A.copy()}[multiplied]._cell
    monkeypatch.setattr(executor, "open_fast_path", lambda *_, **__: None)
    for _ in range(turned.FEW):
        A @ x
    found, state = turned.Turning(), A._cell.dispatcher.hot[1, False]
    state.n_calls, state.product_ns = turned.FEW, turned.FEW * by_rows_ns
    operand.validate()
    for _ in range(turned.PRICE_NS * A.nnz // (5 * 10**5) + 1):
        found.count(operand, 1, 5 * 10**5)
    assert (found.made is not None) == are_made
    assert found.is_open(operand, 1) == are_made  # else fast calls may compute


def test_the_first_products_of_a_process_do_not_hide_that_products_by_rows_are_faster() -> None:
    """Check means of both kinds: each of them has products that ran while caches and threads were cold."""
    A, x = asp.csr(matrix()), np.ones(N - 7)
    for _ in range(turned.FEW):
        A @ x
    found, state = turned.Turning(), A._cell.dispatcher.hot[1, False]
    state.n_calls, state.product_ns = turned.FEW, turned.FEW * 6 * 10**5  # 2 * 10**5 once they are warm
    for at in range(turned.PRICE_NS * A.nnz // (5 * 10**5) + 2):
        found.count(A._cell, 1, 5 * 10**6 if at == 1 else 5 * 10**5)
    assert found.made is not None
