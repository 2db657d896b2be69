"""Tests of fast calls of generated kernels, whose packed copies must follow every write."""

from __future__ import annotations

import threading
import weakref

import numpy as np
import pytest
import scipy.sparse as sps
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import autosparse as asp
from autosparse.dispatch import fast_path
from tests.dispatch.entries import on_the_short_way
from tests.tuning.forcing import FORMATS, WIDTHS, close, dense, force, make, schedule_of, state_of

pytestmark = [
    pytest.mark.usefixtures("untuned_with_early_entries"),
    pytest.mark.skipif(fast_path.make is None, reason="fast calls need the extension module"),
]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("columns", [1, 8])
@pytest.mark.parametrize("flat", [False, True])
def test_generated_kernels_are_entered_and_every_write_is_seen(name, columns, flat, long_way):
    """Write values and structure through a held alias, a dropped alias and a weak reference."""
    if columns not in WIDTHS[name] or (flat and columns > 1):
        pytest.skip("no such kernel")
    plain = make()
    with asp.options(effort="measure"):
        A = asp.csr(plain, copy=True)
        force(A, schedule_of(name, columns), columns=columns)
        B = dense(plain, columns)
        B = B[:, 0].copy() if flat else B
        out = np.empty((plain.shape[0], *B.shape[1:]), B.dtype)

        def check(n=16):
            reference = asp.csr(A, copy=True).to_scipy()
            for _ in range(n):
                close(asp.matmul(A, B, out=out), reference @ B)

        check()
        n_tuned = state_of(A, columns).n_tuned
        close(on_the_short_way(A, B, out, long_way), plain @ B)
        state = state_of(A, columns)
        state.commit()
        assert state.n_tuned > n_tuned
        A.data *= 2.0
        check()
        held = A.data
        for step in range(6):
            held[step] += 3.0
            check(4)
        del held
        check()
        A.data = A.data[::-1].copy()
        check()
        alias = memoryview(A.data)
        del alias
        weak = weakref.ref(A.data)
        for step in range(4):
            weak()[step] -= 1.0
            check(4)
        twin = A.T
        twin.data[:3] = 5.0
        check()
        A[3, 7] = 11.0
        check()
        A.sum_duplicates()
        A.indices[:2] = A.indices[:2][::-1].copy()
        check()


@pytest.mark.parametrize("shape", [(50, 5000), (50, 5010), (60, 5010), (70, 5000)])
@pytest.mark.parametrize("is_turned", [False, True])
def test_a_kernel_that_reads_live_arrays_follows_a_resize(shape, is_turned):
    plain = make()
    with asp.options(effort="measure"):
        A = asp.csr(plain, copy=True)
        force(A.T if is_turned else A, schedule_of("csr", 1))
        for m in (A, plain):
            m.resize(*shape)
        A, plain = (A.T, plain.T) if is_turned else (A, plain)
        x, buffer = dense(plain, 0), np.full(plain.shape[0] + 200, 7.0, np.float32)
        out = buffer[: plain.shape[0]]
        for _ in range(8):
            close(asp.matmul(A, x, out=out), plain @ x)
            assert (buffer[plain.shape[0] :] == 7.0).all()
            out[:] = 7.0


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("shape", [(50, 4000), (60, 5000), (70, 5010)])
def test_a_second_plan_packs_the_new_structure(name, is_turned, shape):
    plain = make()
    with asp.options(effort="measure", extra_memory=1e6):
        A = asp.csr(plain, copy=True)
        force(A.T if is_turned else A, schedule_of(name, 1))
        for m in (A, plain):
            m.resize(*shape)
            m[3, 7] = m[40, 2] = 11.0
        force(A.T if is_turned else A, schedule_of(name, 1))
        A, plain = (A.T, plain.T) if is_turned else (A, plain)
        x, buffer = dense(plain, 0), np.full(plain.shape[0] + 2000, 7.0, np.float32)
        for _ in range(4):
            close(asp.matmul(A, x, out=buffer[: plain.shape[0]]), plain @ x)
            assert (buffer[plain.shape[0] :] == 7.0).all()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), name=st.sampled_from(sorted(FORMATS)), seed=st.integers(0, 10**6))
def test_products_and_writes_in_any_order(data, name, seed):
    plain = make(40, 300, seed=seed)
    if plain.nnz < 4:
        return
    columns = 8 if 8 in WIDTHS[name] else 1
    with asp.options(effort="measure"):
        A, kept = asp.csr(plain, copy=True), []
        force(A, schedule_of(name, columns), columns=columns)
        B, out = dense(plain, columns), np.empty((40, columns), np.float32)
        writes = {
            "multiply": lambda at: A.data.__imul__(np.float32(1.5)),
            "hold": lambda at: kept.append(A.data),
            "write held": lambda at: [one.__setitem__(at % one.size, at) for one in kept],
            "drop": lambda at: kept.clear(),
            "replace": lambda at: setattr(A, "data", A.data + np.float32(1)),
            "swap columns": lambda at: A.indices.__setitem__(at % A.nnz, at % 300),
            "view": lambda at: A.data[at % A.nnz :].__setitem__(0, -1.0),
            "transpose": lambda at: A.T.data.__setitem__(at % A.nnz, 2.0),
            "nothing": lambda at: None,
        }
        for step, at in data.draw(
            st.lists(st.tuples(st.sampled_from(sorted(writes)), st.integers(0, 999)), max_size=12)
        ):
            writes[step](at)
            wanted = sps.csr_array(
                (A._cell.peek(2).copy(), A._cell.peek(1).copy(), A._cell.peek(0).copy()), shape=A.shape
            )
            for _ in range(data.draw(st.integers(1, 5))):
                close(asp.matmul(A, B, out=out), wanted @ B)


def test_values_that_change_at_every_product_do_not_cost_a_fast_path_each(monkeypatch):
    made = []
    original = fast_path.FastPath.__init__

    def counted(self, *args, **named):
        made.append(1)
        original(self, *args, **named)

    monkeypatch.setattr(fast_path.FastPath, "__init__", counted)
    plain = make()
    with asp.options(effort="measure"):
        A = asp.csr(plain, copy=True)
        force(A, schedule_of("blocks", 8), columns=8)
        B, out = dense(plain, 8), np.empty((plain.shape[0], 8), np.float32)
        for _ in range(300):
            A.data *= 1.001
            asp.matmul(A, B, out=out)
    assert len(made) <= 10


def test_threads_enter_together_while_values_are_refreshed():
    plain = make(300, 3000)
    with asp.options(effort="measure"):
        A = asp.csr(plain, copy=True)
        force(A, schedule_of("blocks", 8), columns=8)
        B = dense(plain, 8)
        wanted = plain @ B
        errors = []

        def work():
            out = np.empty((300, 8), np.float32)
            for _ in range(200):
                asp.matmul(A, B, out=out)
                ratio = np.median(out[wanted != 0] / wanted[wanted != 0])
                if not np.allclose(out, ratio * wanted, rtol=1e-3, atol=1e-3):
                    errors.append(ratio)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            A._cell.refresh()
        for thread in threads:
            thread.join()
        assert not errors


def test_a_packed_copy_that_is_dropped_is_not_kept_by_an_entry():
    plain = make()
    with asp.options(effort="measure"):
        A = asp.csr(plain, copy=True)
        trial = force(A, schedule_of("blocks", 8), columns=8)
        B, out = dense(plain, 8), np.empty((plain.shape[0], 8), np.float32)
        for _ in range(8):
            asp.matmul(A, B, out=out)
        assert state_of(A, 8).fast_path is not None
        packed = weakref.ref(trial.bound)
        force(A, schedule_of("columns", 8), columns=8)
        assert packed() is None
        for _ in range(8):
            close(asp.matmul(A, B, out=out), plain @ B)
