"""Tests of fast calls, which run a kernel without Python: right products, and a fallback when anything changed."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest

import autosparse as asp
from autosparse.config import decisive_options
from autosparse.dispatch import fast_path
from autosparse.dispatch import state as dispatch_state
from autosparse.errors import ShapeError
from autosparse.tuning import explicit
from tests.covering import covering
from tests.dispatch.entries import on_the_short_way, opened
from tests.tuning.forcing import close, dense, force, make, schedule_of, state_of

pytestmark = [
    pytest.mark.usefixtures("untuned_with_early_entries"),
    pytest.mark.skipif(fast_path.make is None, reason="fast calls need the extension module"),
]


@covering(
    index=["int32", "int64"],
    dtype=["float32", "float64", "complex64", "complex128"],
    fmt=["csr", "csc"],
    columns=[None, 1, 3, 32, 200],
)
def test_products_are_those_of_scipy(columns, fmt, dtype, index, long_way):
    plain = make(57, 91, dtype=dtype, fmt=fmt)
    plain.indices, plain.indptr = plain.indices.astype(index), plain.indptr.astype(index)
    A = (asp.csr if fmt == "csr" else asp.csc)(plain, copy=True)
    for one, reference in ((A, plain), (A.T, plain.T)):
        B = dense(reference, columns or 1)
        B = B if columns else B[:, 0].copy()
        out = np.empty_like(reference @ B)
        opened(one, B, out)
        close(on_the_short_way(one, B, out, long_way), reference @ B)


class Counted:
    """Fast call that records its answers."""

    def __init__(self, made):
        self.made, self.answers = made, []

    def __call__(self, *args):
        self.answers.append(self.made(*args))
        return self.answers[-1]


@pytest.mark.parametrize("columns", [None, 1, 32])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_new_results_are_made_by_fast_call_too(columns, dtype, monkeypatch):
    plain = make(57, 91, dtype=dtype)
    A = asp.csr(plain, copy=True)
    for one, reference in ((A, plain), (A.T, plain.T)):
        B = dense(reference, columns or 1)
        B = B if columns else B[:, 0].copy()
        results = [one @ B for _ in range(4)]
        made = A._cell.fast_path
        assert made is not None
        counted = Counted(made)
        monkeypatch.setattr(A._cell, "fast_path", counted)
        results += [one @ B for _ in range(3)]
        assert counted.answers == [True] * 3
        for at, result in enumerate(results):
            close(result, reference @ B)
            assert result.flags.writeable
            assert not any(np.may_share_memory(result, other) for other in (B, *results[:at]))
        B[...] = 2 * B
        close(one @ B, reference @ B)
        close(one @ np.asfortranarray(B), reference @ B)


def test_changed_operands_bypass_the_fast_call(long_way):
    plain = make(60, 60)
    A, B = asp.csr(plain, copy=True), dense(plain, 8)
    out = np.empty((60, 8), B.dtype)
    opened(A, B, out)
    close(on_the_short_way(A, B, out, long_way), plain @ B)
    wide = np.zeros((60, 16), B.dtype)
    others = {
        "columns first": (np.asfortranarray(B), out),
        "rows apart": (B, wide[:, 4:12]),
        "another width": (dense(plain, 5), np.empty((60, 5), B.dtype)),
        "one column of it": (B[:, 2].copy(), np.empty(60, B.dtype)),
        "another dtype": (B.astype(np.float64), np.empty((60, 8))),
        "upside down": (B[::-1], out),
        "a subclass": (B.view(np.matrix), out),
    }
    for name, (other, target) in others.items():
        opened(A, B, out)
        long_way.clear()
        got = asp.matmul(A, other, out=target)
        np.testing.assert_allclose(got, plain @ np.asarray(other), rtol=1e-4, atol=1e-4, err_msg=name)
    assert not wide[:, :4].any()
    opened(A, B, out)
    long_way.clear()
    close(asp.matmul(A.T, B, out=out), plain.T @ B)  # the transpose shares the operand
    assert long_way


def test_results_that_overlap_operands_are_computed_beside_them():
    plain = make(60, 60)
    A, B = asp.csr(plain, copy=True), dense(plain, 4)
    opened(A, B, np.empty((60, 4), B.dtype))
    wanted = plain @ B
    both = np.concatenate([B, np.zeros_like(B)])
    close(asp.matmul(A, both[:60], out=both[30:90]), wanted)
    same = B.copy()
    close(asp.matmul(A, same, out=same), wanted)
    values = np.zeros(max(240, plain.nnz), B.dtype)
    values[: plain.nnz] = plain.data
    own = asp.csr((values[: plain.nnz], plain.indices.copy(), plain.indptr.copy()), shape=plain.shape, copy=False)
    opened(own, B, np.empty((60, 4), B.dtype))
    close(asp.matmul(own, B, out=values[:240].reshape(60, 4)), wanted)


def test_outs_that_do_not_fit_are_refused_as_before():
    plain = make(60, 60)
    A, B = asp.csr(plain, copy=True), dense(plain, 4)
    out = np.empty((60, 4), B.dtype)
    opened(A, B, out)
    with pytest.raises(ShapeError):
        asp.matmul(A, B, out=np.empty((59, 4), B.dtype))
    with pytest.raises(ShapeError):
        asp.matmul(A, B[:30], out=out)
    with pytest.raises(ValueError, match="read-only"):
        asp.matmul(A, B, out=np.broadcast_to(np.float32(0), (60, 4)).astype(B.dtype).view(ReadOnly))


class ReadOnly(np.ndarray):
    """Array that cannot be written."""

    def __array_finalize__(self, source):
        self.flags.writeable = False


def test_every_kind_of_write_is_seen(long_way):
    plain = make(60, 60)
    A, B = asp.csr(plain, copy=True), dense(plain, 4)
    out = np.empty((60, 4), B.dtype)
    held = A.data

    def check():
        for _ in range(4):
            close(asp.matmul(A, B, out=out), A.to_scipy() @ B)

    check()
    held[:5] += 3
    check()
    A.data = A.data[::-1].copy()
    check()
    A.indices[:2] = A.indices[:2][::-1].copy()
    check()
    A[3, 7] = 11.0
    check()
    A.resize(50, 60)
    out = np.empty((50, 4), B.dtype)
    check()
    kept = A.indices
    opened_before = A._cell.fast_path
    kept[0] = (kept[0] + 1) % 60
    check()
    assert opened_before is None or A._cell.rows is None
    A.indices[0] = 1000
    with pytest.raises(ValueError, match="indices must be"):
        asp.matmul(A, B, out=out)


def test_options_are_those_in_force(long_way):
    plain = make(60, 60)
    A, B = asp.csr(plain, copy=True), dense(plain, 4)
    out = np.empty((60, 4), B.dtype)
    opened(A, B, out)
    with asp.options(threads=1):
        long_way.clear()
        asp.matmul(A, B, out=out)
        assert long_way
    long_way.clear()
    asp.matmul(A, B, out=out)
    asp.matmul(A, B, out=out)
    assert len(long_way) <= 1


def test_products_by_fast_call_are_counted_and_end_when_another_kernel_takes_over(long_way):
    plain = make(200, 200)
    A, B = asp.csr(plain, copy=True), dense(plain, 8)
    out = np.empty((200, 8), B.dtype)
    with asp.options(effort="measure"):
        opened(A, B, out)
        state = state_of(A, 8)
        state.commit()
        before, spent = state.n_calls, state.product_ns
        long_way.clear()
        for _ in range(5):
            asp.matmul(A, B, out=out)
        state.commit()
        assert state.n_calls == before + 5
        assert state.product_ns > spent
        trial = force(A, schedule_of("blocks", 8), columns=8)
        n_tuned = state_of(A, 8).n_tuned
        close(asp.matmul(A, B, out=out), plain @ B)
        assert state_of(A, 8).n_tuned == n_tuned + 1
        assert trial.ready


def test_a_tuned_matrix_has_a_fast_call_from_the_second_product_on(monkeypatch):
    """Check that tuning loads the module of fast calls, which 300 products (2 us slower each) load without it."""
    monkeypatch.setattr(dispatch_state, "FIRST_FAST_PATH", explicit.FIRST_FAST_PATH)
    plain = make(200, 200)
    tuned, untuned, B = asp.csr(plain), asp.csr(plain), dense(plain, 8)
    tuned.tune(columns=8, effort="estimate")
    for A in (tuned, untuned):
        state_of(A, 8).next_look_ns = dispatch_state.FOREVER_NS  # tuning that goes on comes before fast calls
        for _ in range(2):
            close(A @ B, plain @ B)
    assert tuned._cell.fast_path is not None
    assert untuned._cell.fast_path is None


def test_fast_calls_keep_reference_counts():
    plain = make(60, 60)
    A, B = asp.csr(plain, copy=True), dense(plain, 4)
    out = np.empty((60, 4), B.dtype)
    opened(A, B, out)
    before = sys.getrefcount(B), sys.getrefcount(out), sys.getrefcount(A._cell.rows)
    for _ in range(200):
        asp.matmul(A, B, out=out)
    assert (sys.getrefcount(B), sys.getrefcount(out), sys.getrefcount(A._cell.rows)) == before
    run = A._cell.fast_path
    assert run() is False
    assert run(A._cell, B, out, None) is False
    assert run(B, B, out, decisive_options(), False) is False
    assert run(None, None, None, None, None) is False


@pytest.mark.parametrize("columns", [None, 3])
def test_views_as_out_are_written_by_fast_calls_too(columns):
    plain = make(57, 91)
    A, B = asp.csr(plain, copy=True), dense(plain, columns or 1)
    B = B if columns else B[:, 0].copy()
    out = np.zeros((2, *(plain @ B).shape), plain.dtype)
    for _ in range(4):
        asp.matmul(A, B, out=out[1])
    n_before = state_of(A).n_calls
    asp.matmul(A, B, out=out[0])
    assert A._cell.fast_path is not None
    assert state_of(A).n_calls == n_before  # counted by the fast call
    close(out[0], plain @ B)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_arrays_with_a_dtype_object_of_their_own_take_the_fast_call(dtype):
    """Arrays that were unpickled, of other processes for example, have one."""
    plain = make(57, 91, dtype=dtype)
    A, B = asp.csr(plain, copy=True), dense(plain, 1)[:, 0].copy()
    out = np.zeros_like(plain @ B)
    opened(A, B, out)
    B, out = pickle.loads(pickle.dumps((B, out)))
    assert B.dtype is not np.dtype(dtype)
    assert A._cell.fast_path(A._cell, B, out, decisive_options(), False)
    close(out, plain @ B)
    swapped = B.astype(B.dtype.newbyteorder())
    assert not A._cell.fast_path(A._cell, swapped, out, decisive_options(), False)
    close(asp.matmul(A, swapped, out=out), plain @ B)
