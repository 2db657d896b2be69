"""Tests of the runtime's own kernels: which specs they serve, and that they compute what the specs say."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse._native.kernels.precompiled import PREFETCH, ready_kernel

from autosparse import _native, config
from autosparse.core.formats import ROW_ORDERS
from autosparse.core.pattern import Pattern
from autosparse.core.schedule import RUNTIME
from tests.covering import covering
from tests.native import cases
from tests.native.hooks import forced_choice
from tests.native.interpreter import interpret
from tests.native.runtime_cases import forced, isas, needs_runtime, patterns

pytestmark = needs_runtime


def ready(fmt, loops="i1 k1", **fields):
    return cases.schedule(fmt, loops, implementation=RUNTIME, **fields)


WHOLE = {name: ready(f"i1:U,k1:C | rows={name}") for name in ROW_ORDERS}
AHEAD = {f"{n} ahead": ready("i1:U,k1:C", prefetch=n) for n in PREFETCH}
BOTH = {f"rcm, {n} ahead": dataclasses.replace(WHOLE["rcm"], prefetch=n) for n in PREFETCH if n}
PATTERNS = patterns()
COLUMNS = (1, 2, 16, 31, 32, 130, 256, 400)


def operand(pattern, dtype, made, *, transposed=False):
    """Return A with small integers as values, and its packed copy."""
    A = sp.csr_matrix(pattern, dtype=dtype)
    A.data[:] = np.random.default_rng(1).integers(-3, 4, A.nnz)
    A.indices, A.indptr = A.indices.astype(np.int32), A.indptr.astype(np.int32)
    packed = _native.pack(Pattern(*A.shape, A.indptr, A.indices), A.data, made.format, transposed=transposed)
    return A, packed


def product(of, packed, B, *, late=0, threads=2):
    """Return C, `late` bytes after the start of a cache line; check that memory around it is not written."""
    kernel = ready_kernel(of)
    assert kernel is not None
    shape = (packed.sizes["i"], B.shape[1])
    n_bytes = shape[0] * shape[1] * B.itemsize
    room = np.full(n_bytes + 256, 255, np.uint8)  # NaN
    start = -room.ctypes.data % 64 + 64 + late
    out = room[start : start + n_bytes].view(B.dtype).reshape(shape)
    assert kernel.bind(packed).run(B.ctypes.data, B.shape[1], out.ctypes.data, B.shape[1], B.shape[1], threads)
    assert (room[:start] == 255).all()
    assert (room[start + n_bytes :] == 255).all()
    return out


@covering(isa=isas(), dtype=["float32", "float64"], name=PATTERNS)
def test_precompiled_kernels_compute_their_schedule(isa, dtype, name, pytestconfig):
    """Check with small integers; without --full each pattern meets half of the widths with each instruction set.

    Where there are many rows, these widths are at most 256.
    """
    place = list(PATTERNS).index(name) + isas().index(isa)
    pattern, expected = PATTERNS[name], {}
    is_full = pytestconfig.getoption("--full")
    for order, made in (WHOLE | AHEAD | BOTH).items():
        A, packed = operand(pattern, dtype, made)  # A is the same for each order
        for at, columns in enumerate(COLUMNS[: -1 if pattern.shape[0] > 8000 and not is_full else None]):
            if (at + place) % 2 and not is_full:
                continue
            if columns not in expected:
                B = np.random.default_rng(at).integers(-3, 4, (A.shape[1], columns)).astype(dtype)
                expected[columns] = B, A @ B
            B, wanted = expected[columns]
            with forced(isa):
                got = product(cases.spec(made, dtype, isa=isa), packed, B, late=B.itemsize * at, threads=1 + at % 3)
            np.testing.assert_array_equal(got, wanted, err_msg=f"{order}, {columns} columns")


@pytest.mark.parametrize("order", ROW_ORDERS)
def test_precompiled_kernels_equal_the_interpreter(order):
    A, packed = operand(sp.random(37, 51, density=0.1, random_state=2, format="csr"), "float32", WHOLE[order])
    B = np.random.default_rng(3).integers(-3, 4, (51, 19)).astype(np.float32)
    of = cases.spec(WHOLE[order])
    generated = cases.schedule(f"i1:U,k1:C | rows={order}", "i1 j1 k1 j0", 8)  # has column loops to interpret
    np.testing.assert_array_equal(interpret(cases.spec(generated), packed, B, 2), A @ B)
    np.testing.assert_array_equal(product(of, packed, B), A @ B)


@pytest.mark.parametrize("transposed", [False, True])
def test_transposed_operands(transposed):
    made = WHOLE["first"]
    pattern = sp.random(60, 45, density=0.1, random_state=4, format="csr")
    A, packed = operand(pattern, "float64", made, transposed=transposed)
    op = A.T if transposed else A
    B = np.random.default_rng(5).integers(-3, 4, (op.shape[1], 24)).astype(np.float64)
    np.testing.assert_array_equal(product(cases.spec(made, "float64"), packed, B), op @ B)


@covering(isa=isas(), columns=[32, 256, 300], late=[0, 16, 40])
def test_large_results_are_stored_past_the_caches(isa, columns, late):
    """Check streaming stores where rows of the result share cache lines and are not consecutive."""
    rng = np.random.default_rng(6)
    n_rows = 9_000_000 // columns
    lengths = rng.integers(0, 4, n_rows)
    lengths[[5, n_rows // 2]] = 20_000
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    pattern = sp.csr_matrix((np.ones(indptr[-1]), rng.integers(0, 900, indptr[-1], np.int32), indptr), (n_rows, 900))
    A, packed = operand(pattern, "float32", WHOLE["degree"])
    B = rng.integers(-3, 4, (900, columns)).astype(np.float32)
    with forced(isa):
        got = product(cases.spec(WHOLE["degree"], isa=isa), packed, B, late=late)
    np.testing.assert_array_equal(got, A @ B)


@covering(isa=isas(), dtype=["float32", "float64"], late_b=[0, 16, 48], late=[0, 16, 32, 56], way=[1, 2])
def test_rows_past_the_caches_in_an_order_of_their_own(isa, dtype, late_b, late, way):
    """Check that streaming stores give the same bits as ordinary ones, for every alignment of B and C."""
    A, packed = operand(sp.random(300, 200, density=0.03, random_state=10, format="csr"), dtype, WHOLE["degree"])
    for columns in (16, 32, 64, 128, 256, 272, 512):
        room = np.random.default_rng(columns).standard_normal(200 * columns + 32).astype(dtype)
        start = (-room.ctypes.data % 64 + late_b) // room.itemsize
        B = room[start : start + 200 * columns].reshape(200, columns)
        found = []
        for contention in (way, 0):
            with forced(isa), forced_choice("llc_contention", contention):
                found.append(product(cases.spec(WHOLE["degree"], dtype, isa=isa), packed, B, late=late))
        np.testing.assert_array_equal(*found)
        np.testing.assert_allclose(found[0], A @ B, rtol=1e-5, atol=1e-5)


def test_bits_do_not_depend_on_the_number_of_threads():
    A, packed = operand(sp.random(3000, 2000, density=0.02, random_state=7, format="csr"), "float32", WHOLE["rcm"])
    A.data[:] = packed.values[:] = np.random.default_rng(8).standard_normal(A.nnz)
    B = np.random.default_rng(9).standard_normal((2000, 64)).astype(np.float32)
    one, *others = (product(cases.spec(WHOLE["rcm"]), packed, B, threads=n).copy() for n in (1, 2, 3, 5))
    assert all(np.array_equal(one, other) for other in others)


def test_precompiled_kernels_need_no_compiler_and_match_only_their_spec(tmp_path):
    of = cases.spec(WHOLE["rcm"])
    with config.options(cache_dir=tmp_path):
        store = cases.cache.open_store()
        assert _native.is_built(of, store=store, compiler="no such compiler")
        assert _native.build(of, store=store, compiler="no such compiler").address == ready_kernel(of).address
    others = (
        cases.spec(WHOLE["rcm"], index_dtype="int64"),
        cases.spec(ready("i1:U,k1:C", prefetch=3)),
        cases.spec(cases.schedule("i1:U,k1:C | rows=rcm", "i1 j1 k1 j0", 32)),
        cases.spec(ready("i1:U,k1:C | rows=rcm | bits=16")),
        cases.spec(ready("i1:U,k1:C | rows=rcm", unroll=2)),
        cases.spec(ready("i1:U,k1:C", "i1 j1 k1 j0", tile=32)),
        cases.spec(cases.schedule("i1:U,k1:C | rows=rcm", "i1 k1")),
        cases.spec(ready("i1:U,k1:C,i0:U | i=2 | rows=rcm", "i1 k1 i0")),
    )
    assert all(ready_kernel(other) is None for other in others)
