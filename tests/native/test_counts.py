"""Tests that the runtime counts in patterns exactly what NumPy counts."""

from __future__ import annotations

import numpy as np
import pytest
from autosparse._native import counts, runtime_api
from autosparse.tuner.features.statistics import BLOCK_SIZES, SLICE_LANES, WINDOWS, counted
from autosparse.tuner.research.generators.base import generate
from hypothesis import given, settings
from hypothesis import strategies as st

from autosparse.core.pattern import Pattern
from tests.native import numpy_counts

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")

FAMILIES = ("banded", "blocks", "hypersparse", "mesh", "rmat", "stencil", "uniform")


@st.composite
def patterns(draw: st.DrawFn) -> Pattern:
    """Draw any valid structure: empty, with repeated and unsorted columns, with rows of any length."""
    n_rows, n_cols = draw(st.integers(0, 1200)), draw(st.integers(1, 3000))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    most = draw(st.sampled_from([0, 1, 3, 40]))
    lengths = rng.integers(0, most + 1, n_rows)
    if n_rows and draw(st.booleans()):
        lengths[rng.integers(n_rows)] = draw(st.sampled_from([900, 1100, 30_000]))
    near = draw(st.sampled_from([4, 100, n_cols]))
    rows = np.repeat(np.arange(n_rows), lengths)
    columns = (rows * n_cols // max(1, n_rows) + rng.integers(0, near, rows.size)) % n_cols
    if draw(st.booleans()):
        columns = columns[np.lexsort((columns, rows))]
    dtype = draw(st.sampled_from([np.int32, np.int64]))
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(dtype)
    return Pattern(n_rows, n_cols, indptr, columns.astype(dtype))


def assert_same_counts(pattern: Pattern, n_sample: int) -> None:
    for transposed in (False, True):
        fresh = Pattern(*pattern.shape, pattern.indptr, pattern.indices)  # without cached counts
        of_lengths, of_sample = counted(fresh, n_sample, transposed=transposed)
        assert of_lengths == numpy_counts.lengths(pattern, transposed=transposed)
        assert list(of_lengths.slots) == [(lanes, window) for window in WINDOWS for lanes in SLICE_LANES]
        assert of_sample == numpy_counts.sample(pattern, n_sample)
        assert counted(fresh, n_sample, transposed=transposed)[0] is of_lengths, "counted once"


@pytest.mark.parametrize("n_examples", [20, pytest.param(60, marks=pytest.mark.full)])
def test_counts_are_those_of_numpy(n_examples):
    """Compare counts of drawn patterns; windows of every size are covered by the test of generated patterns below."""

    @settings(max_examples=n_examples)
    @given(pattern=patterns(), n_sample=st.sampled_from([10, 6144, 1 << 20]))
    def agree(pattern, n_sample):
        assert_same_counts(pattern, n_sample)

    agree()


@pytest.mark.parametrize("family", FAMILIES)
def test_counts_of_generated_patterns_are_those_of_numpy(family):
    """Compare patterns large enough for windows of every size and for panels that the sample skips."""
    pattern = generate(family, nnz=120_000, seed=3).to_pattern()
    assert_same_counts(pattern, 6144)


@settings(max_examples=40)
@given(pattern=patterns(), n_entries=st.sampled_from([1, 7, 500, 8192]))
def test_columns_that_come_back_are_counted_as_by_numpy(pattern, n_entries):
    if pattern.nnz:
        n_entries = min(n_entries, pattern.nnz)
        assert counts.distinct(pattern, n_entries, 4) == numpy_counts.distinct(pattern, n_entries, 4)


def test_every_size_is_counted_and_no_other():
    sample = counted(generate("blocks", nnz=2_000, seed=1).to_pattern(), 1 << 20, transposed=False)[1]
    assert list(sample.n_blocks) == [(r, c) for r in BLOCK_SIZES for c in BLOCK_SIZES]


def test_columns_of_more_bits_than_there_is_room_for_are_told_apart_by_their_last_ones():
    n_rows, nnz = 3 * 2**20, 2**20
    indptr, columns = np.minimum(np.arange(n_rows + 1), nnz), np.arange(nnz) % 5
    wide = Pattern(n_rows, 2**62, indptr, columns + 2**61)
    assert counted(wide, 6144, transposed=False) == (
        numpy_counts.lengths(wide, transposed=False),
        numpy_counts.sample(Pattern(n_rows, 2**30, indptr, columns), 6144),
    )
    empty = Pattern(n_rows, 2**62, np.zeros(n_rows + 1, np.int64), np.zeros(0, np.int64))
    assert counted(empty, 6144, transposed=False)[1] == numpy_counts.sample(empty, 6144)


def test_squares_beyond_63_bits_are_cut():
    nnz = 2**33  # the entries do not exist: samples are chosen by row starts alone
    found = np.empty(3 + 2 * 12, np.int64)
    starts = np.array([0, nnz], np.int64)
    columns, sampled = np.zeros(256, np.int64), np.empty(5 + 36, np.int64)
    at = map(runtime_api.pointer, (starts, columns))
    rooms = map(runtime_api.pointer, (found, sampled))
    status = runtime_api.lib.asp_pattern_counts(1, 1, 1, *at, 0, *rooms, 1)
    assert (status, found[0], found[1]) == (0, nnz, 2**63 - 1)


@settings(max_examples=60)
@given(pattern=patterns(), sizes=st.sampled_from([(1,), (3, 7), (2, 500, 8192)]), n_walks=st.integers(1, 5))
def test_walks_are_those_of_python(pattern, sizes, n_walks):
    assert counts.walks(pattern, sizes, n_walks) == numpy_counts.walks(pattern, sizes, n_walks)


@pytest.mark.parametrize("family", [*FAMILIES, "batch", "control"])
def test_walks_over_generated_patterns_are_those_of_python(family):
    pattern = generate(family, nnz=30_000, seed=3).to_pattern()
    assert counts.walks(pattern, (256, 1024, 8192), 4) == numpy_counts.walks(pattern, (256, 1024, 8192), 4)
