"""Tests that tuning tries precompiled kernels that no model ranks first, where they suit the matrix."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native.c import build as c_build
from autosparse._native.kernels import identity, implementations
from autosparse._native.kernels.shipped_specs import HIGH_SLICES
from autosparse.tuner.space import spaces

import autosparse as asp
from autosparse.config import Effort
from autosparse.core.formats import DICTIONARY
from autosparse.core.schedule import SuperSchedule
from autosparse.isa import ISAS
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
    assert n_values == 2 or HIGH_SLICES not in search.shipped


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_of_a_vectors_height_race_before_any_kernel_is_compiled(dtype: str) -> None:
    """Check that the shipped kernel is tried unless it is predicted far slower, however many others are predicted
    faster.
    """
    blocks = sps.random_array((700, 700), density=0.01, format="csr", random_state=np.random.default_rng(1))
    A = asp.csr(sps.kron(blocks, np.ones((3, 3)), format="csr").astype(dtype), copy=True)
    context = context_of(A._cell, state_of(A))
    search = candidates.search_for(context, effort=Effort.MEASURE, live=True)
    assert len(search.shipped) == ISAS[context.problem.target.isa].is_shipped
    for ratio in (1.2, 1.3):
        ranked = dict.fromkeys(spaces.candidates(context.problem, context.supports), 0.9)
        search.queue.ratios = ranked | dict.fromkeys(search.shipped, ratio)
        search.queue.schedules = sorted(search.queue.ratios, key=search.queue.ratios.__getitem__)
        search.queue.prefer_built(context.is_built, hopeless=1.1, n=2, beside=search.shipped)
        assert set(search.queue.preferred) >= set(search.shipped if ratio < 1.25 else ())
        assert not search.shipped or (search.shipped[0] in search.queue.schedules[:3]) == (ratio < 1.25)


@pytest.mark.parametrize("has_shared_rows", [True, False])
@pytest.mark.parametrize("has_compiler", [True, False])
@pytest.mark.parametrize("columns", [1, 4, 8, 32])
def test_kernels_for_rows_that_share_entries_race_without_a_compiler(columns, has_compiler, has_shared_rows):
    rng = np.random.default_rng(1)
    blocks = sps.random_array((700, 700), density=0.01, format="csr", random_state=rng)
    m = sps.kron(blocks, np.ones((3, 3)), format="csr") if has_shared_rows else sps.random_array(
        (2100, 2100), density=0.01, format="csr", random_state=rng
    )  # fmt: skip
    A = asp.csr(m.astype("float32"), copy=True)
    with asp.options(compiler=None if has_compiler else "no-such-compiler"):
        context = context_of(A._cell, state_of(A, columns))
        search = candidates.search_for(context, effort=Effort.MEASURE, live=True)
        tiles = {one.dense_split("j") for one in search.always if isinstance(one, SuperSchedule)} - {0}
        are_there = ISAS[context.problem.target.isa].is_shipped and has_shared_rows and context.compiler_id() == "none"
        assert tiles == ({8 if columns < 32 else 32} if are_there and columns >= 8 else set())
        assert all(context.is_built(one) for one in search.always if isinstance(one, SuperSchedule))


@pytest.mark.parametrize("columns", [8, 32])
def test_a_search_in_one_go_races_them_first_whether_or_not_there_is_a_compiler(
    columns: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("_loaded", "_missing", "_present"):  # kernels that earlier tests compiled would race, too
        monkeypatch.setattr(implementations, name, type(getattr(implementations, name))())
    blocks = sps.random_array((700, 700), density=0.01, format="csr", random_state=np.random.default_rng(1))
    A = asp.csr(sps.kron(blocks, np.ones((3, 3)), format="csr").astype("float32"), copy=True)
    for compiler in (None, "no-such-compiler"):
        with asp.options(compiler=compiler, cache_dir=tmp_path):
            context = context_of(A._cell, state_of(A, columns))
            search = candidates.search_for(context, effort=Effort.MEASURE, live=False)
            first = search.always[0]
            assert isinstance(first, SuperSchedule)
            is_tiled = first.dense_split("j") == columns
            assert is_tiled == ISAS[context.problem.target.isa].is_shipped
            assert context.is_built(first)


def test_they_race_beside_kernels_that_numba_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_build, "compiler_id", lambda *_: "none")
    monkeypatch.setattr(identity, "has_numba", lambda: True)
    assert identity.backend_name(None) == "numba"
    blocks = sps.random_array((700, 700), density=0.01, format="csr", random_state=np.random.default_rng(1))
    A = asp.csr(sps.kron(blocks, np.ones((3, 3)), format="csr").astype("float32"), copy=True)
    with asp.options(compiler=None):
        context = context_of(A._cell, state_of(A, 8))
        search = candidates.search_for(context, effort=Effort.MEASURE, live=True)
        tiles = {one.dense_split("j") for one in search.always if isinstance(one, SuperSchedule)} - {0}
        assert tiles == ({8} if ISAS[context.problem.target.isa].is_shipped else set())
