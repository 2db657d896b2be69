"""Tests that live tuning tries precompiled kernels that no statistics rank, only for dictionary-encoded values."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native.kernels.shipped_specs import HIGH_SLICES

import autosparse as asp
from autosparse.config import Effort
from autosparse.core.formats import DICTIONARY
from autosparse.tuning.setup import context_of
from autosparse.tuning.solvers import candidates
from tests.tuning.forcing import state_of


@pytest.mark.parametrize("n_values", [2, 100_000])
def test_high_slices_are_tried_where_values_are_numbered(n_values):
    rng = np.random.default_rng(0)
    m = sps.diags_array(np.ones((5, 20_000)), offsets=(-100, -1, 0, 1, 100), shape=(20_000, 20_000), format="csr")
    m.data[:] = rng.integers(1, 1 + n_values, m.nnz)
    A = asp.csr(m)
    A._cell.refresh()
    context = context_of(A._cell, state_of(A))
    search = candidates.search_for(context, effort=Effort.MEASURE, live=True)
    is_tried = context.problem.storage == DICTIONARY and context.is_built(HIGH_SLICES)
    assert (HIGH_SLICES in search.shipped) == is_tried
    assert n_values == 2 or not search.shipped
