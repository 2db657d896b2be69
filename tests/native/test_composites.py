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
    Composite,
    Part,
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

CSR = schedule("i1:U,k1:C", "i1 j1 k1 j0", 16)
ORDERED = schedule("i1:U,k1:C | rows=degree", "i1 j1 k1 j0", 16)
BLOCKS = schedule("i1:U,k1:C,i0:U,k0:U | i=4,k=4", "i1 j1 k1 i0 k0 j0", 16)
PANELS = schedule("k1:U,i1:U,k0:C,i0:U | i=4,k=16 | bits=16", "k1 j1 i1 k0 i0 j0", 16)
READY = SuperSchedule(implementation=RUNTIME)
READY_ORDERED = SuperSchedule(format=Format.parse("i1:U,k1:C | rows=degree"), implementation=RUNTIME)
READY_PANELS = SuperSchedule(
    format=Format.parse("k1:U,i1:U,k0:C,i0:U | i=4,k=256"), loop_order=("k1", "i1", "k0", "i0"), implementation=RUNTIME
)
VECTOR = schedule("i1:U,k1:C", "i1 k1", unroll=4)

EVERY = (
    Composite(parts=(Part(Rows(9), READY), Part(REST, READY_ORDERED))),
    Composite(parts=(Part(Rows(9), READY_PANELS), Part(REST, READY_ORDERED))),
    Composite(parts=(Part(Rows(11), READY), Part(Rows(3, 7), READY_PANELS), Part(REST, READY))),
    Composite(parts=(Part(Rows(1000), READY), Part(REST, READY))),
    Composite(parts=(Part(Rows(0), READY), Part(REST, READY))),
    Composite(parts=(Part(Rows(9), READY_PANELS), Part(REST, READY))),
)


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
    assert sorted(np.concatenate([one.rows for one in subsets]).tolist()) == list(range(A.shape[0]))


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


@pytest.mark.parametrize("composite", EVERY, ids=str)
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
    composite = Composite(parts=(Part(Rows(620), READY), Part(REST, READY)))
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
    packed = bound_of(matrix(), EVERY[1])[1]
    assert 0 <= composite_bytes(pattern_of(matrix()), EVERY[1], 4, transposed=False) - packed.nbytes <= 3 * 4


@pytest.mark.parametrize("composite", EVERY[:3], ids=str)
def test_new_values_reach_every_part(composite):
    A = matrix()
    bound, packed = bound_of(A, composite)
    values = np.random.default_rng(4).integers(1, 9, A.nnz).astype(np.float32)
    packed.refresh(values)
    B = np.ones((A.shape[1], 17), np.float32)
    np.testing.assert_array_equal(product(bound, B, A.shape[0], 2), sp.csr_matrix((values, A.indices, A.indptr)) @ B)


def test_vector_product():
    A = matrix()
    composite = Composite(parts=(Part(Rows(9), READY), Part(REST, READY)))
    x = np.arange(A.shape[1], dtype=np.float32)[:, None]
    np.testing.assert_array_equal(product(bound_of(A, composite)[0], x, A.shape[0], 2), A @ x)


def test_result_that_padding_spoils_is_reported():
    A, composite = matrix(), EVERY[1]
    B = np.ones((A.shape[1], 16), np.float32)
    B[5] = np.inf
    C = np.empty((A.shape[0], 16), np.float32)
    bound, _ = bound_of(A, composite)
    assert not bound.run(B.ctypes.data, 16, C.ctypes.data, 16, 16, 1)


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
    for parts in ((Part(REST, CSR),), (Part(REST, CSR), Part(Rows(3), CSR)), (Part(Rows(2), CSR),) * 2):
        with pytest.raises(ScheduleError):
            Composite(parts=parts)
    with pytest.raises(ScheduleError, match="whole rows"):  # blocks are parts of composites on a GPU
        Composite(parts=(Part(Blocks(2, 2, 0.5), CSR), Part(REST, CSR)))
    for text in ("rows(3)(", "rows(a..)", "blocks(4,0.5)", "stripes(3)"):
        with pytest.raises(ScheduleError):
            selection_of(text)
    with pytest.raises(ScheduleError):
        schedule_from_json(EVERY[0].to_json().replace("rows(9..)", "stripes(9)"))


def test_composites_without_a_kernel_are_refused():
    for made in (CSR, BLOCKS, PANELS):
        assert "no generated" in _native.composite_unsupported(
            "matmul", Composite(parts=(Part(Rows(9), made), Part(REST, READY)))
        )
    assert "panels" in _native.supports("matmul", dataclasses.replace(BLOCKS, implementation=RUNTIME))
    for fields, why in (({"loop_order": ("i1", "k1", "k0", "i0")}, "loops"), ({"prefetch": 8}, "fetch")):
        assert why in _native.supports("matmul", dataclasses.replace(READY_PANELS, **fields))
    wide = dataclasses.replace(READY_PANELS, format=Format.parse("k1:U,i1:U,k0:C,i0:U | i=4,k=512"))
    assert "256" in _native.supports("matmul", wide)
    ready = SuperSchedule(operation="sddmm", implementation=RUNTIME)
    for operation, composite in (
        ("mttkrp", EVERY[0]), ("sddmm", Composite(parts=(Part(Rows(9), ready), Part(REST, ready))))
    ):  # fmt: skip
        assert "no kernels for parts" in _native.composite_unsupported(operation, composite)
    assert all(_native.composite_unsupported("matmul", one) is None for one in EVERY)
    assert {one.format.rows for one in part_schedules(EVERY[3])} == {"listed"}
    with pytest.raises(PackError, match="without entries"):
        bound_of(sp.csr_matrix((5, 4), dtype=np.float32), EVERY[0])
