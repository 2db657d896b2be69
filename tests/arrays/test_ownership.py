"""Tests that `asp.csr(m)` owns its arrays: writes to `m` have no effect, and writes through the matrix have."""

from __future__ import annotations

import copy
import functools
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import memory
from hypothesis import given
from hypothesis import strategies as st

import autosparse
from autosparse.dispatch import executor, fast_path
from autosparse.operands import ownership
from autosparse.tuning.trials import kernel_trial
from tests.arrays.holders import KINDS, N, bytes_of, counts_known, large, ours, over_bytes, plain
from tests.arrays.packed import PackedCopies
from tests.tuning.forcing import force, schedule_of

# -- writes to m, and writes through A


def swap(m: Any) -> None:
    """Exchange two entries of the longest row: still valid, another matrix."""
    row = int(np.argmax(np.diff(m.indptr)))
    first, last = m.indptr[row], m.indptr[row + 1] - 1
    m.data[[first, last]] = m.data[[last, first]]


def move(m: Any) -> None:
    """Mirror the minor index of every entry."""
    m.indices[:] = N - 1 - m.indices


def end_rows_early(m: Any) -> None:
    m.indptr[1:-1] = m.indptr[0]


def replace_values(m: Any) -> None:
    m.data = m.data + 3


def set_one(m: Any) -> None:
    row, column = (int(one[0]) for one in m.nonzero())
    m[row, column] = 17.0


WRITES: dict[str, Callable[[Any], None]] = {
    "data[:] =": lambda m: m.data.__setitem__(slice(None), 5.0),
    "data[0] =": lambda m: m.data.__setitem__(0, -1.0),
    "data *=": lambda m: m.data.__imul__(2),
    "data =": replace_values,
    "A[i, j] =": set_one,
    "swapped values": swap,
    "indices[:] =": move,
    "indptr[1:-1] =": end_rows_early,
    "through a view": lambda m: m.data[2:].view(np.uint8).__setitem__(slice(0, 8), 0),
    "through a memoryview": lambda m: memoryview(m.data).cast("B").__setitem__(slice(0, 8), bytes(8)),
}


@given(data=st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_writes_to_m_are_never_seen_and_writes_through_A_always(kind: str, data: st.DataObject) -> None:
    copies = PackedCopies()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "matmul", copies.matmul)
        patch.setattr(executor, "small_product", lambda *args, **kwargs: None)
        m = plain(kind, seed=data.draw(st.integers(0, 5)))
        twin = m.copy()  # what A must be
        as_arrays = data.draw(st.booleans())
        fmt = getattr(autosparse, m.format)
        A = fmt((m.data, m.indices, m.indptr), shape=m.shape) if as_arrays else fmt(m)
        kept = []
        for _ in range(data.draw(st.integers(1, 6))):
            step = data.draw(st.sampled_from(("m", "A", "product", "keep")))
            if step == "keep":
                kept.append(data.draw(st.sampled_from((A, m))).data)
            if step in ("m", "A"):
                write = WRITES[data.draw(st.sampled_from(sorted(WRITES)))]
                for target in (m,) if step == "m" else (A, twin):
                    write(target)
            np.testing.assert_allclose(A @ np.arange(1.0, N + 1), twin @ np.arange(1.0, N + 1), atol=1e-12)
            np.testing.assert_allclose(A.T @ np.ones(N), twin.T @ np.ones(N), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WRITES)
def test_writes_to_m_are_not_seen_by_default_kernels_and_tuned_products(kind: str, name: str) -> None:
    m, x = plain(kind), np.arange(1.0, N + 1)
    A, expected = ours(m), m @ x
    np.testing.assert_allclose(A @ x, expected)
    A.tune(effort="estimate")
    WRITES[name](m)
    np.testing.assert_allclose(A @ x, expected)
    np.testing.assert_array_equal(m.shape, A.shape)


@pytest.mark.skipif(fast_path.make is None, reason="fast calls need the extension module")
@pytest.mark.parametrize("protocol", [None, 4, 5])
def test_products_from_a_packed_copy_go_by_fast_call_while_m_is_alive(
    protocol: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    through_python = []
    run = kernel_trial.KernelTrial.run
    monkeypatch.setattr(kernel_trial.KernelTrial, "run", lambda *args: through_python.append(1) or run(*args))
    m, x = plain(n=200).astype(np.float32), np.ones(200, np.float32)
    A = autosparse.csr(m)
    if protocol is not None:
        A = pickle.loads(pickle.dumps(A, protocol))
    with autosparse.options(effort="off"):
        trial = force(A, schedule_of("slices", 1))
        timed = trial.context.runner(trial)
        through_python.clear()
        timed()
        assert not through_python
        expected = A @ x
        m.data[:] = 0
        np.testing.assert_array_equal(A @ x, expected)
        A.data[:] = 0
        np.testing.assert_array_equal(A @ x, np.zeros(200, np.float32))
        assert through_python


# -- arguments that the caller holds by some name must not be taken for temporaries

GLOBAL = plain()


class Holder:
    def __init__(self) -> None:
        self.m = plain()


def by_local() -> tuple[Any, Any]:
    m = plain()
    return autosparse.csr(m), m


def by_global() -> tuple[Any, Any]:
    return autosparse.csr(GLOBAL), GLOBAL


def by_closure() -> tuple[Any, Any]:
    m = plain()

    def inner() -> Any:
        return autosparse.csr(m)

    return inner(), m


def by_attribute() -> tuple[Any, Any]:
    holder = Holder()
    return autosparse.csr(holder.m), holder.m


def by_list() -> tuple[Any, Any]:
    held = [plain()]
    return autosparse.csr(held[0]), held[0]


def by_star() -> tuple[Any, Any]:
    arguments = (plain(),)
    return autosparse.csr(*arguments), arguments[0]


def by_keyword() -> tuple[Any, Any]:
    arguments = {"obj": plain()}
    return autosparse.csr(**arguments), arguments["obj"]


def by_partial() -> tuple[Any, Any]:
    made = functools.partial(autosparse.csr, plain())
    return made(), made.args[0]


def by_map() -> tuple[Any, Any]:
    held = [plain()]
    return next(map(autosparse.csr, held)), held[0]


def by_arrays_only() -> tuple[Any, Any]:
    m = plain()
    data, indices, indptr = m.data, m.indices, m.indptr
    held = sps.csr_array((data, indices, indptr), shape=m.shape)
    del m
    return autosparse.csr((data, indices, indptr), shape=(N, N)), held


def by_temporary_over_kept_arrays() -> tuple[Any, Any]:
    m = plain()
    return autosparse.csr(sps.csr_array((m.data, m.indices, m.indptr), shape=m.shape)), m


@pytest.mark.parametrize(
    "hold",
    [by_local, by_global, by_closure, by_attribute, by_list, by_star, by_keyword, by_partial, by_map, by_arrays_only,
     by_temporary_over_kept_arrays],
)  # fmt: skip
def test_an_argument_with_other_references_is_copied(hold: Any) -> None:
    A, m = hold()
    before = A.toarray()
    m.data += 1
    np.testing.assert_array_equal(A.toarray(), before)
    assert A.owns_arrays
    m.data -= 1


# -- inputs that are copied, and how often


def allocated_bytes(call: Callable[[], Any]) -> int:
    """Return the peak of the bytes that `call` allocates."""
    with autosparse.options(output_pool_bytes=0, effort="off"):
        call()  # allocates what is allocated once per process
        tracemalloc.start()
        try:
            call()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


Pair = tuple[Callable[[Any], Any], Callable[[Any], Any]]
"""Two functions: one applied to a matrix beforehand, and one whose allocations are counted."""


def itself(m: Any) -> Any:
    return m


NOT_COPIED: dict[str, Pair] = {
    "ours": (autosparse.csr, autosparse.csr),
    "ours, multiplied": (autosparse.csr, lambda A: autosparse.csr(A) @ np.ones(1000)),
    "copy=False": (itself, lambda m: autosparse.csr(m, copy=False)),
    "frozen": (itself, lambda m: autosparse.csr(m, copy=False, frozen=True)),
    "the class": (itself, lambda m: autosparse.csr_array(m)),
    "copy.copy": (autosparse.csr, copy.copy),
    "matmul": (itself, lambda m: autosparse.matmul(m, np.ones(1000))),
    "matmul by columns": (sps.csc_array, lambda m: autosparse.matmul(m, np.ones(1000))),
    "sddmm": (
        lambda m: (m, np.empty(m.nnz)),
        lambda both: autosparse.sddmm(both[0], np.ones((1000, 1)), np.ones((1, 1000)), out=both[1]),
    ),
    "read-only bytes": (over_bytes, autosparse.csr),
    "einsum": (itself, lambda m: autosparse.einsum("ij,j->i", m, np.ones(1000))),
    "pickle": (pickle.dumps, lambda text: len(pickle.loads(text).shape)),
}


@pytest.mark.parametrize("name", NOT_COPIED)
def test_temporaries_are_not_copied(name: str) -> None:
    prepare, call = NOT_COPIED[name]
    m, given = large(), prepare(large())
    least = bytes_of(m) if name == "pickle" else 0  # unpickling allocates the arrays that it reads
    assert allocated_bytes(lambda: call(given)) < least + 0.5 * bytes_of(m)


COPIED_ONCE: dict[str, Pair] = {
    "csr": (itself, autosparse.csr),
    "copy=True": (itself, lambda m: autosparse.csr(m, copy=True)),
    "copy=True of ours": (autosparse.csr, lambda A: autosparse.csr(A, copy=True)),
    "arrays": (itself, lambda m: autosparse.csr((m.data, m.indices, m.indptr), shape=m.shape)),
    "arrays without a shape": (itself, lambda m: autosparse.csr((m.data, m.indices, m.indptr))),
    "A.copy": (autosparse.csr, lambda A: A.copy()),
    "deepcopy": (autosparse.csr, copy.deepcopy),
    "a matrix by columns": (sps.csc_array, autosparse.csr),
    "coordinates": (sps.coo_array, autosparse.csr),
}


@pytest.mark.parametrize("name", COPIED_ONCE)
def test_constructors_copy_exactly_once(name: str) -> None:
    prepare, call = COPIED_ONCE[name]
    m, given = large(), prepare(large())
    n_bytes = allocated_bytes(lambda: call(given))
    assert bytes_of(m) <= n_bytes < 1.4 * bytes_of(m), f"{n_bytes / bytes_of(m):.2f} copies"


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_unchanged_by_a_dtype_conversion_are_copied(kind: str) -> None:
    m = plain(kind)
    for source in (m, arrays_of(m)):
        A = getattr(autosparse, m.format)(source, shape=m.shape, dtype=np.float32)
        assert A.owns_arrays
        assert not any(np.may_share_memory(mine, his) for mine in arrays_of(A) for his in arrays_of(m))
    for make in (lambda: ours(m, copy=True), lambda: ours(ours(m), copy=True), lambda: ours(ours(m), dtype="f4")):
        assert not any(np.may_share_memory(mine, his) for mine in arrays_of(make()) for his in arrays_of(m))


def arrays_of(m: Any) -> tuple[Any, Any, Any]:
    return m.data, m.indices, m.indptr


def test_arrays_from_an_unknown_class_are_copied() -> None:
    class Cached(sps.coo_array):
        kept = plain()

        def tocsr(self, copy: bool = False) -> Any:
            return self.kept

    A = autosparse.csr(Cached(plain()))
    assert not np.may_share_memory(A.data, Cached.kept.data)


def test_large_arrays_are_copied_right() -> None:
    rng = np.random.default_rng(0)
    for dtype in ("f4", "f8", "c16", "i2", "?"):
        arrays = [rng.integers(0, 2, n).astype(dtype) for n in (1_000_003, 7, 3_000_001)]
        arrays[1] = np.repeat(arrays[1], 2)[::2]
        assert sum(array.nbytes for array in arrays) > memory.ALL_THREADS_FROM_BYTES
        copies, n_bytes = ownership.copies_of(arrays, everything=False)
        assert n_bytes == sum(array.nbytes for array in arrays)
        for array, made in zip(arrays, copies, strict=True):
            np.testing.assert_array_equal(made, array)
            assert made.flags.owndata
            assert made.flags.c_contiguous


# -- matrices that are autosparse's already


def test_csr_of_one_of_ours_shares_operand_plans_and_packed_copies() -> None:
    A = autosparse.csr(plain())
    A.tune(effort="estimate")

    def solve(m: Any) -> Any:
        return autosparse.csr(m)

    B = solve(A)
    assert B is not A
    assert B._cell is A._cell
    assert type(B) is type(A)
    A.data[0] = 42
    np.testing.assert_allclose(B @ np.ones(N), A @ np.ones(N))
    B.data = B.data * 2  # ends the sharing, as with A.T
    np.testing.assert_allclose(B.toarray(), 2 * A.toarray())


@pytest.mark.parametrize("kind", KINDS)
def test_classes_and_copies_share_or_own_as_scipys_do(kind: str) -> None:
    m = plain(kind)
    A = getattr(autosparse, kind)(m)
    assert A.data is m.data
    assert not A.owns_arrays
    assert copy.copy(A).data is m.data
    for own in (A.copy(), copy.deepcopy(A), getattr(autosparse, kind)(m, copy=True), pickle.loads(pickle.dumps(A))):
        assert not np.shares_memory(own.data, m.data)
        np.testing.assert_array_equal(own.toarray(), m.toarray())
        assert type(own) is type(A)
    A.data[0] = 42
    np.testing.assert_allclose(A @ np.ones(N), m @ np.ones(N))


@counts_known
def test_a_shared_matrix_owns_its_arrays_once_the_caller_lets_go() -> None:
    m = plain()
    A = autosparse.csr(m, copy=False)
    assert not A.owns_arrays
    del m
    assert A.owns_arrays
    kept = A.data
    assert autosparse.csr(plain()).owns_arrays
    assert not A.owns_arrays
    del kept


def test_an_array_that_is_assigned_belongs_to_the_caller() -> None:
    A, values = autosparse.csr(plain()), np.ones(plain().nnz)
    kept = A.data
    assert A.owns_arrays
    A.data = values
    assert not A.owns_arrays
    values[0] = 7
    np.testing.assert_array_equal(A.data, values)
    del kept


def test_without_a_copy_writes_to_the_source_are_seen() -> None:
    m = plain()
    A = autosparse.csr(m, copy=False)
    before = A @ np.ones(N)
    WRITES["data *="](m)
    np.testing.assert_allclose(A @ np.ones(N), 2 * before)
