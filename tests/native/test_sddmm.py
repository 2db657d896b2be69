"""Tests that the generated SDDMM kernel, the interpreter and NumPy agree to the last bit on every kind of pattern."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosparse import _native
from autosparse.core.formats import Format
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import VECTOR_BYTES, Target
from autosparse.errors import PackError
from tests.covering import in_turn
from tests.native import cases, operands
from tests.native.interpreter import interpret_sddmm

TYPES = [("float32", "int32"), ("float64", "int64")]
NAMES = list(operands.SDDMM)
TYPED = [pytest.param(name, *TYPES[n % 2], id=name) for n, name in enumerate(NAMES)]
"""Each schedule with the types of its kernel in `test_kernel_equals_interpreter_equals_numpy`: no other is compiled."""
BELOW = [isa for isa in VECTOR_BYTES if VECTOR_BYTES[isa] < Target.host().vector_bytes] or ["baseline"]


def check(made: SuperSchedule, taken: cases.Sample, *, seed: int, isa: str | None = None) -> None:
    """Check kernel == interpreter == NumPy at every width, on one and on two threads."""
    if _native.reason_unfit(taken.pattern, made.format, transposed=False):
        return
    dtype, rng = taken.data.dtype.name, np.random.default_rng(seed)
    of = operands.spec(made, dtype, taken.pattern.index_dtype, isa)
    for n in operands.n_columns(made):
        X = operands.integers(rng, (taken.pattern.n_rows, n), dtype)
        Y = operands.integers(rng, (taken.pattern.n_cols, n), dtype)
        expected = operands.sddmm(taken, X, Y)
        for n_threads in (1, 2):
            np.testing.assert_array_equal(operands.run_sddmm(of, taken, X, Y, n_threads), expected)
        if taken.pattern.nnz * n < 300:
            structure = _native.pack_structure(taken.pattern, made.format)
            told = interpret_sddmm(of, structure, taken.data, X, Y, n_threads=2)
            np.testing.assert_array_equal(told, expected)


@pytest.mark.parametrize(("name", "dtype", "index_dtype"), TYPED)
@settings(max_examples=8)
@given(data=st.data(), seed=st.integers(0, 999))
def test_kernel_equals_interpreter_equals_numpy(
    name: str, dtype: str, index_dtype: str, data: st.DataObject, seed: int
) -> None:
    taken = data.draw(cases.samples(dtype=dtype, index_dtype=index_dtype))
    check(operands.SDDMM[name], taken, seed=seed)


@in_turn("name", "isa", first=["CSR", "CSR odd tile", "CSR rows in registers", "BCSR block of results"], second=BELOW)
def test_every_instruction_set_gives_the_same(name: str, isa: str) -> None:
    check(operands.SDDMM[name], cases.sample(23, 31, [5] * 23, seed=4), seed=1, isa=isa)


def random_cases(n: int, seed: int) -> None:
    """Check random schedules of the whole template, each on a few patterns."""
    rng = np.random.default_rng(seed)
    for at in range(n):
        made = operands.random_schedule("sddmm", "ik", rng)
        dtype, index_dtype = TYPES[at % 2]
        for n_rows, n_cols, longest in ((13, 17, 4), (1, 9, 9), (18, 3, 2)):
            lengths = rng.integers(0, longest + 1, n_rows).tolist()
            taken = cases.sample(n_rows, n_cols, lengths, seed=at, dtype=dtype, index_dtype=index_dtype)
            check(made, taken, seed=at)


def test_any_level_order_and_loop_order_agrees() -> None:
    random_cases(8, seed=3)


@pytest.mark.full
def test_many_random_schedules_agree() -> None:
    random_cases(200, seed=4)


@pytest.mark.parametrize(("name", "dtype", "index_dtype"), TYPED)
def test_padding_never_meets_a_value(name: str, dtype: str, index_dtype: str) -> None:
    """Check that infinite rows of X and Y affect the results of their own entries only, in blocks too."""
    made = operands.SDDMM[name]
    lengths = [0, 3, 1, 2, 0, 4, 1, 1, 2, 0, 3]
    taken = cases.sample(11, 9, lengths, seed=5, dtype=dtype, index_dtype=index_dtype)
    n = operands.n_columns(made)[-1]
    rng = np.random.default_rng(0)
    X, Y = (rng.integers(1, 4, (extent, n)).astype(dtype) for extent in taken.pattern.shape)
    X[3], Y[4] = np.inf, -np.inf
    rows = np.repeat(np.arange(11), taken.pattern.row_lengths)
    with np.errstate(invalid="ignore"):
        expected = taken.data * (X[rows] * Y[taken.pattern.indices]).sum(axis=1)
    found = operands.run_sddmm(operands.spec(made, dtype, index_dtype), taken, X, Y, 1)
    np.testing.assert_array_equal(found, expected)


def test_real_values_agree_within_rounding() -> None:
    rng = np.random.default_rng(3)
    for name, dtype, index_dtype in (row.values for row in TYPED):
        made = operands.SDDMM[name]
        taken = cases.sample(40, 50, [6] * 40, seed=2, dtype=dtype, index_dtype=index_dtype)
        taken.data[:] = rng.standard_normal(taken.data.size)
        n = 37 if made.dense_split("j") else 1
        X, Y = (rng.standard_normal((extent, n)).astype(dtype) for extent in taken.pattern.shape)
        told = operands.run_sddmm(operands.spec(made, dtype, index_dtype), taken, X, Y, 2)
        np.testing.assert_allclose(told, operands.sddmm(taken, X, Y), rtol=1e-4, atol=1e-4)


def test_leading_dimensions_are_respected_and_values_are_live() -> None:
    made = operands.SDDMM["CSR"]
    taken = cases.sample(12, 15, [3] * 12, seed=1)
    bound = cases.kernel(operands.spec(made)).bind(_native.pack_structure(taken.pattern, made.format))
    X, Y = np.ones((12, 50), np.float32)[:, 3:40], np.full((15, 45), 2, np.float32)[:, 1:38]
    for _ in range(2):
        out = np.full(36, np.nan, np.float32)
        bound.run(X.ctypes.data, 50, Y.ctypes.data, 45, taken.data.ctypes.data, out.ctypes.data, 37, 2)
        np.testing.assert_array_equal(out, taken.data * 74)
        taken.data[:] += 1


@pytest.mark.parametrize("name", NAMES)
def test_structures_hold_every_entry_once(name: str) -> None:
    fmt = operands.SDDMM[name].format
    for dtype, lengths in (("int32", [3] * 23), ("int64", [0] * 22 + [60]), ("int32", [0] * 23)):
        taken = cases.sample(23, 19, lengths, seed=3, index_dtype=dtype)
        structure = _native.pack_structure(taken.pattern, fmt)
        rows, columns, numbers = structure.entries()
        order = np.argsort(numbers)
        np.testing.assert_array_equal(numbers[order], np.arange(taken.pattern.nnz))
        np.testing.assert_array_equal(columns[order], taken.pattern.indices)
        np.testing.assert_array_equal(rows[order], np.repeat(np.arange(23), taken.pattern.row_lengths))
        assert structure.nbytes <= _native.structure_bytes(taken.pattern, fmt)


def test_csr_is_not_packed_and_slices_are_refused() -> None:
    taken = cases.sample(9, 9, [2] * 9, seed=1)
    structure = _native.pack_structure(taken.pattern, Format.parse("i1:U,k1:C"))
    assert structure.crd["k1"] is taken.pattern.indices
    assert structure.nbytes == 0
    with pytest.raises(PackError, match="slices"):
        _native.pack_structure(taken.pattern, Format.parse("i1:U,k1:S,i0:U | i=4"))


def test_binding_another_kind_of_operand_is_refused() -> None:
    taken = cases.sample(9, 9, [2] * 9, seed=1)
    packed = _native.pack(taken.pattern, taken.data, Format.parse("i1:U,k1:C"), transposed=False)
    with pytest.raises(TypeError, match="sddmm got a PackedOperand"):
        cases.kernel(operands.spec(operands.SDDMM["CSR"])).bind(packed)
