"""Tests of composites: disjoint parts compute what one format does, with the same bits for any number of threads."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse._native import runtime_api
from autosparse._native.ir.lower import lower
from autosparse._native.storage.composite import composite_bytes, pack_composite, part_schedules

from autosparse import _native, cache, config
from autosparse.core.composite import (
    REST,
    Blocks,
    ColumnList,
    Composite,
    Diagonals,
    Part,
    RowList,
    Rows,
    schedule_from_json,
    selection_of,
)
from autosparse.core.formats import Format
from autosparse.core.pattern import Pattern
from autosparse.core.schedule import RUNTIME, SuperSchedule
from autosparse.core.target import Target
from autosparse.errors import PackError, ScheduleError
from tests.native.cases import schedule
from tests.native.hooks import forced_choice
from tests.native.interpreter import interpret
from tests.native.operands import schedule as made_for

CSR = schedule("i1:U,k1:C", "i1 j1 k1 j0", 16)
ORDERED = schedule("i1:U,k1:C | rows=degree", "i1 j1 k1 j0", 16)
BLOCKS = schedule("i1:U,k1:C,i0:U,k0:U | i=4,k=4", "i1 j1 k1 i0 k0 j0", 16)
PANELS = schedule("k1:U,i1:U,k0:C,i0:U | i=4,k=16 | bits=16", "k1 j1 i1 k0 i0 j0", 16)
READY = SuperSchedule(implementation=RUNTIME)
READY_BLOCKS = SuperSchedule(
    format=Format.parse("i1:U,k1:C,i0:U,k0:U | i=4,k=4"), loop_order=("i1", "k1", "i0", "k0"), implementation=RUNTIME
)
READY_PANELS = SuperSchedule(
    format=Format.parse("k1:U,i1:U,k0:C,i0:U | i=4,k=256"), loop_order=("k1", "i1", "k0", "i0"), implementation=RUNTIME
)
VECTOR = schedule("i1:U,k1:C", "i1 k1", unroll=4)

ROW_SETS = (
    Composite(parts=(Part(Rows(9), CSR), Part(REST, BLOCKS))),
    Composite(parts=(Part(Rows(9), PANELS), Part(REST, ORDERED))),
    Composite(parts=(Part(RowList((0, 3, 4, 5, 39)), READY), Part(Rows(3, 7), CSR), Part(REST, READY))),
    Composite(parts=(Part(Rows(1000), CSR), Part(REST, CSR))),
    Composite(parts=(Part(Rows(0), CSR), Part(REST, CSR))),
    Composite(parts=(Part(Rows(9), READY_PANELS), Part(REST, READY))),
)
SPLITS = (
    Composite(parts=(Part(Blocks(4, 4, 0.3), BLOCKS), Part(REST, CSR))),
    Composite(parts=(Part(Diagonals(0.2), CSR), Part(ColumnList((1, 2, 30)), CSR), Part(REST, CSR))),
    Composite(parts=(Part(Rows(9), READY), Part(Blocks(4, 4, 0.3), BLOCKS), Part(REST, CSR))),
)
EVERY = (*ROW_SETS, *SPLITS)


def matrix(dtype: str = "float32", seed: int = 0) -> Any:
    """Return a 41 x 37 matrix of small integers, with rows of 0 to 20 entries and a few full blocks."""
    rng = np.random.default_rng(seed)
    dense = (rng.random((41, 37)) < rng.random(41)[:, None] ** 2 * 0.5) * rng.integers(1, 5, (41, 37))
    dense[8:12, 4:8] = 3
    dense[20:24, 12:20] = 2
    dense[7] = 0
    return sp.csr_matrix(dense.astype(dtype))


def drawn(shape, density, rng, dtype):
    """Return a random matrix with 32-bit indices, which SciPy 1.13 would draw with 64 bits."""
    A = sp.random_array(shape, density=density, format="csr", random_state=rng, dtype=dtype)
    return sp.csr_array((A.data, A.indices.astype(np.int32), A.indptr.astype(np.int32)), shape=shape)


def pattern_of(A: Any) -> Pattern:
    return Pattern(*A.shape, A.indptr, A.indices)


def bound_of(A: Any, composite: Composite, *, transposed: bool = False) -> Any:
    """Return the composite on A as (bound kernels, packed copy)."""
    spec = _native.CompositeSpec(composite.operation, composite, A.dtype.name, "int32", Target.host().isa)
    kernel = _native.build(spec, store=cache.open_store(), compiler=config.get_options().compiler)
    packed = pack_composite(pattern_of(A), A.data, composite, transposed=transposed)
    return kernel.bind(packed), packed


def product(bound: Any, B: Any, n_rows: int, n_threads: int, room: int = 0) -> Any:
    """Return C by a bound composite, written over NaN; `room` is the number of spare elements between rows."""
    C = np.full((n_rows, B.shape[1] + room), np.nan, B.dtype)
    assert bound.run(B.ctypes.data, B.shape[1], C.ctypes.data, C.shape[1], B.shape[1], n_threads)
    assert np.isnan(C[:, B.shape[1] :]).all()
    return C[:, : B.shape[1]]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("composite", EVERY, ids=str)
def test_composite_computes_the_product(composite, transposed):
    A = matrix()
    bound, packed = bound_of(A, composite, transposed=transposed)
    wanted = A.T if transposed else A
    B = np.random.default_rng(1).integers(-4, 5, (wanted.shape[1], 19)).astype(np.float32)
    for n_threads in (1, 2, 3):
        np.testing.assert_array_equal(product(bound, B, wanted.shape[0], n_threads, room=3), wanted @ B)
    assert packed.nbytes <= composite_bytes(pattern_of(A), composite, 4, transposed=transposed)


@pytest.mark.parametrize("composite", EVERY, ids=str)
def test_parts_divide_the_entries(composite):
    A = matrix()
    subsets = _native.subsets(pattern_of(A), [part.select for part in composite.parts])
    assert sorted(np.concatenate([one.entries for one in subsets]).tolist()) == list(range(A.nnz))
    row_of = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    for one in subsets:
        own = np.repeat(np.arange(one.pattern.n_rows), one.pattern.row_lengths)
        rows = own if one.rows is None else one.rows[own]
        np.testing.assert_array_equal(rows, row_of[one.entries])
        np.testing.assert_array_equal(one.pattern.indices[: one.pattern.nnz], A.indices[one.entries])
    owners = [subsets[at].rows for at in range(composite.n_row_parts)] + [subsets[-1].rows]
    if composite.n_row_parts:
        assert sorted(np.concatenate(owners).tolist()) == list(range(A.shape[0]))


def blocks_of(r: int, c: int) -> SuperSchedule:
    return dataclasses.replace(READY_BLOCKS, format=Format.parse(f"i1:U,k1:C,i0:U,k0:U | i={r},k={c}"))


@pytest.mark.parametrize("isa", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("r", "c"), [(2, 8), (4, 4), (4, 2), (8, 2)])
def test_blocks_are_added_up_in_registers(r, c, dtype, isa):
    """Cover blocks that extend beyond the matrix, and tiles of every width."""
    A = matrix(dtype)
    A.data[:] = np.random.default_rng(2).standard_normal(A.nnz)
    blocks = blocks_of(r, c)
    spec = _native.KernelSpec("matmul", blocks, dtype, "int32", Target.host().isa)
    packed = _native.pack(pattern_of(A), A.data, blocks.format, transposed=False)
    alone = _native.build(spec, store=cache.open_store(), compiler=None).bind(packed)
    try:
        runtime_api.lib.asp_force_isa(isa)
        for width in (1, 5, 19, 72, 197):
            B = np.random.default_rng(3).standard_normal((A.shape[1], width)).astype(dtype)
            found = [product(alone, B, A.shape[0], n_threads, room=3) for n_threads in (1, 2, 3)]
            assert all(one.tobytes() == found[0].tobytes() for one in found)
            np.testing.assert_allclose(found[0], A @ B, rtol=1e-5, atol=1e-5)
    finally:
        runtime_api.lib.asp_force_isa(-1)


@pytest.mark.parametrize("isa", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("r", [4, 8])
def test_rows_side_by_side_are_added_up_panel_by_panel(r, dtype, isa):
    """Cover groups and panels that extend beyond the matrix, alone and as a part with scattered rows of C."""
    rng = np.random.default_rng(4)
    A = drawn((41, 600), 0.2, rng, dtype)
    A.data[:] = rng.standard_normal(A.nnz)
    made = dataclasses.replace(READY_PANELS, format=Format.parse(f"k1:U,i1:U,k0:C,i0:U | i={r},k=256"))
    part, _ = bound_of(A, Composite(parts=(Part(Rows(120), made), Part(REST, READY))))
    spec = _native.KernelSpec("matmul", made, dtype, "int32", Target.host().isa)
    packed = _native.pack(pattern_of(A), A.data, made.format, transposed=False)
    alone = _native.build(spec, store=cache.open_store(), compiler=None).bind(packed)
    try:
        runtime_api.lib.asp_force_isa(isa)
        for bound, width in itertools.product((part, alone), (1, 5, 19, 72, 197)):
            B = np.random.default_rng(3).standard_normal((600, width)).astype(dtype)
            found = [product(bound, B, 41, n_threads, room=3) for n_threads in (1, 2, 3)]
            assert all(one.tobytes() == found[0].tobytes() for one in found)
            np.testing.assert_allclose(found[0], A @ B, rtol=1e-4, atol=1e-4)
        B[300, 7] = np.inf  # cells without an entry are multiplied: the kernel reports that the result may be wrong
        C = np.empty((41, width), dtype)
        assert not part.run(B.ctypes.data, width, C.ctypes.data, width, width, 2)
    finally:
        runtime_api.lib.asp_force_isa(-1)


@pytest.mark.parametrize("composite", SPLITS, ids=str)
def test_threads_change_no_bit(composite):
    A = matrix("float64")
    A.data[:] = np.random.default_rng(2).standard_normal(A.nnz)
    B = np.random.default_rng(3).standard_normal((A.shape[1], 21))
    results = [product(bound_of(A, composite)[0], B, A.shape[0], n_threads) for n_threads in (1, 2, 3)]
    assert all(result.tobytes() == results[0].tobytes() for result in results)
    np.testing.assert_allclose(results[0], A @ B, rtol=1e-12, atol=1e-12)


def test_parts_read_copied_panels_of_columns():
    rng = np.random.default_rng(5)
    A = drawn((64, 2_000), 0.3, rng, np.float32)
    A.data[:] = rng.integers(1, 5, A.nnz)
    B = rng.integers(-4, 5, (2_000, 4_100)).astype(np.float32)[:, :300]  # unaligned rows, larger than a core's cache
    composite = Composite(parts=(Part(Rows(1_000), READY), Part(Blocks(4, 4, 0.4), BLOCKS), Part(REST, CSR)))
    results = []
    for copies in (0, 1):
        with forced_choice("copies", copies):
            bound, _ = bound_of(A, composite)
            C = np.full((64, 300), np.nan, np.float32)
            assert bound.run(B.ctypes.data, 4_100, C.ctypes.data, 300, 300, 2)
            results.append(C)
    for C in results:
        np.testing.assert_array_equal(C, A @ B)


def test_bytes_of_panels_of_rows_are_known_up_to_rows_of_the_last_block():
    packed = bound_of(matrix(), ROW_SETS[1])[1]
    assert 0 <= composite_bytes(pattern_of(matrix()), ROW_SETS[1], 4, transposed=False) - packed.nbytes <= 3 * 4


@pytest.mark.parametrize("composite", [*ROW_SETS[:3], SPLITS[0]], ids=str)
def test_new_values_reach_every_part(composite):
    A = matrix()
    bound, packed = bound_of(A, composite)
    values = np.random.default_rng(4).integers(1, 9, A.nnz).astype(np.float32)
    packed.refresh(values)
    B = np.ones((A.shape[1], 17), np.float32)
    np.testing.assert_array_equal(product(bound, B, A.shape[0], 2), sp.csr_matrix((values, A.indices, A.indptr)) @ B)


def test_vector_product():
    A = matrix()
    composite = Composite(parts=(Part(Rows(9), VECTOR), Part(REST, VECTOR)))
    x = np.arange(A.shape[1], dtype=np.float32)[:, None]
    np.testing.assert_array_equal(product(bound_of(A, composite)[0], x, A.shape[0], 2), A @ x)


def test_result_that_padding_spoils_is_reported():
    A, composite = matrix(), SPLITS[0]
    B = np.ones((A.shape[1], 16), np.float32)
    B[5] = np.inf
    C = np.empty((A.shape[0], 16), np.float32)
    bound, _ = bound_of(A, composite)
    assert not bound.run(B.ctypes.data, 16, C.ctypes.data, 16, 16, 1)


SAMPLED = made_for("sddmm", "i1:U,k1:C", "i1 k1 j1 j0", 16, unroll=2)
SAMPLED_BLOCKS = made_for("sddmm", "i1:U,k1:C,i0:U,k0:U | i=4,k=4", "i1 k1 j1 i0 k0 j0", 16)


SAMPLED_JAMMED = made_for("sddmm", "i1:U,k1:C", "i1 k1 j1 j0", 16, unroll=4)
SAMPLED_ROWS = made_for("sddmm", "i1:U,k1:C", "i1 k1 j1 j0", 64, unroll=8)
SAMPLED_READY = SuperSchedule(operation="sddmm", implementation=RUNTIME)
SAMPLED_SPLITS = (
    (Part(Blocks(4, 4, 0.3), SAMPLED_BLOCKS), Part(REST, SAMPLED)),
    (Part(Blocks(4, 4, 0.3), SAMPLED_JAMMED), Part(ColumnList((1, 2, 30)), SAMPLED), Part(REST, SAMPLED_ROWS)),
    (Part(Rows(9), SAMPLED_READY), Part(Diagonals(0.2), SAMPLED_ROWS), Part(REST, SAMPLED_JAMMED)),
)


def sampled(bound: Any, A: Any, X: Any, Y: Any, n_threads: int) -> Any:
    """Return the results of a bound sampled composite, written over NaN."""
    out, n = np.full(A.nnz, np.nan, A.dtype), X.shape[1]
    bound.run(X.ctypes.data, n, Y.ctypes.data, n, A.data.ctypes.data, out.ctypes.data, n, n_threads)
    return out


@pytest.mark.parametrize("width", [1, 18, 64])
@pytest.mark.parametrize("parts", SAMPLED_SPLITS, ids=lambda parts: str(parts[0].select))
def test_sampled_parts_that_share_rows(parts, width):
    """Check that the number of threads does not change the bits of any entry."""
    A = matrix("float64")
    rng = np.random.default_rng(7)
    A.data[:] = rng.standard_normal(A.nnz)
    X, Y = (rng.standard_normal((n, width)) for n in A.shape)
    composite = Composite(parts=parts)
    assert _native.composite_unsupported("sddmm", composite) is None
    bound, _ = bound_of(A, composite)
    results = [sampled(bound, A, X, Y, n_threads) for n_threads in (1, 2, 3)]
    assert all(one.tobytes() == results[0].tobytes() for one in results)
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    np.testing.assert_allclose(results[0], A.data * (X[rows] * Y[A.indices]).sum(axis=1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("first", [Rows(9), RowList((8, 9, 20)), Blocks(4, 4, 0.3)], ids=str)
def test_sampled_entries_are_written_once(first, repeats):
    A = matrix()
    if repeats:
        row = A.indptr[21]
        A.indices[row + 1] = A.indices[row]
        A.has_sorted_indices = False
    composite = Composite(parts=(Part(first, SAMPLED_BLOCKS), Part(REST, SAMPLED)))
    assert _native.composite_unsupported("sddmm", composite) is None
    bound, _ = bound_of(A, composite)
    rng = np.random.default_rng(5)
    X, Y = (rng.integers(-3, 4, (n, 18)).astype(np.float32) for n in A.shape)
    out = np.full(A.nnz, np.nan, np.float32)
    bound.run(X.ctypes.data, 18, Y.ctypes.data, 18, A.data.ctypes.data, out.ctypes.data, 18, 2)
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    np.testing.assert_array_equal(out, A.data * (X[rows] * Y[A.indices]).sum(axis=1))


@pytest.mark.parametrize("made", [CSR, BLOCKS, PANELS, ORDERED, VECTOR], ids=lambda made: str(made.format))
def test_a_kernel_that_accumulates_equals_the_interpreter(made):
    """Check C0 + A B against the interpreter, and that `adds` changes the key."""
    A, isa = matrix(), Target.host().isa
    plain = _native.KernelSpec("matmul", made, "float32", "int32", isa)
    adding = _native.KernelSpec("matmul", made, "float32", "int32", isa, adds=True)
    assert plain.key() != adding.key()
    assert "zero" not in {type(node).__name__.lower() for node in lower(adding).body}
    packed = _native.pack(pattern_of(A), A.data, made.format, transposed=False)
    n = 1 if made is VECTOR else 19
    rng = np.random.default_rng(6)
    B, onto = (rng.integers(-4, 5, (rows, n)).astype(np.float32) for rows in A.shape[::-1])
    C = onto.copy()
    kernel = _native.build(adding, store=cache.open_store(), compiler=config.get_options().compiler)
    kernel.bind(packed).run(B.ctypes.data, n, C.ctypes.data, n, n, 2)
    np.testing.assert_array_equal(C, onto + A @ B)
    np.testing.assert_array_equal(interpret(adding, packed, B, onto=onto), C)


@pytest.mark.parametrize("composite", EVERY, ids=str)
def test_composites_round_trip_through_text(composite):
    assert schedule_from_json(composite.to_json()) == composite
    assert Composite.from_json(composite.to_json()).stable_hash() == composite.stable_hash()
    assert all(selection_of(str(part.select)) == part.select for part in composite.parts)
    assert "\n" not in str(composite)


def test_invalid_composites_are_refused():
    for parts in ((Part(REST, CSR),), (Part(REST, CSR), Part(Rows(3), CSR)), (Part(Blocks(2, 2, 0.5), CSR),) * 2):
        with pytest.raises(ScheduleError):
            Composite(parts=parts)
    with pytest.raises(ScheduleError, match="whole rows"):
        Composite(parts=(Part(Blocks(2, 2, 0.5), CSR), Part(Rows(3), CSR), Part(REST, CSR)))
    for text in ("rows(3)(", "rows(a..)", "blocks(4,0.5)", "columns()", "stripes(3)", "row_list(5-2)"):
        with pytest.raises(ScheduleError):
            selection_of(text)
    with pytest.raises(ScheduleError):
        schedule_from_json(ROW_SETS[0].to_json().replace("rows(9..)", "stripes(9)"))


def test_composites_without_a_kernel_are_refused():
    adding = Composite(parts=(Part(Blocks(4, 4, 0.5), BLOCKS), Part(REST, READY)))
    assert "add" in _native.composite_unsupported("matmul", adding)
    assert "2, 4, 8" in _native.supports("matmul", blocks_of(3, 3))
    for fields, why in (({"loop_order": ("i1", "k1", "k0", "i0")}, "loops"), ({"prefetch": 8}, "fetch")):
        assert why in _native.supports("matmul", dataclasses.replace(READY_PANELS, **fields))
    wide = dataclasses.replace(READY_PANELS, format=Format.parse("k1:U,i1:U,k0:C,i0:U | i=4,k=512"))
    assert "256" in _native.supports("matmul", wide)
    assert _native.composite_unsupported("mttkrp", ROW_SETS[0])
    ready = SuperSchedule(operation="sddmm", implementation=RUNTIME)
    sampled = Composite(parts=(Part(Blocks(4, 4, 0.5), SAMPLED_BLOCKS), Part(REST, ready)))
    assert "contiguous in the result" in _native.composite_unsupported("sddmm", sampled)
    assert all(_native.composite_unsupported("matmul", one) is None for one in EVERY)
    assert {one.format.rows for one in part_schedules(ROW_SETS[0])} == {"listed"}
    with pytest.raises(PackError, match="without entries"):
        bound_of(sp.csr_matrix((5, 4), dtype=np.float32), ROW_SETS[0])
