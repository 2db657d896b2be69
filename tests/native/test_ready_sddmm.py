"""Tests of the runtime's own kernels for sampled products with row permutations."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from autosparse._native.kernels.precompiled import PREFETCH, ready_kernel

from autosparse import _native
from autosparse.core.formats import ROW_ORDERS
from autosparse.core.pattern import Pattern
from autosparse.core.schedule import RUNTIME
from tests.covering import covering
from tests.native import cases
from tests.native.hooks import forced_choice
from tests.native.interpreter import interpret_sddmm
from tests.native.runtime_cases import forced, isas, needs_runtime, patterns

pytestmark = needs_runtime

MADE = tuple(
    dataclasses.replace(cases.schedule(levels, "i1 k1", prefetch=ahead), operation="sddmm", implementation=RUNTIME)
    for levels in ("i1:U,k1:C", *(f"i1:U,k1:C | rows={order}" for order in ROW_ORDERS))
    for ahead in PREFETCH
)
WAYS = {"as it is": -1, "roomy": 0, "zen4": 1, "zen5": 2}  # arguments of `asp_force_llc_contention`
PATTERNS = patterns()
COLUMNS = (0, 1, 2, 16, 31, 32, 64, 128, 130, 256, 400)


def spec(made, dtype="float32", isa=None, index_dtype="int32"):
    return dataclasses.replace(cases.spec(made, dtype, index_dtype, isa), operation="sddmm")


def pattern_of(A) -> Pattern:
    return Pattern(*A.shape, A.indptr.astype(np.int32), A.indices.astype(np.int32))


def sampled(of, packed, data, X, Y, *, threads=2, late=0):
    """Return results, `late` bytes after a cache line; check that memory around them is not written."""
    kernel = ready_kernel(of)
    assert kernel is not None
    room = np.full(data.nbytes + 256, 255, np.uint8)  # NaN
    start = -room.ctypes.data % 64 + 64 + late
    out = room[start : start + data.nbytes].view(data.dtype)
    K = X.shape[1]
    assert kernel.bind(packed).run(
        X.ctypes.data, X.shape[1], Y.ctypes.data, K, data.ctypes.data, out.ctypes.data, K, threads
    )
    assert (room[:start] == 255).all()
    assert (room[start + data.nbytes :] == 255).all()
    return out


@covering(isa=isas(), name=PATTERNS, way=WAYS)
def test_precompiled_sddmm_computes_its_schedule(isa, name, way, pytestconfig):
    """Check with small integers, for which any order of summation gives the same bits.

    Without --full each pattern meets a third of the widths with each value of `way`, and every width with one of them.
    """
    place = list(PATTERNS).index(name) + list(WAYS).index(way)
    pattern = pattern_of(PATTERNS[name])
    rows = np.repeat(np.arange(pattern.n_rows), pattern.row_lengths)
    rng = np.random.default_rng(1)
    packed = {made.format: _native.pack_structure(pattern, made.format) for made in MADE}
    with forced_choice("llc_contention", WAYS[way]):
        for at, K in enumerate(COLUMNS):
            if (at // 2 + place) % 3 and not pytestconfig.getoption("--full"):
                continue
            dtype = ("float32", "float64")[at % 2]
            data = rng.integers(-3, 4, pattern.nnz).astype(dtype)
            X, Y = (rng.integers(-3, 4, (n, K)).astype(dtype) for n in (pattern.n_rows, pattern.n_cols))
            want = data * (X @ Y.T)[rows, pattern.indices]  # rows of X for each entry take much memory
            for made in MADE:
                with forced(isa):
                    got = sampled(
                        spec(made, dtype, isa), packed[made.format], data, X, Y,
                        threads=1 + at % 3, late=data.itemsize * (at % 8),
                    )  # fmt: skip
                np.testing.assert_array_equal(got, want, err_msg=f"{made}, {K} columns")


@pytest.mark.parametrize("made", [one for one in MADE if one.prefetch == 0], ids=str)
def test_entries_that_repeat_and_are_not_sorted(made):
    rng = np.random.default_rng(2)
    indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 9, 60))]).astype(np.int32)
    pattern = Pattern(60, 20, indptr, rng.integers(0, 20, indptr[-1], dtype=np.int32))
    rows = np.repeat(np.arange(60), pattern.row_lengths)
    data, X, Y = (rng.integers(-3, 4, n).astype(np.float32) for n in (pattern.nnz, (60, 48), (20, 48)))
    packed = _native.pack_structure(pattern, made.format)
    want = data * (X[rows] * Y[pattern.indices]).sum(axis=1)
    np.testing.assert_array_equal(sampled(spec(made), packed, data, X, Y), want)
    loops = {"implementation": "generated", "loop_order": ("i1", "k1", "j1", "j0"), "dense_splits": (("j", 8),)}
    generated = spec(dataclasses.replace(made, **loops))  # loops over columns, which the interpreter can read
    np.testing.assert_array_equal(interpret_sddmm(generated, packed, data, X, Y, n_threads=2), want)


@pytest.mark.parametrize(("columns", "dtype"), [(128, "float32"), (300, "float32"), (300, "float64")])
def test_bits_do_not_depend_on_threads_or_order(columns, dtype):
    """Check also more columns than registers hold, which are computed in panels."""
    rng = np.random.default_rng(3)
    pattern = pattern_of(PATTERNS["rows of at most 40"])
    shapes = pattern.nnz, (pattern.n_rows, columns), (pattern.n_cols, columns)
    data, X, Y = (rng.standard_normal(n).astype(dtype) for n in shapes)
    found = [
        sampled(spec(made, dtype), _native.pack_structure(pattern, made.format), data, X, Y, threads=threads).copy()
        for made in MADE
        for threads in (1, 2, 3)
    ]
    assert all(np.array_equal(found[0], other) for other in found)


def test_precompiled_sddmm_matches_only_its_spec():
    ordered = next(one for one in MADE if one.format.rows == "rcm")
    others = (
        spec(ordered, index_dtype="int64"),
        spec(dataclasses.replace(ordered, prefetch=3)),
        spec(dataclasses.replace(ordered, unroll=4)),
        spec(dataclasses.replace(ordered, dense_splits=(("j", 32),), loop_order=("i1", "k1", "j1", "j0"))),
        spec(dataclasses.replace(ordered, parallel="k1")),
    )
    assert all(ready_kernel(other) is None for other in others)
    assert ready_kernel(spec(ordered)) is not None
