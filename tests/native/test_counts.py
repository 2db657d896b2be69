"""The runtime counts in patterns exactly what NumPy counts."""

from __future__ import annotations

import numpy as np
import pytest
from autosparse._native import counts, runtime_api
from autosparse.tuner.features.counts import BLOCK_SIZES, NUMPY, SLICE_LANES, WINDOWS
from autosparse.tuner.features.statistics import Locality, pattern_facts
from autosparse.tuner.generators.base import generate
from hypothesis import given, settings
from hypothesis import strategies as st

from autosparse.core.pattern import Pattern
from autosparse.tuning.statistics import RuntimeCounter

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")

FAMILIES = ("banded", "blocks", "hypersparse", "mesh", "rmat", "stencil", "uniform")


@st.composite
def patterns(draw: st.DrawFn) -> Pattern:
    """Any structure that is valid: empty, with repeated and unsorted columns, with rows of any length."""
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
    mine = RuntimeCounter()
    for transposed in (False, True):
        found, wanted = (one.lengths(pattern, transposed=transposed) for one in (mine, NUMPY))
        assert found == wanted
        assert list(found.slots) == [(lanes, window) for window in WINDOWS for lanes in SLICE_LANES]
    found_sample, wanted_sample = (one.sample(pattern, n_sample) for one in (mine, NUMPY))
    for field in ("n_entries", "gap_sum", "n_gaps", "n_on_few", "n_few_cells"):
        assert getattr(found_sample, field) == getattr(wanted_sample, field), field
    assert dict(found_sample.n_blocks) == dict(wanted_sample.n_blocks)
    alone = mine.lengths(pattern, transposed=False), found_sample
    fresh = Pattern(*pattern.shape, pattern.indptr, pattern.indices)  # of which nothing was counted yet
    for _ in range(2):
        assert mine.both(fresh, n_sample, transposed=False) == alone
    assert mine.both(fresh, n_sample, transposed=True)[0] == NUMPY.lengths(pattern, transposed=True)


@settings(max_examples=60)
@given(pattern=patterns(), n_sample=st.sampled_from([10, 6144, 1 << 20]))
def test_counts_are_those_of_numpy(pattern, n_sample):
    assert_same_counts(pattern, n_sample)


@pytest.mark.parametrize("family", FAMILIES)
def test_counts_of_generated_patterns_are_those_of_numpy(family):
    """Large enough for windows of every size, and panels between those looked at."""
    pattern = generate(family, nnz=120_000, seed=3).to_pattern()
    assert_same_counts(pattern, 6144)
    for transposed in (False, True):
        found = pattern_facts(pattern, transposed=transposed, counter=RuntimeCounter())
        wanted = pattern_facts(pattern, transposed=transposed)
        for size in wanted.n_blocks:
            assert found.n_blocks[size] == wanted.n_blocks[size]
        for field in ("row_cv", "mean_gap", "empty_rows", "slice_cells", "diagonal_share", "diagonal_cells", "max_row"):
            assert getattr(found, field) == getattr(wanted, field), field


@settings(max_examples=40)
@given(pattern=patterns(), n_entries=st.sampled_from([1, 7, 500, 8192]))
def test_columns_that_come_back_are_counted_as_by_numpy(pattern, n_entries):
    if pattern.nnz:
        assert Locality(pattern, RuntimeCounter()).distinct_share(n_entries) == Locality(pattern).distinct_share(
            n_entries
        )


def test_every_size_is_counted_and_no_other():
    sample = RuntimeCounter().sample(generate("blocks", nnz=2_000, seed=1).to_pattern(), 1 << 20)
    assert list(sample.n_blocks) == [(r, c) for r in BLOCK_SIZES for c in BLOCK_SIZES]


def test_numbers_that_do_not_fit_are_left_to_numpy():
    wide = Pattern(3 * 2**20, 2**62, np.zeros(3 * 2**20 + 1, np.int64), np.zeros(0, np.int64))
    assert counts.sample(wide, 6144, len(BLOCK_SIZES)) is not None  # nothing to look at
    indptr = np.minimum(np.arange(3 * 2**20 + 1), 2**20)
    full = Pattern(3 * 2**20, 2**62, indptr, np.full(2**20, 2**61))
    assert counts.sample(full, 6144, len(BLOCK_SIZES)) is None
    assert RuntimeCounter().sample(full, 6144).n_entries == NUMPY.sample(full, 6144).n_entries


@settings(max_examples=60)
@given(pattern=patterns(), sizes=st.sampled_from([(1,), (3, 7), (2, 500, 8192)]), n_walks=st.integers(1, 5))
def test_walks_are_those_of_python(pattern, sizes, n_walks):
    assert RuntimeCounter().walks(pattern, sizes, n_walks) == NUMPY.walks(pattern, sizes, n_walks)


@pytest.mark.parametrize("family", [*FAMILIES, "batch", "control"])
def test_walks_over_generated_patterns_are_those_of_python(family):
    pattern = generate(family, nnz=30_000, seed=3).to_pattern()
    assert RuntimeCounter().walks(pattern, (256, 1024, 8192), 4) == NUMPY.walks(pattern, (256, 1024, 8192), 4)
