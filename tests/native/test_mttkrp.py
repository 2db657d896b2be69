"""Tests that the generated MTTKRP kernel, the interpreter and NumPy agree to the last bit, for every mode and order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from autosparse._native.ir import nodes as ir
from autosparse._native.ir.lower import lower
from hypothesis import given, settings
from hypothesis import strategies as st

from autosparse import _native
from autosparse.core.formats import Format
from autosparse.core.pattern import TensorPattern
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import VECTOR_BYTES, Target
from autosparse.errors import PackError
from tests.covering import in_turn
from tests.native import cases, operands
from tests.native.interpreter import interpret_mttkrp

DTYPES = ("float32", "float64")
NAMES = list(operands.MTTKRP)
TYPED = [pytest.param(name, DTYPES[n % 2], id=name) for n, name in enumerate(NAMES)]
"""Each schedule with the type of its kernel in `test_kernel_equals_interpreter_equals_numpy`: no other is compiled."""
BELOW = [isa for isa in VECTOR_BYTES if VECTOR_BYTES[isa] < Target.host().vector_bytes] or ["baseline"]
PRIVATE = [name for name, made in operands.MTTKRP.items() if made.parallel[0] != "i"]


def check(
    made: SuperSchedule, pattern: TensorPattern, mode: int, *, seed: int, dtype: str, isa: str | None = None
) -> None:
    """Check kernel == interpreter == NumPy at every width, on several numbers of threads."""
    of = operands.spec(made, dtype, pattern.index_dtype, isa)
    rng = np.random.default_rng(seed)
    values = operands.integers(rng, (pattern.nnz,), dtype)
    packed = _native.pack_tensor(pattern, values, made.format, mode)
    for n in operands.n_columns(made):
        extents = [extent for at, extent in enumerate(pattern.shape) if at != mode]
        factors = [operands.integers(rng, (extent, n), dtype) for extent in extents]
        expected = operands.mttkrp(pattern, values, factors, mode)
        for n_threads in (1, 2, 5):
            np.testing.assert_array_equal(operands.run_mttkrp(of, packed, factors, n_threads), expected)
        if pattern.nnz * n < 200:
            np.testing.assert_array_equal(interpret_mttkrp(of, packed, factors, 2), expected)


@pytest.mark.parametrize(("name", "dtype"), TYPED)
@settings(max_examples=4)
@given(data=st.data(), seed=st.integers(0, 999))
def test_kernel_equals_interpreter_equals_numpy(name: str, dtype: str, data: st.DataObject, seed: int) -> None:
    made = operands.MTTKRP[name]
    pattern, mode = data.draw(operands.tensors(operands.order_of(made)))
    check(made, pattern, mode, seed=seed, dtype=dtype)


@in_turn("name", "isa", first=["CSF ikl", "odd tile", "blocked"], second=BELOW)
def test_every_instruction_set_gives_the_same(name: str, isa: str) -> None:
    check(operands.MTTKRP[name], operands.tensor((9, 8, 7), 90, seed=1), 1, seed=2, dtype="float32", isa=isa)


def random_cases(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for at in range(n):
        indices = ("ikl", "iklm")[at % 4 == 3]
        made = operands.random_schedule("mttkrp", indices, rng)
        for shape, nnz in (((7, 5, 9, 4), 40), ((1, 6, 2, 3), 9), ((4, 3, 1, 2), 0)):
            pattern = operands.tensor(shape[: len(indices)], nnz, seed=at)
            check(made, pattern, at % len(indices), seed=at, dtype=DTYPES[at % 2])


def test_any_level_order_and_loop_order_agrees() -> None:
    random_cases(8, seed=5)


@pytest.mark.full
def test_many_random_schedules_agree() -> None:
    random_cases(200, seed=6)


def test_factors_are_taken_out_of_inner_sums() -> None:
    """Check that CSF multiplies by the row of B once per fiber, as in SPLATT."""
    program = lower(operands.spec(operands.MTTKRP["CSF ikl"]))
    spaces = [node for node in ir.walk(program.body) if isinstance(node, ir.Workspace)]
    assert [tuple(map(str, space.factors)) for space in spaces] == [(), ("B[k,j]",)]
    block = next(node for node in ir.walk(program.body) if isinstance(node, ir.Block))
    assert [access.tensor for access in block.factors] == ["T", "C"]


@pytest.mark.parametrize(("name", "dtype"), TYPED)
def test_a_vouched_result_is_numpys_with_infinite_factors_too(name: str, dtype: str) -> None:
    """Check that results are not reported as exact where empty sums or padding meet infinity, which gives NaN."""
    made = operands.MTTKRP[name]
    pattern = operands.tensor((6, 5, 4, 3, 2)[: operands.order_of(made)], 12, seed=3)
    rng = np.random.default_rng(4)
    n, of = operands.n_columns(made)[-1], operands.spec(made, dtype)
    for mode, bad in itertools.product(range(pattern.ndim), (None, np.inf, np.nan)):
        values = rng.integers(1, 3, pattern.nnz).astype(dtype)
        extents = [extent for at, extent in enumerate(pattern.shape) if at != mode]
        factors = [rng.integers(1, 3, (extent, n)).astype(dtype) for extent in extents]
        if bad is not None:
            factors[0][1, :] = bad
        packed = _native.pack_tensor(pattern, values, made.format, mode)
        M = np.full((packed.sizes["i"], n), np.nan, dtype)
        bound = cases.kernel(of).bind(packed)
        addresses, lds = [factor.ctypes.data for factor in factors], [n] * len(factors)
        vouched = bound.run(addresses, lds, M.ctypes.data, n, n, 1)
        flags: list[int] = []
        with np.errstate(invalid="ignore"):
            interpret_mttkrp(of, packed, factors, flags=flags)
            expected = operands.mttkrp(pattern, values, factors, mode)
        assert vouched == (not flags[0])
        assert vouched or bad is not None
        if vouched:
            np.testing.assert_array_equal(M, expected)


@pytest.mark.parametrize("name", PRIVATE)
def test_outputs_of_threads_own_can_be_fixed(name: str) -> None:
    made = operands.MTTKRP[name]
    pattern = operands.tensor((60, 50, 40), 3000, seed=1)
    rng = np.random.default_rng(2)
    values = rng.standard_normal(3000).astype(np.float32)
    factors = [rng.standard_normal((extent, 16)).astype(np.float32) for extent in (50, 40)]
    packed = _native.pack_tensor(pattern, values, made.format, 0)
    fixed = operands.spec(made, deterministic=True)
    results = [operands.run_mttkrp(fixed, packed, factors, n_threads) for n_threads in (1, 2, 3, 7)]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)
    np.testing.assert_allclose(results[0], operands.mttkrp(pattern, values, factors, 0), rtol=1e-3, atol=1e-3)


def test_a_product_of_matrices_may_sum_in_parallel_too() -> None:
    made = cases.schedule("k1:U,i1:C", "k1 i1 j1 j0", 16, parallel="k1")
    taken = cases.sample(40, 30, [4] * 40, seed=1)
    packed = _native.pack(taken.pattern, taken.data, made.format, transposed=False)
    B = operands.integers(np.random.default_rng(1), (30, 20), "float32")
    for n_threads in (1, 2, 4):
        C, exact = cases.run(cases.spec(made), packed, B, n_threads)
        assert exact
        np.testing.assert_array_equal(C, taken.matrix @ B)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(data=st.data())
def test_unpack_inverts_pack_and_refresh_equals_packing_again(name: str, data: st.DataObject) -> None:
    fmt = operands.MTTKRP[name].format
    pattern, mode = data.draw(operands.tensors(operands.order_of(operands.MTTKRP[name])))
    values = operands.integers(np.random.default_rng(1), (pattern.nnz,), "float64")
    packed = _native.pack_tensor(pattern, values, fmt, mode)
    assert packed.nbytes <= _native.tensor_bytes(pattern, fmt, 8, mode)
    np.testing.assert_array_equal(
        as_dense(pattern.shape, *packed.unpack()), as_dense(pattern.shape, pattern.coords, values)
    )
    where = packed.values.ctypes.data
    packed.refresh(values * 3 + 1)
    again = _native.pack_tensor(pattern, values * 3 + 1, fmt, mode)
    np.testing.assert_array_equal(packed.values, again.values)
    assert packed.values.ctypes.data == where  # bound kernels keep reading the same memory


def as_dense(shape: tuple[int, ...], coords: operands.Array, values: operands.Array) -> operands.Array:
    whole = np.zeros(shape)
    np.add.at(whole, tuple(coords), values)
    return whole


def test_formats_beyond_their_limits_are_refused_with_a_reason() -> None:
    pattern = TensorPattern((70_000, 3, 3), np.array([[69_999], [0], [1]], np.int32))
    values = np.ones(1, np.float32)
    with pytest.raises(PackError, match="16 bits"):
        _native.pack_tensor(pattern, values, Format.parse("i1:C,k1:C,l1:C | bits=16"), 0)
    with pytest.raises(PackError, match="order 3"):
        _native.pack_tensor(pattern, values, Format.parse("i1:C,k1:C"), 0)
    assert _native.tensor_bytes(pattern, Format.parse("i1:U,k1:U,l1:U"), 8, 0) >= 8 * 70_000 * 9


@pytest.mark.parametrize(
    ("fmt", "loops", "fields", "reason"),
    [
        ("i1:C,k1:C,l1:C", "i1 k1 l1 j1 j0", {"parallel": "k1"}, "outermost"),
        ("i1:C,k1:C,l1:C", "i1 k1 l1 j1 j0", {"parallel": "j0"}, "inside a column tile"),
        ("i1:C,k1:C", "i1 k1 j1 j0", {}, "is wanted"),
    ],
)
def test_schedules_that_cannot_be_lowered_have_a_reason(
    fmt: str, loops: str, fields: dict[str, str], reason: str
) -> None:
    assert reason in str(_native.supports("mttkrp", operands.schedule("mttkrp", fmt, loops, 8, **fields)))


def test_sums_over_columns_are_no_parallel_loop() -> None:
    made = operands.schedule("sddmm", "i1:U,k1:C", "j1 i1 k1 j0", 8, parallel="j1")
    assert "sums" in str(_native.supports("sddmm", made))


def test_hash_is_of_shape_and_coordinates() -> None:
    one = operands.tensor((5, 6, 7), 20, seed=1)
    assert one == TensorPattern(one.shape, one.coords.copy())
    assert one != TensorPattern((5, 6, 8), one.coords)
    assert one != TensorPattern(one.shape, one.coords.astype(np.int64))
    assert one.index_dtype == "int32"
    with pytest.raises(TypeError, match="ndim, nnz"):
        TensorPattern((5, 6), one.coords)
