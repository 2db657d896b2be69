"""Tests of hashes, structure checks, transposition and gathers of the C runtime."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse._native import memory, runtime_api
from hypothesis import given
from hypothesis import strategies as st

from autosparse.config import options
from tests.covering import covering
from tests.native.hooks import hash64
from tests.native.runtime_cases import forced, isas, needs_runtime, patterns, values

pytestmark = needs_runtime

PATTERNS = patterns()
LENGTHS = [*range(520), 1023, 1024, 1025, 1088, 2048, 2049, 4096, 70_001]
BYTES = np.random.default_rng(1).integers(0, 256, max(LENGTHS), dtype=np.uint8)


@pytest.mark.parametrize("isa", isas())
def test_hashes_are_xxh3(isa):
    xxhash = pytest.importorskip("xxhash")
    with forced(isa):
        for length in LENGTHS:
            part = BYTES[:length]
            wanted = xxhash.xxh3_128_intdigest(part.tobytes())
            assert runtime_api.hash128(part) == wanted, length
            assert hash64(part) == wanted & (1 << 64) - 1, length


def test_hashes_are_the_same_for_every_instruction_set():
    def digests(isa: str) -> list[int]:
        with forced(isa):
            return [hash64(BYTES[:length]) for length in LENGTHS]

    assert len({tuple(digests(isa)) for isa in isas()}) == 1


@given(st.binary(min_size=1, max_size=600), st.integers(0, 2**32))
def test_one_changed_bit_changes_the_hash(data, where):
    array = np.frombuffer(data, dtype=np.uint8)
    other = array.copy()
    other[where % array.size] ^= np.uint8(1 << where % 8)
    assert hash64(array) != hash64(other)


def test_sparsity_hash_names_the_structure_and_nothing_else():
    A = sp.random(50, 60, density=0.1, format="csr", random_state=1)
    told = runtime_api.sparsity_hash(A.shape, A.indptr, A.indices)
    assert len(told) == 32
    assert int(told, 16) >= 0
    room = np.concatenate([A.indices, [1, 2, 3]]).astype(A.indices.dtype)
    assert runtime_api.sparsity_hash(A.shape, A.indptr, room) == told  # indices beyond indptr[-1] are not structure
    moved = A.indices.copy()
    moved[3] = (moved[3] + 1) % 60
    longer = A.indptr.copy()
    longer[5] += 1
    others = [
        runtime_api.sparsity_hash((50, 61), A.indptr, A.indices),
        runtime_api.sparsity_hash(A.shape, A.indptr, moved),
        runtime_api.sparsity_hash(A.shape, longer, A.indices),
        runtime_api.sparsity_hash(A.shape, A.indptr.astype(np.int64), A.indices.astype(np.int64)),
    ]
    assert len({told, *others}) == 5


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("threads", [1, 3])
def test_check_finds_each_fault(isa, index_dtype, threads):
    indptr, indices = np.array([0, 2, 2, 5], index_dtype), np.array([0, 3, 1, 1, 2], index_dtype)

    def fault(indptr_=indptr, indices_=indices, shape=(3, 4)):
        with forced(isa):
            return runtime_api.check_structure(
                shape, np.asarray(indptr_, index_dtype), np.asarray(indices_, index_dtype), threads=threads
            )

    assert fault() is None
    assert "begin with 0" in str(fault(indptr_=[1, 2, 2, 5]))
    assert "decreases" in str(fault(indptr_=[0, 3, 2, 5]))
    assert "beyond" in str(fault(indptr_=[0, 2, 2, 6]))
    assert "outside" in str(fault(indices_=[0, 4, 1, 1, 2]))
    assert "outside" in str(fault(indices_=[0, -1, 1, 1, 2]))
    assert "length" in str(fault(shape=(4, 4)))
    assert fault(indices_=[0, 3, 1, 1, 2, 99, -5]) is None  # spare room beyond indptr[-1]


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("threads", [1, 4])
def test_copy_has_the_same_arrays_and_every_fault_is_found(isa, index_dtype, threads):
    rng = np.random.default_rng(7)
    A = sp.random_array((30_011, 900), density=1e-3, format="csr", random_state=rng)
    rows = [A.indptr.astype(index_dtype), A.indices.astype(index_dtype), A.data]
    with forced(isa), options(threads=threads):
        made, is_valid = memory.copied_rows(*rows, 900)
        assert is_valid
        assert all(np.array_equal(copy, array) for copy, array in zip(made, rows, strict=True))
        for field, wrong in ((0, -1), (0, A.nnz + 1), (1, -1), (1, 900)):
            for at in (0, *rng.integers(0, rows[field].size, 40), rows[field].size - 1):
                faulty = [array.copy() for array in rows]
                faulty[field][at] = wrong
                assert not memory.copied_rows(*faulty, 900)[1], (field, wrong, at)


@covering(name=PATTERNS, dtype=["float32", "float64", "complex128"], index_dtype=["int32", "int64"], threads=[1, 4])
def test_transpose_is_scipys_tocsc(name, dtype, index_dtype, threads):
    A = PATTERNS[name].astype(dtype)
    A.data = values(np.random.default_rng(2), A.nnz, dtype)
    csr = (A.indptr.astype(index_dtype), A.indices.astype(index_dtype), A.data)
    with forced("baseline"):
        t_indptr, t_indices, t_data, perm = runtime_api.transpose(csr, A.shape, with_permutation=True, threads=threads)
    wanted = A.tocsc()
    assert np.array_equal(t_indptr, wanted.indptr)
    assert np.array_equal(t_indices, wanted.indices)
    assert np.array_equal(t_data, wanted.data)
    fresh = values(np.random.default_rng(3), A.nnz, dtype)
    refreshed = runtime_api.gather(fresh, perm, np.empty_like(fresh), threads=threads)
    assert np.array_equal(refreshed, fresh[perm])
    assert np.array_equal(A.data[perm], t_data)


def test_transpose_of_a_large_structure_in_several_parts():
    A = sp.random(3000, 400, density=0.1, format="csr", random_state=4)
    with forced("baseline"):
        t_indptr, t_indices, t_data, perm = runtime_api.transpose((A.indptr, A.indices, None), A.shape, threads=4)
    wanted = A.tocsc()
    assert t_data is None
    assert perm is None
    assert np.array_equal(t_indptr, wanted.indptr)
    assert np.array_equal(t_indices, wanted.indices)


def test_address_of_is_numpys_own():
    base = np.arange(24.0).reshape(4, 6)
    for array in (base, base[1:], base[::-1, ::2], base.T, np.empty(0), np.empty((3, 0)), np.float32([[1]])):
        assert runtime_api.address_of(array) == array.__array_interface__["data"][0]
