"""Tests that the generated kernel, the interpreter and SciPy agree to the last bit, for every schedule and pattern.

Values are small integers, so that every order of summation gives the same floating-point number.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
import pytest
from autosparse._native import runtime_api
from hypothesis import given, settings
from hypothesis import strategies as st

from autosparse import _native
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import VECTOR_BYTES, Target
from tests.covering import in_turn
from tests.native import cases
from tests.native.interpreter import interpret

TYPES = [("float32", "int32"), ("float64", "int64")]
TYPED = [pytest.param(made, *TYPES[n % 2], id=cases.label(made)) for n, made in enumerate(cases.FAMILY)]
"""Each schedule with the types of its kernel in `test_kernel_equals_interpreter_equals_scipy`: no other is compiled."""

BELOW = [isa for isa in VECTOR_BYTES if VECTOR_BYTES[isa] < Target.host().vector_bytes] or ["baseline"]


def check(made: SuperSchedule, taken: cases.Sample, *, transposed: bool, seed: int, isa: str | None = None) -> None:
    """Check kernel == interpreter == SciPy at every width, on one and on two threads."""
    if not cases.fits(made, taken, transposed=transposed):
        return
    dtype = taken.data.dtype.name
    of = cases.spec(made, dtype, taken.pattern.index_dtype, isa)
    packed = _native.pack(taken.pattern, taken.data, made.format, transposed=transposed)
    operand = taken.matrix.T if transposed else taken.matrix
    rng = np.random.default_rng(seed)
    for n in cases.n_columns(made):
        B = cases.integers(rng, (operand.shape[1], n), dtype)
        expected = operand @ B
        for n_threads in (1, 2):
            C, exact = cases.run(of, packed, B, n_threads)
            assert exact
            np.testing.assert_array_equal(C, expected)
        if taken.pattern.nnz * n < 400:
            np.testing.assert_array_equal(interpret(of, packed, B, 2), expected)


@in_turn("made", "types", first=cases.FAMILY, second=TYPES, label=cases.label)
@settings(max_examples=4)
@given(data=st.data(), transposed=st.booleans(), seed=st.integers(0, 999))
def test_kernel_equals_interpreter_equals_scipy(
    made: SuperSchedule, types: tuple[str, str], data: st.DataObject, transposed: bool, seed: int
) -> None:
    taken = data.draw(cases.samples(dtype=types[0], index_dtype=types[1]))
    check(made, taken, transposed=transposed, seed=seed)


@in_turn("made", "isa", first=[*cases.SPMV[3:10:2], *cases.SPMM[0:9:4]], second=BELOW, label=cases.label)
def test_every_instruction_set_gives_the_same(made: SuperSchedule, isa: str) -> None:
    for dtype in ("float32", "float64"):
        taken = cases.sample(23, 31, [5] * 23, seed=4, dtype=dtype)
        check(made, taken, transposed=False, seed=1, isa=isa)


def random_cases(n: int, seed: int) -> None:
    """Check random schedules of the whole template, each on a few patterns."""
    rng = np.random.default_rng(seed)
    for at in range(n):
        made = cases.random_schedule(rng)
        dtype, index_dtype = TYPES[at % 2]
        for n_rows, n_cols, longest in ((13, 17, 4), (1, 9, 9), (18, 3, 2)):
            lengths = rng.integers(0, longest + 1, n_rows).tolist()
            taken = cases.sample(n_rows, n_cols, lengths, seed=at, dtype=dtype, index_dtype=index_dtype)
            check(made, taken, transposed=bool(at % 3), seed=at)


def test_any_level_order_and_loop_order_agrees() -> None:
    random_cases(8, seed=7)


@pytest.mark.full
def test_many_random_schedules_agree() -> None:
    random_cases(3000, seed=8)


@pytest.mark.parametrize(("made", "dtype", "index_dtype"), TYPED)
def test_padding_never_hides_or_invents_non_finite_values(made: SuperSchedule, dtype: str, index_dtype: str) -> None:
    """Check that results that a kernel reports as exact equal SciPy's, NaN and infinity included."""
    vouched, of = 0, cases.spec(made, dtype, index_dtype)
    for seed, (bad, place) in enumerate(itertools.product((np.inf, -np.inf, np.nan), range(2))):
        taken = cases.sample(11, 9, [0, 3, 1, 2, 0, 4, 1, 1, 2, 0, 3], seed=seed, dtype=dtype, index_dtype=index_dtype)
        B = np.random.default_rng(seed).integers(-3, 4, (9, 5 if made.dense_split("j") else 1)).astype(dtype)
        if place:
            B[seed % 9, 0] = bad
        else:
            taken.data[seed % taken.data.size] = bad
        if not cases.fits(made, taken, transposed=False):
            continue
        packed = _native.pack(taken.pattern, taken.data, made.format, transposed=False)
        C, exact = cases.run(of, packed, B, 1)
        with np.errstate(invalid="ignore"):
            expected = taken.matrix @ B
        flags: list[int] = []
        with np.errstate(invalid="ignore"):
            interpret(of, packed, B, flags=flags)
        assert exact == (not flags[0])
        vouched += exact
        if exact:
            np.testing.assert_array_equal(C, expected)
    assert made.format.has_padding or vouched


def test_real_values_agree_within_rounding() -> None:
    rng = np.random.default_rng(3)
    for made, dtype, index_dtype in (row.values for row in TYPED):
        taken = cases.sample(40, 50, [6] * 40, seed=2, dtype=dtype, index_dtype=index_dtype)
        taken.data[:] = rng.standard_normal(taken.data.size)
        B = rng.standard_normal((50, 37 if made.dense_split("j") else 1)).astype(dtype)
        packed = _native.pack(taken.pattern, taken.data, made.format, transposed=False)
        C, _ = cases.run(cases.spec(made, dtype, index_dtype), packed, B, 2)
        np.testing.assert_allclose(C, taken.matrix @ B, rtol=40 * np.finfo(dtype).eps, atol=40 * np.finfo(dtype).eps)


@pytest.mark.parametrize(("made", "dtype", "index_dtype"), TYPED)
def test_thread_count_does_not_change_a_bit(made: SuperSchedule, dtype: str, index_dtype: str) -> None:
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 30, 60).tolist()
    taken = cases.sample(60, 50, lengths, seed=6, dtype=dtype, index_dtype=index_dtype)
    taken.data[:] = rng.standard_normal(taken.data.size)
    B = rng.standard_normal((50, 33 if made.dense_split("j") else 1)).astype(dtype)
    packed = _native.pack(taken.pattern, taken.data, made.format, transposed=False)
    of = cases.spec(made, dtype, index_dtype)
    results = [cases.run(of, packed, B, n_threads)[0] for n_threads in (1, 2, 3, 2, 7)]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


def test_leading_dimensions_and_strided_memory_are_respected() -> None:
    made = cases.SPMM[0]
    taken = cases.sample(12, 15, [3] * 12, seed=1)
    wide_b, wide_c = np.ones((15, 50), np.float32), np.full((12, 45), 7, np.float32)
    B, C = wide_b[:, 3:40], wide_c[:, 2:39]
    bound = cases.kernel(cases.spec(made)).bind(_native.pack(taken.pattern, taken.data, made.format, transposed=False))
    assert bound.run(B.ctypes.data, 50, C.ctypes.data, 45, 37, 2)
    np.testing.assert_array_equal(C, taken.matrix @ B)
    assert np.all(wide_c[:, :2] == 7)
    assert np.all(wide_c[:, 39:] == 7)


def test_one_bound_kernel_serves_many_threads_at_once() -> None:
    made = cases.SPMM[0]
    taken = cases.sample(200, 100, [20] * 200, seed=1)
    bound = cases.kernel(cases.spec(made)).bind(_native.pack(taken.pattern, taken.data, made.format, transposed=False))
    wrong: list[int] = []

    def work(seed: int) -> None:
        B = np.random.default_rng(seed).integers(-3, 4, (100, 40)).astype(np.float32)
        expected, C = taken.matrix @ B, np.empty((200, 40), np.float32)
        for _ in range(20):
            C[:] = 0
            bound.run(B.ctypes.data, 40, C.ctypes.data, 40, 40, 2)
            wrong.append(int(not np.array_equal(C, expected)))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 120
    assert not any(wrong)


def test_live_values_are_read_at_each_call() -> None:
    made = cases.SPMV[0]
    taken = cases.sample(9, 9, [2] * 9, seed=1)
    packed = _native.pack(taken.pattern, taken.data, made.format, transposed=False)
    assert packed.nbytes == 0
    B = np.ones((9, 1), np.float32)
    before, _ = cases.run(cases.spec(made), packed, B, 1)
    taken.data[:] *= 2
    after, _ = cases.run(cases.spec(made), packed, B, 1)
    np.testing.assert_array_equal(after, 2 * before)


@pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")
@pytest.mark.parametrize("made", cases.SPMV, ids=cases.label)
def test_rows_are_complete_when_a_kernel_reports_them(made: SuperSchedule) -> None:
    taken, ffi = cases.sample(130, 90, [*range(13)] * 10, seed=3), runtime_api.ffi
    packed = _native.pack(taken.pattern, taken.data, made.format, transposed=False)
    bound, x = cases.kernel(cases.spec(made)).bind(packed), np.arange(1.0, 91.0, dtype=np.float32)
    wanted, y = taken.matrix @ x, np.full(130, np.nan, np.float32)
    reported, is_right, window = np.zeros(130, bool), [], made.format.sigma

    @ffi.callback("void(void *, int64_t, int64_t)")
    def done(_observer: object, begin: int, end: int) -> None:
        reported[begin:end] = True
        for first in range(begin // window * window, min(end, 130), window):
            rows = slice(first, first + window)
            is_right.append(not reported[rows].all() or np.array_equal(y[rows], wanted[rows]))

    @ffi.callback("int(asp_task, void *, int64_t, int64_t, int64_t, int, double)")
    def one_by_one(task: Any, context: Any, n_items: int, *_: float) -> int:  # Any: cffi pointers
        for part in range(n_items):
            task(context, part, part + 1)
        return 0

    bound._operand.done, bound._operand.parallel = ffi.cast("void *", done), ffi.cast("void *", one_by_one)
    assert bound.run(x.ctypes.data, 1, y.ctypes.data, 1, 1, 2)
    assert all(is_right)
    np.testing.assert_array_equal(y, wanted)
    assert bound._operand.window == window
    if made.format.is_csr or window > 1:
        assert reported.all() == (made.loop_order[0] == "i1")


def test_binding_another_format_or_type_is_refused() -> None:
    taken = cases.sample(9, 9, [2] * 9, seed=1)
    packed = _native.pack(taken.pattern, taken.data, cases.SPMV[0].format, transposed=False)
    for other in (
        cases.spec(cases.SPMV[7]),
        cases.spec(cases.SPMV[0], "float64"),
        cases.spec(cases.SPMV[0], index_dtype="int64"),
    ):
        with pytest.raises(TypeError, match="a kernel for"):
            cases.kernel(other).bind(packed)
