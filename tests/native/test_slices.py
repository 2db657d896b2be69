"""Tests of sliced formats: kernel equals interpreter equals SciPy; packing is invertible, predictable, refreshable."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse._native.ir import slice_layout
from autosparse._native.kernels.slice_names import window_of
from autosparse._native.storage import slices
from hypothesis import given, settings
from hypothesis import strategies as st

from autosparse import _native
from autosparse.core.formats import DICTIONARY, Format
from autosparse.core.pattern import Pattern
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import VECTOR_BYTES, Target
from autosparse.errors import PackError, ScheduleError
from tests.covering import covering, in_turn
from tests.native import cases
from tests.native.interpreter import interpret
from tests.native.test_kernels import TYPES, check

SLICED = tuple(
    cases.schedule(text, "i1 k1 i0", **fields)
    for text, fields in (
        ("i1:U,k1:S,i0:U | i=16", {}),
        ("i1:U,k1:S,i0:U | i=8 | bits=16", {"unroll": 2}),
        ("i1:U,k1:S,i0:U | i=4 | sigma=8", {"unroll": 4}),
        ("i1:U,k1:D,i0:U | i=4", {"unroll": 2, "partition": "dynamic", "chunk": 2}),
        ("i1:U,k1:D,i0:U | i=16 | sigma=512", {"unroll": 4, "prefetch": 16}),
        ("i1:U,k1:D,i0:U | i=8 | sigma=16 | bits=16", {"unroll": 4}),
        ("i1:U,k1:D,i0:U | i=2 | sigma=2 | bits=16", {}),
        ("i1:U,k1:D,i0:U | i=32 | sigma=64", {"unroll": 2}),
        ("i1:U,k1:S,i0:U | i=8 | bits=16 | values=numbered", {"unroll": 2, "prefetch": 32}),
        ("i1:U,k1:D,i0:U | i=16 | sigma=16 | bits=16 | values=numbered", {"unroll": 4}),
        ("i1:U,k1:D,i0:U | i=4 | sigma=4 | values=numbered", {}),
    )
)
FORMATS = tuple(dict.fromkeys(made.format for made in SLICED))
NUMBERING = tuple(made for made in SLICED if made.format.values == DICTIONARY)
DTYPES = ("float32", "float64", "complex64", "complex128")


@st.composite
def matrices(draw: st.DrawFn, *, dtype: str, index_dtype: str) -> cases.Sample:
    """Draw a matrix of `cases.samples`, or one whose rows lie on a few diagonals, complete or with gaps."""
    if draw(st.booleans()):
        return draw(cases.samples(dtype=dtype, index_dtype=index_dtype))
    n_rows, n_cols = draw(st.integers(1, 70)), draw(st.integers(1, 70))
    offsets = draw(st.lists(st.integers(-9, 9), min_size=1, max_size=5, unique=True))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    share_lost = draw(st.sampled_from([0.0, 0.0, 0.1, 0.5]))
    rows, columns = [], []
    for row in range(n_rows):
        found = [row + offset for offset in offsets if 0 <= row + offset < n_cols and rng.random() >= share_lost]
        found += [int(rng.integers(n_cols))] * int(rng.random() < 0.05) * 2  # a stray entry, twice
        rng.shuffle(found)
        rows += [row] * len(found)
        columns += found
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_rows))]).astype(index_dtype)
    data = cases.integers(rng, len(columns), dtype)
    return cases.Sample(Pattern(n_rows, n_cols, indptr, np.array(columns, dtype=index_dtype)), data)


def test_rows_beside_slices_of_diagonals_have_no_window() -> None:
    crd = {"what": np.array([slice_layout.NARROW, slice_layout.WIDE | slice_layout.IN_ORDER])}
    assert window_of(512, crd) == 512
    crd["what"][1] = slice_layout.DIAGONAL | slice_layout.IN_ORDER
    assert (window_of(512, crd), window_of(1, crd)) == (0, 1)


def dense(packed: _native.PackedOperand) -> np.ndarray:
    """Return the packed matrix as a dense array, by `unpack`."""
    indptr, indices, data = packed.unpack()
    return sp.csr_array((data, indices, indptr), shape=(packed.sizes["i"], packed.sizes["k"])).toarray()


def held_by(fmt: Format, taken: cases.Sample) -> cases.Sample:
    """Reduce the values to their signs where the format is dictionary-encoded, so that a table holds all sums."""
    return dataclasses.replace(taken, data=np.sign(taken.data)) if fmt.values == DICTIONARY else taken


@in_turn("made", "types", first=SLICED, second=TYPES, label=cases.label)
@settings(max_examples=10)
@given(data=st.data(), transposed=st.booleans(), seed=st.integers(0, 999))
def test_kernel_equals_interpreter_equals_scipy(
    made: SuperSchedule, types: tuple[str, str], data: st.DataObject, transposed: bool, seed: int
) -> None:
    taken = held_by(made.format, data.draw(matrices(dtype=types[0], index_dtype=types[1])))
    check(made, taken, transposed=transposed, seed=seed)


@covering(
    isa=[isa for isa in VECTOR_BYTES if VECTOR_BYTES[isa] < Target.host().vector_bytes],
    dtype=["float32", "float64"],
    at=range(5 + len(NUMBERING)),
)
def test_every_instruction_set_gives_the_same(isa: str, dtype: str, at: int) -> None:
    taken = banded(45, dtype)
    taken.data[:] = np.arange(taken.data.size) % 15 + 1  # every entry of a table
    check([*SLICED[1:6], *NUMBERING][at], taken, transposed=False, seed=1, isa=isa)


def banded(n: int, dtype: str = "float32") -> cases.Sample:
    """Return a matrix with five diagonals."""
    matrix = sp.diags_array([np.arange(1.0, n + 1)] * 5, offsets=[-7, -1, 0, 1, 7], shape=(n, n)).tocsr().astype(dtype)
    return cases.Sample(Pattern(n, n, matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)), matrix.data)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@settings(max_examples=25)
@given(
    data=st.data(),
    transposed=st.booleans(),
    dtype=st.sampled_from(DTYPES),
    index_dtype=st.sampled_from(["int32", "int64"]),
)
def test_unpack_inverts_pack_and_the_size_is_known_before(
    fmt: Format, data: st.DataObject, transposed: bool, dtype: str, index_dtype: str
) -> None:
    dtype = dtype if fmt.values != DICTIONARY else f"float{8 * np.dtype(dtype).alignment}"
    taken = held_by(fmt, data.draw(matrices(dtype=dtype, index_dtype=index_dtype)))
    packed = _native.pack(taken.pattern, taken.data, fmt, transposed=transposed)
    expected = taken.matrix.T if transposed else taken.matrix
    np.testing.assert_array_equal(dense(packed), expected.toarray())
    assert packed.nbytes == _native.packed_bytes(taken.pattern, fmt, taken.data.itemsize, transposed=transposed)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@settings(max_examples=15)
@given(data=st.data(), transposed=st.booleans())
def test_refresh_equals_packing_again(fmt: Format, data: st.DataObject, transposed: bool) -> None:
    taken = held_by(fmt, data.draw(matrices(dtype="float32", index_dtype="int32")))
    packed = _native.pack(taken.pattern, taken.data, fmt, transposed=transposed)
    where = packed.values.ctypes.data
    fresh = held_by(fmt, dataclasses.replace(taken, data=np.arange(1, taken.data.size + 1, dtype=np.float32))).data
    packed.refresh(fresh)
    again = _native.pack(taken.pattern, fresh, fmt, transposed=transposed)
    np.testing.assert_array_equal(packed.values, again.values)
    np.testing.assert_array_equal(packed.crd["k1"], again.crd["k1"])
    assert packed.values.ctypes.data == where


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@given(data=st.data())
@settings(max_examples=15)
def test_every_row_is_in_one_lane_and_padding_stays_within_its_slice(fmt: Format, data: st.DataObject) -> None:
    taken = data.draw(matrices(dtype="float32", index_dtype="int32"))
    taken.data[:] = 1
    packed = _native.pack(taken.pattern, taken.data, fmt, transposed=False)
    n_rows, lanes = taken.pattern.n_rows, fmt.split("i")
    rows = slices.lane_rows(packed)
    assert np.array_equal(np.sort(rows[rows < n_rows]), np.arange(n_rows))
    coordinates, positions = slices.walk(packed)
    owners = np.searchsorted(packed.pos["k1"].astype(np.int64) * lanes, positions, side="right")
    is_stored = packed.values[positions] != 0
    for owner in np.unique(owners):
        of_slice = owners == owner
        if (packed.crd["what"][owner - 1] & slice_layout.KIND_MASK) != slice_layout.DIAGONAL:
            touched = set(coordinates["k1"][of_slice & is_stored].tolist())
            assert set(coordinates["k1"][of_slice].tolist()) <= touched  # no further cache lines are read


def test_sorting_within_windows_is_what_least_padding_asks_for() -> None:
    lengths = np.random.default_rng(0).integers(0, 30, 200)
    taken = cases.sample(200, 50, lengths.tolist(), seed=1)
    for lanes, sigma in itertools.product((4, 16), (1, 2, 12)):
        window = lanes * sigma
        fmt = Format.parse(f"i1:U,k1:S,i0:U | i={lanes}" + (f" | sigma={window}" if sigma > 1 else ""))
        parts = [lengths[at : at + window] for at in range(0, 200, window)]
        ordered = np.concatenate([part if sigma == 1 else -np.sort(-part) for part in parts])
        wanted = sum(int(ordered[at : at + lanes].max()) for at in range(0, 200, lanes))
        packed = _native.pack(taken.pattern, taken.data, fmt, transposed=False)
        assert packed.values.size == wanted * lanes


def test_a_band_is_stored_by_diagonals() -> None:
    taken = banded(320)
    packed = _native.pack(taken.pattern, taken.data, Format.parse("i1:U,k1:D,i0:U | i=16"), transposed=False)
    kinds = packed.crd["what"] & slice_layout.KIND_MASK
    assert np.count_nonzero(kinds == slice_layout.DIAGONAL) >= 18  # all but the ends, whose diagonals leave the matrix
    assert packed.crd["k1"].size < taken.pattern.nnz / 4


@pytest.mark.parametrize("bits", [16, 32])
def test_a_band_is_stored_alike_in_any_order_of_its_entries(bits: int) -> None:
    taken, rng = banded(320), np.random.default_rng(0)
    at = np.concatenate([rng.permutation(np.arange(*one)) for one in itertools.pairwise(taken.pattern.indptr)])
    shuffled = Pattern(320, 320, taken.pattern.indptr, taken.pattern.indices[at])
    fmt = Format.parse(f"i1:U,k1:D,i0:U | i=16 | bits={bits}")
    one = _native.pack(taken.pattern, taken.data, fmt, transposed=False)
    other = _native.pack(shuffled, taken.data[at], fmt, transposed=False)
    is_diagonal = one.crd["what"] & slice_layout.KIND_MASK == slice_layout.DIAGONAL
    np.testing.assert_array_equal(one.crd["what"][is_diagonal], other.crd["what"][is_diagonal])
    np.testing.assert_array_equal(dense(one), dense(other))


@pytest.mark.parametrize("is_sorted", [True, False])
def test_long_rows_in_random_order_are_stored_without_diagonals(is_sorted: bool) -> None:
    n, rng = 3000, np.random.default_rng(0)
    order = [np.arange(n) if is_sorted else rng.permutation(n) for _ in range(2)]
    indices = np.concatenate([order[0], order[1] + 1]).astype(np.int32)  # the same diagonals in both rows
    indptr, data = np.array([0, n, 2 * n], np.int32), rng.integers(1, 9, 2 * n).astype(np.float32)
    packed = _native.pack(
        Pattern(2, n + 1, indptr, indices), data, Format.parse("i1:U,k1:D,i0:U | i=2"), transposed=False
    )
    assert (packed.crd["what"][0] & slice_layout.KIND_MASK == slice_layout.DIAGONAL) == is_sorted
    np.testing.assert_array_equal(dense(packed), sp.csr_array((data, indices, indptr), shape=(2, n + 1)).toarray())


def test_columns_too_far_apart_for_16_bits_are_stored_in_32() -> None:
    indptr = np.array([0, 2, 4, 5], np.int32)
    indices = np.array([0, 70_000, 69_000, 69_999, 3], np.int32)
    pattern, data = Pattern(3, 70_001, indptr, indices), np.arange(1, 6, dtype=np.float32)
    fmt = Format.parse("i1:U,k1:S,i0:U | i=2 | bits=16")
    packed = _native.pack(pattern, data, fmt, transposed=False)
    assert (packed.crd["what"] & slice_layout.KIND_MASK).tolist() == [slice_layout.WIDE, slice_layout.NARROW]
    expected = sp.csr_array((data, indices, indptr), shape=pattern.shape)
    np.testing.assert_array_equal(dense(packed), expected.toarray())
    made = cases.schedule(str(fmt), "i1 k1 i0")
    x = np.random.default_rng(0).integers(-3, 4, (70_001, 1)).astype(np.float32)
    np.testing.assert_array_equal(cases.run(cases.spec(made), packed, x, 1)[0], expected @ x)


@pytest.mark.parametrize("made", SLICED, ids=cases.label)
def test_padding_never_hides_or_invents_non_finite_values(made: SuperSchedule) -> None:
    vouched = 0
    for seed, bad in enumerate([np.inf, -np.inf, np.nan] * 6):
        taken = cases.sample(11, 9, [0, 3, 1, 2, 0, 4, 1, 1, 2, 0, 3], seed=seed) if seed % 2 else banded(21)
        n_cols = taken.pattern.n_cols
        B = np.random.default_rng(seed).integers(-3, 4, (n_cols, 1)).astype(np.float32)
        if seed % 4 < 2:
            B[seed % n_cols, 0] = bad
        elif seed % 3:
            taken.data[seed % taken.data.size] = bad
        taken.data[:] = np.where(np.isfinite(taken.data), held_by(made.format, taken).data, taken.data)
        packed = _native.pack(taken.pattern, taken.data, made.format, transposed=False)
        C, exact = cases.run(cases.spec(made), packed, B, 1)
        flags: list[int] = []
        with np.errstate(invalid="ignore"):
            expected = taken.matrix @ B
            interpret(cases.spec(made), packed, B, flags=flags)
        assert exact == (not flags[0])
        vouched += exact
        if exact:
            np.testing.assert_array_equal(C, expected)
    assert vouched


@pytest.mark.parametrize("made", SLICED, ids=cases.label)
def test_thread_count_does_not_change_a_bit(made: SuperSchedule) -> None:
    rng = np.random.default_rng(5)
    taken = cases.sample(300, 90, rng.integers(0, 12, 300).tolist(), seed=6)
    taken.data[:] = rng.standard_normal(taken.data.size)
    taken = held_by(made.format, taken)
    B = rng.standard_normal((90, 1)).astype(np.float32)
    packed = _native.pack(taken.pattern, taken.data, made.format, transposed=False)
    results = [cases.run(cases.spec(made), packed, B, n_threads)[0] for n_threads in (1, 2, 3, 7)]
    np.testing.assert_allclose(results[0], taken.matrix @ B, rtol=2e-5, atol=2e-5)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


def test_windows_of_any_size_share_their_kernel() -> None:
    made = [cases.schedule(f"i1:U,k1:S,i0:U | i=16 | sigma={sigma}", "i1 k1 i0") for sigma in (16, 512, 8192)]
    assert len({cases.spec(one).key() for one in made}) == 1
    assert cases.spec(made[0]).key() != cases.spec(cases.schedule("i1:U,k1:S,i0:U | i=16", "i1 k1 i0")).key()


@pytest.mark.parametrize(
    "text",
    [
        "i1:U,k1:S",
        "i1:U,k1:S,k0:U | k=4",
        "i1:U,k1:S,i0:C | i=4",
        "i1:U,k1:S,i0:U | i=4 | sigma=6",
        "i1:U,k1:S,i0:U | i=4 | sigma=2",
        "i1:U,k1:C | sigma=4",
    ],
)
def test_formats_that_make_no_slices_are_refused(text: str) -> None:
    with pytest.raises(ScheduleError):
        Format.parse(text)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_slice_formats_round_trip_through_text(fmt: Format) -> None:
    assert Format.parse(str(fmt)) == fmt


def test_slices_that_cannot_be_lowered_or_packed_have_a_reason() -> None:
    refused = [
        cases.schedule("i1:U,k1:S,i0:U | i=16", "i1 k1 i0", unroll=8),
        cases.schedule("i1:U,k1:S,i0:U | i=3", "i1 k1 i0"),
        cases.schedule("i1:U,k1:S,i0:U | i=16 | bits=64", "i1 k1 i0"),
        cases.schedule("i1:U,k1:S,i0:U | i=16", "k1 i1 i0"),
        cases.schedule("i1:U,k1:S,i0:U | i=16", "i1 j1 k1 i0 j0", 8),
        cases.schedule("k1:U,i1:S,k0:U | k=4", "k1 i1 k0"),
    ]
    assert all(_native.supports("matmul", made) for made in refused)
    taken = cases.sample(5, 5, [1] * 5, seed=0)
    with pytest.raises(PackError):
        _native.pack(taken.pattern, taken.data, refused[2].format, transposed=False)
    with pytest.raises(PackError):
        _native.pack(taken.pattern, taken.data, refused[-1].format, transposed=False)
