"""Tests of early races in blocks of rows, and of those that are repeated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api
from autosparse._native.kernels.slice_names import Blocks

import autosparse as asp
from autosparse.core.target import Target
from autosparse.dispatch import first_look
from autosparse.isa import ISAS
from autosparse.tuning.memory import early, row_padding
from autosparse.tuning.trials.kernel_trial import KernelTrial
from tests.tuning.forcing import state_of, verdict_after
from tests.tuning.test_early import (  # noqa: F401  # fixtures
    begun,
    best_isa,
    first_in_process,
    make_state,
    needs_shipped,
    products,
    race_at_once,
)


def in_groups(rows: int, n: int, dtype: str = "float64") -> Any:
    """Return a matrix of n rows and different values whose rows have the same columns in groups of `rows` rows."""
    rng = np.random.default_rng(4)
    m = sps.csr_array(sps.kron(sps.diags_array(np.ones((3, n // rows)), offsets=(-7, 0, 7), shape=(n // rows,) * 2),
                               np.ones((rows, 4))), dtype=dtype)  # fmt: skip
    m.data[:] = rng.standard_normal(m.nnz)
    return m


@pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")
def test_rows_that_share_columns_are_fit_for_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = sps.csr_array(sps.diags_array(np.ones((5, 9000)), offsets=(-90, -1, 0, 1, 90), shape=(9000, 9000)))
    for lanes in row_padding.MAX_FILL:
        same, alone = in_groups(16, 9600), in_groups(1, 9600)
        for m, is_fit in ((same, True), (alone, False), (grid, False)):
            for kind in ("int32", "int64"):
                arrays = m.indptr.astype(kind), m.indices.astype(kind)
                assert row_padding.fits_blocks(arrays, m.shape[1], 8, lanes) is is_fit
    arrays = same.indptr, same.indices
    assert not row_padding.fits_blocks(arrays, 1 << 17, 8, 8), "16 bits do not hold a column"
    assert not row_padding.fits_blocks((np.zeros(1, np.int32), np.zeros(0, np.int32)), 0, 8, 8)
    assert not row_padding.fits_blocks(arrays, 2400, 8, 2), "no kernel has two rows"
    half = in_groups(4, 9600)
    for n_bytes, is_fit in ((row_padding.CACHED_BYTES, True), (0, False)):
        monkeypatch.setattr(row_padding, "CACHED_BYTES", n_bytes)
        assert row_padding.fits_blocks((half.indptr, half.indices), 9600, 8, 8) is is_fit
        assert row_padding.fits_blocks(arrays, 2400, 8, 8)


@needs_shipped
@pytest.mark.usefixtures("best_isa")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("is_faster", [True, False])
def test_rows_that_share_columns_race_in_blocks(dtype: str, is_faster: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    race_at_once(monkeypatch)
    monkeypatch.setattr(early, "verdict", verdict_after(3, is_won=is_faster))
    monkeypatch.setattr(early, "CHECK_AFTER", 1e9)
    m = in_groups(16, 9600, dtype)
    A, x = asp.csr(m, copy=True), np.random.default_rng(2).standard_normal(m.shape[1]).astype(dtype)
    found, wanted = state_of(A), m @ x
    found.next_look_ns = 0
    for _ in range(20):
        np.testing.assert_allclose(A @ x, wanted, rtol=1e-4, atol=1e-5)
    race: Any = found.early
    assert race.has_candidate
    assert race.is_won is is_faster
    if is_faster:
        assert isinstance(found.serving.slices, Blocks)  # type: ignore[union-attr]
        assert found.serving.slices.tile == 0  # type: ignore[union-attr]
        assert "shipped kernel" in str(A.explain(x))
        A.data[:] *= 2.0
        np.testing.assert_allclose(A @ x, 2.0 * wanted, rtol=1e-4, atol=1e-5)
        assert isinstance(found.recalled, KernelTrial)
        race.retire(found)
    assert A._cell.dispatcher.packed_copies.n_bytes == 0


@needs_shipped
@pytest.mark.usefixtures("best_isa")
def test_few_values_of_even_rows_race_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    race_at_once(monkeypatch)
    m = in_groups(16, 9600)
    lanes = ISAS[asp.get_options().isa or runtime_api.best_isa()].vector_bytes // 8
    is_encoded = ISAS[Target.host().isa].has_table_permutation
    for values, is_few in ((m.data, False), (np.ones(m.nnz), True)):
        sigma = 1 if is_few and is_encoded else row_padding.IN_BLOCKS
        m.data[:] = values
        A = asp.csr(m, copy=True)
        assert first_look._shape(state_of(A), A._cell) == (lanes, sigma)


@pytest.mark.parametrize(
    ("default_s", "ratio", "n_races"), [(4e-5, 1.6, 3), (4e-5, 2.1, 1), (4e-4, 1.6, 1), (4e-5, 1.0, 3)]
)
def test_a_loser_of_short_products_races_again(
    default_s: float, ratio: float, n_races: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that all products have paid for each race by the share `overhead`, and that there is no fourth race."""
    found = make_state()
    race, trial = begun(found, monkeypatch, cost_s=1e-3)
    monkeypatch.setattr(early, "expected_look_s", lambda _: 0.0)
    n_begun = 1
    for _ in range(400):
        trial.ready = True
        products(found, race, trial, n=1000, default_s=default_s, mine_s=ratio * default_s)
        found.count(10**6, is_tuned=False)
        before_s = race.spent_s
        race._clock = lambda at=[0.0]: at.append(at[-1] + 1e-3) or at[-1]  # each preparation takes 1 ms
        race.check(found, None)
        if race.is_racing:
            n_begun += 1
            assert 2.0 * before_s <= found.options.overhead * found.product_ns * 1e-9
    assert n_begun == n_races
    assert race.check_ns == np.inf
