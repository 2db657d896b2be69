"""Tests that facts of a pattern equal counts over all of its blocks and diagonals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from autosparse.tuner.features.statistics import (
    BLOCK_SIZES,
    PANEL,
    Locality,
    pattern_facts,
    shares_in_order,
    shares_of_walks,
)
from autosparse.tuner.research.generators.base import generate

from autosparse.core.pattern import Pattern
from tests.native.numpy_counts import MAX_DIAGONAL_CELLS


@pytest.mark.parametrize("family", ["stencil", "blocks", "rmat", "hypersparse"])
@pytest.mark.parametrize("transposed", [False, True])
def test_blocks_of_a_small_pattern_are_counted_exactly(family, transposed):
    found = generate(family, nnz=2_000, seed=1)
    rows, columns = found.indices[::-1] if transposed else found.indices
    facts = pattern_facts(found.to_pattern(), transposed=transposed, n_sample=1 << 20)
    for r, c in itertools.product(BLOCK_SIZES, repeat=2):
        n_blocks = len(set(zip((rows // r).tolist(), (columns // c).tolist(), strict=True)))
        assert facts.n_blocks[r, c] == pytest.approx(n_blocks / found.nnz)
    assert list(facts.n_blocks) == list(itertools.product(BLOCK_SIZES, repeat=2))
    assert facts.n_blocks.get((5, 5)) is None


@pytest.mark.parametrize("family", ["banded", "stencil", "uniform"])
def test_diagonals_are_those_of_panels(family):
    """Compare with a direct count: diagonals of each panel of 16 rows."""
    found = generate(family, nnz=3_000, seed=2)
    rows, columns = found.indices
    facts = pattern_facts(found.to_pattern(), n_sample=1 << 20)
    n_on_few, n_cells = 0, 0
    for panel in np.unique(rows // PANEL):
        mine = rows // PANEL == panel
        cells = PANEL * np.unique(columns[mine] - rows[mine]).size
        if cells <= MAX_DIAGONAL_CELLS * mine.sum():
            n_on_few, n_cells = n_on_few + int(mine.sum()), n_cells + cells
    assert facts.diagonal_share == pytest.approx(n_on_few / found.nnz)
    assert facts.diagonal_cells == pytest.approx(n_cells / n_on_few if n_on_few else 1.0)


def test_rows_by_their_first_column_bring_columns_back():
    """Check that columns of a shuffled band come back as soon as in the band itself, whatever rows lie between."""
    n, width = 4_000, 8
    columns = (np.arange(n)[:, None] + np.arange(width)) % (n + width)
    band = Pattern(n, n + width, np.arange(0, n * width + 1, width), columns.ravel())
    shuffled = columns[np.random.default_rng(0).permutation(n)]
    unsorted = shuffled[:, np.random.default_rng(1).permutation(width)]
    sizes = (64, 1024, 8192)
    wanted = [Locality(band).distinct_share(size) for size in sizes]
    for stored in (columns, shuffled, unsorted):
        found = shares_in_order(Pattern(n, n + width, band.indptr, stored.ravel()), sizes)
        np.testing.assert_allclose(found, wanted, atol=0.02)
    assert Locality(Pattern(n, n + width, band.indptr, shuffled.ravel())).distinct_share(1024) > 0.8


@pytest.mark.parametrize("rows", [[[]], [[0]], [[0, 1], [], [0, 1]], [[3], [3], [3], []]])
def test_shares_in_order_of_the_smallest_patterns(rows):
    indptr = np.cumsum([0, *(len(row) for row in rows)])
    indices = np.array([column for row in rows for column in row], np.int64)
    beyond = np.concatenate([indices, np.full(3, 99)])  # SciPy's arrays may be longer than the stored entries
    found = shares_in_order(Pattern(len(rows), 5, indptr, beyond), (256, 8192))
    distinct = len(set(indices.tolist()))
    assert found == [distinct / len(indices)] * 2 if len(indices) else found == [1.0] * 2


def test_walks_find_again_what_is_near_in_any_order():
    """Check a band with permuted rows and columns, which reverse Cuthill-McKee can restore."""
    n, reach, sizes = 8_000, 3, (256, 1024, 8192)
    columns = np.clip(np.arange(n)[:, None] + np.arange(-reach, reach + 1), 0, n - 1)
    indptr = np.arange(0, columns.size + 1, columns.shape[1])
    order = np.random.default_rng(0).permutation(n)
    place = np.argsort(order)
    shuffled = Pattern(n, n, indptr, place[columns[order]].ravel())
    wanted = [Locality(Pattern(n, n, indptr, columns.ravel())).distinct_share(size) for size in sizes]
    np.testing.assert_allclose(shares_of_walks(shuffled, sizes), wanted, atol=0.05)
    assert Locality(shuffled).distinct_share(1024) > 0.9


def test_walks_go_on_where_nothing_more_can_be_reached():
    found = shares_of_walks(Pattern(6, 2, np.array([0, 0, 1, 1, 2, 3, 3]), np.array([1, 1, 1])), (2, 256))
    assert found == [1 / 2, 1 / 3]
    assert shares_of_walks(Pattern(0, 5, np.zeros(1, np.int64), np.zeros(0, np.int64)), (256,)) == [1.0]
