"""Tests that loads of single elements of x give the same bits as gather instructions, in all kernels."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
from autosparse._native import runtime_api
from autosparse._native.c.emit import emit

from autosparse import _native
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import VECTOR_BYTES, Target
from tests.covering import covering, in_turn
from tests.native import cases
from tests.native.hooks import forced_choice
from tests.native.runtime_cases import INDEX_DTYPES, forced, isas, needs_runtime, patterns, spoken, values
from tests.native.test_slices import SLICED, held_by

PATTERNS = patterns()
TYPES = (("float32", "int32"), ("float64", "int64"))
ISAS = [isa for isa in VECTOR_BYTES if VECTOR_BYTES[isa] <= Target.host().vector_bytes]
GATHERING = tuple(
    made
    for made in (
        *cases.SPMV,
        *(cases.schedule("i1:U,k1:C | bits=16", "i1 k1", unroll=unroll) for unroll in (4, 8, 16, 32)),
        *SLICED,
    )
    if not made.dense_split("j")
)


@needs_runtime
@covering(name=PATTERNS, isa=isas(), dtype=["float32", "float64"], index_dtype=INDEX_DTYPES)
def test_default_kernels_compute_the_same_bits(name: str, isa: str, dtype: str, index_dtype: str) -> None:
    A, csr = spoken(PATTERNS[name], dtype, index_dtype)
    x = values(np.random.default_rng(2), A.shape[1], dtype)
    if x.size:
        x[0] = np.inf  # unused lanes have index zero: the value there must not affect the result
    before = values(np.random.default_rng(3), A.shape[0], dtype)
    for threads in (1, 3):
        for flags in (0, runtime_api.FLAG_ACCUMULATE):
            results = []
            for wanted in (False, True):
                with forced(isa), forced_choice("gathers", wanted):
                    out = before.copy()
                    results.append(runtime_api.matmul(csr, A.shape, x, out, threads=threads, flags=flags))
            np.testing.assert_array_equal(*results)


@needs_runtime
@covering(name=PATTERNS, isa=isas(), dtype=["float32", "float64"], index_dtype=INDEX_DTYPES)
def test_a_long_x_gives_the_same_bits(name: str, isa: str, dtype: str, index_dtype: str) -> None:
    """Compare a small x with a large one, for which later entries are prefetched."""
    A, csr = spoken(PATTERNS[name], dtype, index_dtype)
    longer = np.zeros(max(A.shape[1], (2 << 20) // np.dtype(dtype).itemsize), dtype)
    longer[: A.shape[1]] = values(np.random.default_rng(2), A.shape[1], dtype)
    results = []
    for x in (longer[: A.shape[1]], longer):
        with forced(isa):
            out = np.empty(A.shape[0], dtype)
            results.append(runtime_api.matmul(csr, (A.shape[0], x.size), x, out, threads=1))
    np.testing.assert_array_equal(*results)


@in_turn("made", "ways", first=GATHERING, second=itertools.product(ISAS, TYPES), label=cases.label)
def test_generated_kernels_compute_the_same_bits(made: SuperSchedule, ways: tuple[str, tuple[str, str]]) -> None:
    isa, (dtype, index_dtype) = ways
    rng = np.random.default_rng(5)
    taken = cases.sample(50, 41, rng.integers(0, 40, 50), seed=6, dtype=dtype, index_dtype=index_dtype)
    taken = dataclasses.replace(taken, data=rng.standard_normal(len(taken.data)).astype(dtype))
    taken = held_by(made.format, taken)
    assert cases.fits(made, taken, transposed=False)
    packed = _native.pack(taken.pattern, taken.data, made.format, transposed=False)
    B = rng.standard_normal((41, 1)).astype(dtype)
    specs = [dataclasses.replace(cases.spec(made, dtype, index_dtype, isa), gathers=wanted) for wanted in (False, True)]
    assert specs[0].key() != specs[1].key()
    np.testing.assert_array_equal(*(cases.run(one, packed, B, 2)[0] for one in specs))


@needs_runtime
def test_the_faster_gather_is_measured_once() -> None:
    assert len({runtime_api.gathers() for _ in range(5)}) == 1
    with forced_choice("gathers", True):
        assert runtime_api.gathers()
    with forced_choice("gathers", False):
        assert not runtime_api.gathers()


def test_lookups_are_used_where_gathers_are_not() -> None:
    made = cases.schedule("i1:U,k1:C", "i1 k1", unroll=16)
    of = _native.KernelSpec("matmul", made, "float32", "int32", "avx512")
    assert "i32gather" in emit(of)
    assert "gather_ps" not in emit(dataclasses.replace(of, gathers=False))
