"""Tests of the early race and of the first search in series of solves, by scripted clocks."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api
from hypothesis import given
from hypothesis import strategies as st

import autosparse as asp
from autosparse.dispatch import first_look, state
from autosparse.dispatch.expectations import Expected, tell
from autosparse.isa import ISAS
from autosparse.tuning.memory import early
from tests.tuning.test_early import first_in_process, make_state, operand_of  # noqa: F401  # a fixture

OVERHEAD = asp.get_options().overhead


def test_a_large_matrix_of_few_values_races_before_it_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_look, "EARLY_ENTRIES", (10, 1000))
    monkeypatch.setattr(first_look, "ENCODED_ENTRIES", 10_000)
    monkeypatch.setattr(first_look, "_tuning_look_ns", lambda _: 0.0)  # a search is due
    isa = ISAS[asp.get_options().isa or runtime_api.best_isa()]
    for values, is_few in ((np.resize([4.0, -1.0], 5000), True), (np.arange(1.0, 5001.0), False)):
        operand, found = asp.csr(values.reshape(50, 100))._cell, make_state(cache=False)
        races = first_look.early_look_ns(found, operand) < state.FOREVER_NS
        assert races == first_look.is_enough(found, operand) == (is_few and isa.has_table_permutation)
    assert first_look.early_look_ns(make_state(), asp.csr(np.ones((101, 100)))._cell) >= state.FOREVER_NS


def test_neither_a_solve_nor_earlier_ones_allow_an_advance() -> None:
    found, operand = make_state(), operand_of(200_000)
    found.n_calls, found.product_ns = 1000, 10**8
    alone_ns = first_look.early_look_ns(found, operand)
    found.expected = Expected(n_calls=1000, n_certain=1000)
    of_solver_ns = (1.0 + first_look.MAX_ADVANCE) * alone_ns
    assert first_look.early_look_ns(found, operand) == pytest.approx(of_solver_ns)
    found.expected = Expected(n_calls=10**6, n_certain=10**6)
    assert first_look.early_look_ns(found, operand) == 0.0, "a long solve pays for it at once"
    found.expected, found.solver_ns = None, 10**7
    assert first_look.early_look_ns(found, operand) == pytest.approx(of_solver_ns - 10**7)


@given(
    default_s=st.floats(1e-5, 1e-2), other_s=st.floats(0, 1e-2), length=st.integers(1, 50), ratio=st.floats(1.0, 5.0),
    nnz=st.integers(first_look.EARLY_ENTRIES[0], first_look.EARLY_ENTRIES[1] - 1),
    n_solves=st.integers(1, 1000), is_won=st.booleans(),
)  # fmt: skip
def test_at_no_number_of_short_solves_is_the_total_above_1_05(
    default_s: float, other_s: float, length: int, n_solves: int, nnz: int, ratio: float, is_won: bool
) -> None:
    """Check the bound for the first look, the race and the modules of a search, by a scripted clock."""
    found, operand = make_state(), operand_of(nnz)
    tuning_s, is_loaded, untuned_s, own_s = 0.0, False, 0.0, 0.0
    for _ in range(n_solves):
        for _ in range(length):
            race = found.early
            served = is_won and race is not None
            found.count(round(default_s / (ratio if served else 1.0) * 1e9), is_tuned=served)
            untuned_s, own_s = untuned_s + default_s + other_s, own_s + other_s
            found.solver_ns = found.solver_ns or 0
            if race is None and found.product_ns >= first_look.early_look_ns(found, operand):
                spent_s = first_look.early_price_s(found, operand)
                found.early = race = early.EarlyRace()
                race.spent_s, race.has_candidate, race.is_won = spent_s, True, is_won
                race.ratio, tuning_s = ratio if is_won else 1.0, spent_s
            elif race is not None and not is_loaded and found.product_ns >= first_look._tuning_look_ns(found):
                is_loaded, tuning_s = True, tuning_s + first_look.FIRST_SEARCH_S
            assert found.product_ns * 1e-9 + own_s + tuning_s <= 1.05 * untuned_s * (1 + 1e-6) + 1e-8 * found.n_calls
        found.solver_ns += round(length * other_s * 1e9)


def test_a_thousand_short_solves_of_one_matrix_race() -> None:
    """Check by a scripted clock that solves of 20 products of 0.1 ms race as soon as 4 % of their time covers it."""
    found, operand = make_state(), operand_of(200_000)
    price_s = first_look.early_price_s(found, operand)
    for n_solves in range(1000):
        for done in range(20):
            found.expected = Expected(n_calls=20 * n_solves + 20, n_certain=20 * n_solves + done + 1)
            found.count(100_000, is_tuned=False)
            if found.product_ns >= first_look.early_look_ns(found, operand):
                assert found.product_ns * 1e-9 == pytest.approx(price_s / OVERHEAD, rel=0.01)
                return
    pytest.fail("no race")


def test_the_end_of_a_solve_brings_a_race_forward_by_its_time_beside_products() -> None:
    found = make_state()
    found.n_calls, found.product_ns, found.next_look_ns = 1000, 10**8, 10**12
    tell(found, Expected(n_calls=1000, n_certain=1000))
    tell(found, None)
    assert found.next_look_ns == 10**12, "a look at the end of each solve would cost 5 % of short ones"
    found.add_solver_time(10**9)
    assert (found.solver_ns, found.next_look_ns) == (10**9, 10**12 - 10**9)
    found.next_look_ns = state.FOREVER_NS
    found.add_solver_time(10**9)
    assert found.next_look_ns == state.FOREVER_NS, "tuning was given up"


def test_the_end_of_a_solve_lets_a_tuner_consider_its_next_step() -> None:
    found = make_state()
    found.live_tuner = SimpleNamespace(waits_for_pay=True)  # type: ignore[assignment]
    found.n_calls, found.product_ns, found.next_look_ns = 1000, 10**8, 10**12
    tell(found, Expected(n_calls=1000, n_certain=1000))
    assert found.next_look_ns == 10**12
    tell(found, None)
    assert found.product_ns < found.next_look_ns <= 1.2 * found.product_ns
    found.next_look_ns = state.FOREVER_NS
    tell(found, None)
    assert found.next_look_ns == state.FOREVER_NS, "tuning was given up"


@pytest.mark.parametrize(
    ("isa", "is_even", "n_values", "is_cheap"),
    [("avx512", True, 3, True), ("avx512", True, 41, False), ("avx512", False, 3, False), ("avx2", True, 3, False)],
)
def test_a_race_of_dictionary_encoded_values_costs_less(isa: str, is_even: bool, n_values: int, is_cheap: bool) -> None:
    """Check that one-byte indices are cheap to pack: of few values, rows in order, where registers hold the table."""
    n = 20_000
    arrays = np.arange(n) % n_values + 1.0, np.arange(n, dtype=np.int32), np.arange(n + 1, dtype=np.int32)
    operand, found = asp.csr(arrays, shape=(n, n))._cell, make_state(isa=isa)
    base_s, whole_s = (first_look.early_price_s(found, one) for one in (operand_of(0), operand_of(n, n)))
    found.early_shape = (16, 1 if is_even else 512)
    share = first_look.EARLY_FEW if is_cheap else 1.0
    assert first_look.early_price_s(found, operand) - base_s == pytest.approx(share * (whole_s - base_s))


def test_rows_that_the_race_sorts_pay_the_whole_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a matrix of few values does not race at the low price where its rows are found to be uneven.

    The lengths of its rows are not looked at again once products have paid the whole price.
    """
    m = sps.random_array((4000, 4000), density=0.005, format="csr", random_state=np.random.default_rng(0))
    m.data[:] = 1.0
    operand, found = asp.csr(m)._cell, make_state(isa="avx512")
    low_ns = found.product_ns = int(first_look.early_look_ns(found, operand)) + 1
    for _ in range(3):
        assert not first_look._is_racing(found, operand, None, 0.0)
    assert found.early is None
    assert first_look.early_look_ns(found, operand) > low_ns
    monkeypatch.setattr(first_look, "_shape", None)
    found.product_ns = int(first_look.early_look_ns(found, operand)) + 1
    first_look._is_racing(found, operand, None, 0.0)
    assert found.early is not None
