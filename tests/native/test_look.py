"""Tests of the hash that detects writes to shared memory: it depends on every byte and its position."""

from __future__ import annotations

import numpy as np
import pytest
from autosparse._native import runtime_api
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.hooks import hash64
from tests.native.runtime_cases import forced, isas, needs_runtime

pytestmark = needs_runtime

CHUNK = 2048
"""Bytes per hashed chunk, a parameter of the function."""
RANDOM = np.random.default_rng(0).integers(0, 256, 4 * CHUNK + 64, dtype=np.uint8)


def look(array: np.ndarray, n_threads: int = 1, chunk: int = CHUNK) -> list[int]:
    hashes = np.zeros(-(-array.nbytes // chunk) + 1, np.uint64)
    runtime_api.lib.asp_look(runtime_api.pointer(array), array.nbytes, chunk, runtime_api.pointer(hashes), n_threads)
    assert hashes[-1] == 0, "one hash for each chunk, and no more"
    return hashes[:-1].tolist()


def differing(one: np.ndarray, other: np.ndarray) -> list[int]:
    return [at for at, (a, b) in enumerate(zip(look(one), look(other), strict=True)) if a != b]


ARRAYS = st.builds(
    lambda kind, n, begin: (RANDOM if kind else np.zeros_like(RANDOM))[begin : begin + n].copy(),
    st.booleans(), st.integers(1, 4 * CHUNK), st.integers(0, 63),
)  # fmt: skip


@given(array=ARRAYS, where=st.integers(0, 10**9), bit=st.integers(0, 7))
def test_a_flipped_bit_is_seen_in_its_chunk_and_in_no_other(array: np.ndarray, where: int, bit: int) -> None:
    other, at = array.copy(), where % array.size
    other[at] ^= np.uint8(1 << bit)
    assert differing(array, other) == [at // CHUNK]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int32", "int64"])
@given(data=st.data())
def test_two_swapped_entries_are_seen(dtype: str, data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 4 * CHUNK // np.dtype(dtype).itemsize))
    # Small integers, as in matrices: their bytes have much in common.
    array = np.random.default_rng(n).integers(-3, 4, n).astype(dtype)
    a, b = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, n - 1))
    other = array.copy()
    other[[a, b]] = other[[b, a]]
    per_chunk = CHUNK // array.itemsize
    assert differing(array, other) == (sorted({a // per_chunk, b // per_chunk}) if array[a] != array[b] else [])


@given(a=st.integers(0, 3), b=st.integers(0, 3), n=st.integers(1, 64))
def test_two_swapped_chunks_and_pieces_of_chunks_are_seen(a: int, b: int, n: int) -> None:
    array = RANDOM[: 4 * CHUNK].copy()
    chunks = array.reshape(4, CHUNK)
    other = chunks.copy()
    other[[a, b]] = other[[b, a]]
    assert differing(array, other.ravel()) == (sorted({a, b}) if a != b else [])
    pieces = chunks[a].reshape(-1, 64)
    turned = array.copy()
    turned.reshape(4, CHUNK)[a] = np.roll(pieces, n, axis=0).ravel()
    assert differing(array, turned) == ([a] if n % len(pieces) else [])


@given(n=st.integers(0, 4 * CHUNK), begin=st.integers(0, 63))
@settings(max_examples=40)
def test_hashes_are_equal_for_all_instruction_sets_threads_and_alignments(n: int, begin: int) -> None:
    unaligned, aligned = RANDOM[begin : begin + n], np.empty(n, np.uint8)
    aligned[...] = unaligned
    found = set()
    for isa in isas():
        with forced(isa):
            for n_threads in range(1, 5):
                found |= {tuple(look(unaligned, n_threads)), tuple(look(aligned, n_threads))}
    assert len(found) == 1
    assert found.pop() == tuple(hash64(aligned[at : at + CHUNK]) for at in range(0, n, CHUNK))


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_large_arrays_are_shared_by_threads(n_threads: int) -> None:
    chunk = runtime_api.lib.ASP_LOOK_CHUNK
    array = np.random.default_rng(1).integers(0, 2**32, 40 * chunk // 8 + 1000)
    whole = array.view(np.uint8)
    wanted = [hash64(whole[at : at + chunk]) for at in range(0, whole.size, chunk)]
    for _ in range(5):
        assert look(array, n_threads, chunk) == wanted
    assert runtime_api.chunk_hashes(array).tolist() == wanted


@given(lengths=st.lists(st.integers(0, 3 * CHUNK), min_size=1, max_size=3), n_threads=st.integers(1, 4))
def test_several_pieces_at_once(lengths: list[int], n_threads: int) -> None:
    ffi = runtime_api.ffi
    arrays = [RANDOM[:n].copy() for n in lengths]
    room = [np.zeros(-(-n // CHUNK), np.uint64) for n in lengths]
    pieces = ffi.new("asp_looked[]", len(arrays))
    for piece, array, hashes in zip(pieces, arrays, room, strict=True):
        piece.bytes, piece.n_bytes = runtime_api.pointer(array), array.nbytes
        piece.hashes = ffi.cast("uint64_t *", runtime_api.pointer(hashes))
    runtime_api.lib.asp_look_at_all(pieces, len(arrays), CHUNK, n_threads)
    assert [hashes.tolist() for hashes in room] == [look(array) for array in arrays]
