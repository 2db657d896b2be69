"""Facts of a pattern: blocks are counted when they are asked for, and are what counting all of them gives."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from autosparse.tuner import counts
from autosparse.tuner.counts import BLOCK_SIZES, MAX_DIAGONAL_CELLS, PANEL
from autosparse.tuner.generators import generate
from autosparse.tuner.statistics import pattern_facts


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


def test_only_what_is_asked_for_is_counted_and_only_once(monkeypatch):
    counted = []
    count = counts._n_blocks
    monkeypatch.setattr(counts, "_n_blocks", lambda *given: counted.append(given[2:]) or count(*given))
    facts = pattern_facts(generate("mesh", nnz=5_000, seed=1).to_pattern())
    assert counted == []
    assert facts.fill(4, 2) == facts.fill(4, 2)
    assert counted == [(4, 2)]


@pytest.mark.parametrize("family", ["banded", "stencil", "uniform"])
def test_diagonals_are_those_of_panels(family):
    """Counted by hand: diagonals of each panel of 16 rows."""
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
