"""Tests of the race with one shipped kernel that a problem runs before the modules of tuning are loaded."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api
from autosparse._native.kernels.slice_names import Slices
from autosparse.tuner.search.race import Race, RaceRule
from hypothesis import given
from hypothesis import strategies as st

import autosparse as asp
from autosparse.core.target import Target
from autosparse.dispatch import first_look, state
from autosparse.dispatch.state import DispatchState
from autosparse.isa import ISAS
from autosparse.scalar import GENERATED
from autosparse.tuning.memory import early, row_padding
from autosparse.tuning.setup import context_of, live_tuner_of
from autosparse.tuning.solvers import candidates
from autosparse.tuning.trials.kernel_trial import KernelTrial
from tests.tuning.forcing import state_of, verdict_after


@pytest.fixture(autouse=True)
def first_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each race be priced as the first of its process, which loads modules."""
    monkeypatch.setattr(first_look, "_EARLY", "no.such.module")


def make_state(**options: Any) -> DispatchState:
    return DispatchState(
        asp.get_options()._replace(**options), False, np.dtype("float64"), 1, threads=0, flags=0, next_look_ns=0.0
    )


def race_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the early race begin at a problem's first look, which is due at once; no other race and no search follow."""
    monkeypatch.setattr(first_look, "early_look_ns", lambda found, operand: 0 if found.early is None else 1e18)
    monkeypatch.setattr(state, "tuning_look_ns", lambda *_: 1e18)
    monkeypatch.setattr(state, "COLD_LOOK_S", 0.0)
    monkeypatch.setattr(early, "SHORT_S", 0.0)  # whether a loser races again depends on measured times


class Candidate:
    """Trial of a race with scripted times."""

    def __init__(self) -> None:
        self.ready, self.n_dropped, self.service = True, 0, None
        self.slices, self.expand = Slices(8), lambda: None

    def drop(self) -> None:
        self.ready, self.n_dropped = False, self.n_dropped + 1


def begun(found: DispatchState, monkeypatch: pytest.MonkeyPatch, *, cost_s: float = 0.0) -> tuple[Any, Candidate]:
    """Return a race that has prepared a candidate in `cost_s` seconds, and the candidate."""
    clock, trial = SimpleNamespace(now_s=0.0), Candidate()
    race = early.EarlyRace(lambda: clock.now_s)
    monkeypatch.setattr(race, "_ready", lambda *_: trial)
    clock.now_s = cost_s
    race.begin(found, None, 0.0)  # type: ignore[arg-type]  # the script needs no operand
    return race, trial


def products(found: DispatchState, race: Any, trial: Candidate, *, n: int, default_s: float, mine_s: float) -> int:
    """Run at most `n` products until the race has ended; return how many ran."""
    for done in range(n):
        if not race.is_racing:
            return done
        is_mine = found.serving is trial
        took_s = mine_s if is_mine else default_s
        found.count(round(took_s * 1e9), is_tuned=is_mine)
        race.look(found, trial, found.serving, took_s)  # the script needs no operand
    return n


@pytest.mark.parametrize("ratio", [0.3, 0.7, 0.9])
def test_a_faster_kernel_serves_after_few_products(ratio: float, monkeypatch: pytest.MonkeyPatch) -> None:
    found = make_state()
    race, trial = begun(found, monkeypatch)
    assert products(found, race, trial, n=1000, default_s=4e-5, mine_s=ratio * 4e-5) <= 25
    assert race.is_won
    assert found.serving is trial is found.recalled
    assert race.ratio == pytest.approx(1.0 / ratio)
    assert race.saved_s(1e9) == pytest.approx(1.0 / ratio - 1.0)


@pytest.mark.parametrize(("ratio", "most"), [(1.0, 40), (1.05, 40), (1.2, 8), (3.0, 8)])
def test_a_slower_kernel_leaves_sooner_the_slower_it_is(ratio, most, monkeypatch):
    found = make_state()
    race, trial = begun(found, monkeypatch)
    assert products(found, race, trial, n=1000, default_s=4e-5, mine_s=ratio * 4e-5) <= most
    assert not race.is_won
    assert found.serving is None
    assert found.recalled is None
    assert trial.n_dropped == 1
    excess_s = max(0.0, ratio - 1.0) * 4e-5 * found.n_tuned
    assert race.spent_s >= 0.9 * excess_s, "its excess counts as tuning"


@pytest.mark.parametrize("is_checked", [False, True])
@pytest.mark.parametrize(("n_noisy", "is_won"), [(0, True), (1, True), (2, False)])
def test_a_race_that_noise_decides_runs_once_more(
    n_noisy: int, is_won: bool, is_checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let the candidate be faster in six rounds of nine, `n_noisy` times, and in all of them afterwards."""
    found = make_state()
    race, trial = begun(found, monkeypatch)
    monkeypatch.setattr(early, "SliceTrial", Candidate)
    if is_checked:
        products(found, race, trial, n=1000, default_s=4e-5, mine_s=2e-5)
        found.count(int(race.check_ns), is_tuned=True)
        race.check(found, None)
    n_rounds, n_before = 0, 0
    while race.is_racing:
        at = len(race._pairs)
        n_rounds, n_before = n_rounds + (at != n_before), at
        is_noise = n_rounds < early.MAX_ROUNDS * n_noisy and at in (1, 3, 6)
        products(found, race, trial, n=1, default_s=4e-5, mine_s=(1e-4 if is_noise else 2e-5))
    assert race.is_won is is_won
    assert (found.serving is trial) is is_won


@pytest.mark.parametrize("later", [0.7, 1.3])
def test_a_winner_races_once_more(later: float, monkeypatch: pytest.MonkeyPatch) -> None:
    found = make_state()
    race, trial = begun(found, monkeypatch)
    products(found, race, trial, n=1000, default_s=4e-5, mine_s=2e-5)
    assert race.is_won
    race.check(found, None)
    assert not race.is_racing, "it is not due"
    found.count(int(race.check_ns), is_tuned=True)
    monkeypatch.setattr(early, "SliceTrial", Candidate)
    race.check(found, None)
    assert race.is_racing
    assert products(found, race, trial, n=1000, default_s=4e-5, mine_s=later * 4e-5) <= 25
    assert race.is_won is (later < 1.0)
    assert (found.serving is trial) is (found.recalled is trial) is race.is_won
    assert trial.n_dropped == (later > 1.0)
    assert race.check_ns == np.inf, "one check is enough"


def test_a_candidate_that_is_still_warming_up_stays_in_the_race() -> None:
    falling = [(693.0, 1229.0), (591.0, 1025.0)]
    assert early.verdict([(43.0, 26.0), (38.0, 26.0), (20.0, 26.0)]) is None, "the default kernel's helper has woken"
    assert early.verdict(falling) is None
    assert early.verdict([*falling, (600.0, 1025.0)]) is False


@given(st.lists(st.floats(0.97, 1.03), min_size=early.MAX_ROUNDS, max_size=early.MAX_ROUNDS))
def test_noise_of_three_percent_never_wins(ratios: list[float]) -> None:
    assert early.verdict([(1.0, one) for one in ratios]) is False


@given(st.lists(st.tuples(st.floats(0.5, 2.0), st.floats(0.5, 2.0)), max_size=early.MAX_ROUNDS))
def test_a_race_ends_and_a_winner_is_faster_in_most_rounds(pairs: list[tuple[float, float]]) -> None:
    won = early.verdict(pairs)
    assert won is not None or len(pairs) < early.MAX_ROUNDS
    if won:
        race = Race(2, RaceRule(margin=0.0, min_rounds=0))
        for one in pairs:
            for turn, seconds in enumerate(one):
                race.add(turn, seconds)
        assert race.ratio(1) <= 1.0 - early.MARGIN
        assert sum(mine < default for default, mine in pairs) >= 0.75 * len(pairs)


def test_a_kernel_that_computes_no_product_leaves_the_race(monkeypatch: pytest.MonkeyPatch) -> None:
    found = make_state()
    race, trial = begun(found, monkeypatch)
    for _ in range(100):
        race.look(found, None, None, 1e-5)  # the default kernel computes each, whatever was to
        if not race.is_racing:
            break
    assert not race.is_racing
    assert found.serving is None
    assert trial.n_dropped == 1


def test_tuning_that_is_asked_for_takes_the_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    found = make_state()
    race, trial = begun(found, monkeypatch)
    products(found, race, trial, n=1000, default_s=4e-5, mine_s=2e-5)
    race.retire(found)
    assert found.serving is None
    assert found.recalled is None
    assert trial.n_dropped == 1
    race.retire(found)


# -- when it begins --------------------------------------------------------------------------------------------------


def operand_of(nnz: int, n_rows: int = 0) -> Any:
    return SimpleNamespace(nnz=nnz, n_major=n_rows)


@given(
    default_s=st.floats(1e-5, 1e-2), nnz=st.integers(first_look.EARLY_ENTRIES[0], first_look.EARLY_ENTRIES[1] - 1),
    ratio=st.floats(1.0, 5.0), n=st.integers(1, 3000), columns=st.sampled_from([1, 8]), is_won=st.booleans(),
    n_rows=st.integers(1, 10**6),
)  # fmt: skip
def test_at_no_number_of_products_is_the_total_above_the_bound(default_s, nnz, n_rows, ratio, n, columns, is_won):
    """Check the bound of 1.20 for the race, and for loading the modules of a search after it, by a scripted clock."""
    found, operand = make_state(), operand_of(nnz, n_rows)
    found.n_dense_cols = columns
    tuning_s, is_loaded, race = 0.0, False, None
    for done in range(1, n + 1):
        served = is_won and race is not None
        found.count(round(default_s / (ratio if served else 1.0) * 1e9), is_tuned=served)
        if race is None and found.product_ns >= first_look.early_look_ns(found, operand):
            spent_s = first_look.early_price_s(found, operand)
            race = early.EarlyRace()
            race.spent_s, race.has_candidate, race.is_won, race.ratio = spent_s, True, is_won, ratio if is_won else 1.0
            found.early, tuning_s = race, spent_s
        elif race is not None and not is_loaded and found.product_ns >= first_look._tuning_look_ns(found):
            is_loaded, tuning_s = True, tuning_s + first_look.FIRST_SEARCH_S
        assert found.product_ns * 1e-9 + tuning_s <= 1.2 * done * default_s * (1 + 1e-6) + 1e-8 * done


@given(
    default_s=st.floats(1e-5, 1e-2), nnz=st.integers(first_look.EARLY_ENTRIES[0], first_look.EARLY_ENTRIES[1] - 1),
    ratio=st.floats(1.05, 5.0),
)  # fmt: skip
def test_a_search_after_a_won_race_leaves_products_ahead(default_s: float, nnz: int, ratio: float) -> None:
    """Check that the total is that of untuned products at most when the modules of a search are due."""
    found, race = make_state(), early.EarlyRace()
    race.spent_s, race.has_candidate, race.is_won, race.ratio = 0.05 + nnz * 1e-8, True, True, ratio
    found.early = race
    found.count(round(first_look.early_look_ns(make_state(), operand_of(nnz))), is_tuned=False)
    due_ns = first_look._tuning_look_ns(found)
    assert due_ns > found.product_ns
    found.count(round(due_ns - found.product_ns), is_tuned=True)
    assert first_look._tuning_look_ns(found) <= found.product_ns * (1 + 1e-9), "the time does not move"
    assert race.saved_s(found.tuned_ns) >= (race.spent_s + first_look.LATER_SEARCH_S) * (1 - 1e-6)


def test_a_loop_races_early_and_the_next_one_of_its_process_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert first_look.early_look_ns(make_state(), operand_of(200_000)) <= 0.25e9
    monkeypatch.setattr(first_look, "_EARLY", early.__name__)
    assert first_look.early_look_ns(make_state(), operand_of(200_000)) <= 0.025e9


def test_rows_delay_a_race_by_what_sorting_and_comparing_them_takes() -> None:
    few, many = (first_look.early_look_ns(make_state(), operand_of(200_000, n)) for n in (1000, 200_000))
    assert many - few == pytest.approx(199_000 * first_look.EARLY_ROW_S / 0.2 * 1e9)


@pytest.mark.parametrize("options", [{"overhead": 0.0}, {"runs": 5}])
def test_no_race_where_options_decide_otherwise(options: dict[str, Any]) -> None:
    assert first_look.early_look_ns(make_state(**options), operand_of(200_000)) == state.FOREVER_NS


def test_no_race_for_small_or_large_or_other_products() -> None:
    found = make_state()
    for nnz in (100, 10**8):
        assert first_look.early_look_ns(found, operand_of(nnz)) == state.FOREVER_NS
    found.transposed = True
    assert first_look.early_look_ns(found, operand_of(200_000)) == state.FOREVER_NS
    found.transposed, found.operation = False, "sddmm"
    assert first_look.early_look_ns(found, operand_of(200_000)) == state.FOREVER_NS


# -- the candidate ---------------------------------------------------------------------------------------------------


def indptr_of(lengths: Any) -> Any:
    return np.concatenate([[0], np.cumsum(lengths)])


def test_the_candidate_follows_from_the_lengths_of_rows() -> None:
    rng = np.random.default_rng(0)
    even, mixed = np.full(4096, 5), rng.integers(2, 12, 4096)
    few_long = np.where(np.arange(4096) % 64 == 0, 110, 3)
    skewed = np.where(rng.random(4096) < 0.01, 3000, 3)
    graph = np.where(rng.random(1 << 15) < 0.01, 300, 3)
    shapes = (even, mixed, few_long, skewed, graph)
    found = [row_padding.slices(indptr_of(one), 8) for one in shapes]
    assert found == [(8, 1), (16, row_padding.WINDOW), (8, row_padding.WINDOW), None, (8, row_padding.WIDE_WINDOW)]
    exact = early.candidate((8, 1), rng.standard_normal(4096), "avx512")
    assert (exact.rows, exact.is_encoded) == (8, False)
    assert early.candidate((8, 1), np.ones(4096), "avx512").is_encoded
    assert not early.candidate((8, 1), np.ones(4096), "avx2").is_encoded, "no permutation reads a table of 16"
    assert not early.candidate((8, 512), np.ones(4096), "avx512").is_encoded


@pytest.mark.parametrize("window", [1, row_padding.WINDOW, row_padding.WIDE_WINDOW])
def test_padding_is_that_of_the_slices(window: int) -> None:
    lengths = np.random.default_rng(1).integers(0, 9, 2 * row_padding.WIDE_WINDOW)
    found = row_padding.padding(indptr_of(lengths), 16, window)
    windows = lengths.reshape(-1, window)
    ordered = np.sort(windows, axis=1)
    cells = sum(16 * int(one.max()) for one in ordered.reshape(-1, 16))
    assert found == pytest.approx(cells / lengths.sum())


# -- real kernels ----------------------------------------------------------------------------------------------------

needs_shipped = pytest.mark.skipif(
    not runtime_api.available or not ISAS[Target.host().isa].is_shipped, reason="no avx2 here"
)


@pytest.fixture
def best_isa() -> Iterator[None]:
    """Use the processor's instruction set, whatever the environment names: the baseline has no shipped kernels."""
    with asp.options(isa=Target.host().isa):
        yield


@needs_shipped
@pytest.mark.usefixtures("best_isa")
@pytest.mark.parametrize("dtype", GENERATED)
@pytest.mark.parametrize("is_faster", [True, False])
def test_products_are_right_during_the_race_and_after_it(dtype, is_faster, monkeypatch):
    race_at_once(monkeypatch)
    monkeypatch.setattr(early, "verdict", verdict_after(3, is_won=is_faster))
    monkeypatch.setattr(early, "CHECK_AFTER", 1e9)
    rng = np.random.default_rng(2)
    m = sps.diags_array(rng.standard_normal((5, 9000)), offsets=(-90, -1, 0, 1, 90), shape=(9000, 9000))
    m, x = sps.csr_array(m, dtype=dtype), rng.standard_normal(9000).astype(dtype)
    if np.iscomplexobj(x):
        m.data, x = m.data * (1 - 2j), x * (2 + 1j)
    A, wanted = asp.csr(m, copy=True), m @ x
    found = state_of(A)
    found.next_look_ns = 0
    for _ in range(20):
        np.testing.assert_allclose(A @ x, wanted, rtol=1e-4, atol=1e-5)
    race: Any = found.early
    assert race.has_candidate
    assert race.is_won is is_faster
    assert (found.serving is not None) is is_faster
    if is_faster:
        assert "shipped kernel" in str(A.explain(x))
        A.data[:] *= 2.0
        np.testing.assert_allclose(A @ x, 2.0 * wanted, rtol=1e-4, atol=1e-5)
        race.forget_threads()
        race.retire(found)
        np.testing.assert_allclose(A @ x, 2.0 * wanted, rtol=1e-4, atol=1e-5)


def test_where_no_kernel_suits_the_race_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    race_at_once(monkeypatch)
    monkeypatch.setattr(early.EarlyRace, "begin", lambda *_: pytest.fail("a race began"))
    lengths = np.where(np.arange(1024) % 100 == 0, 500, 2)
    m = sps.csr_array((np.ones(lengths.sum()), np.concatenate([np.arange(n) for n in lengths]), indptr_of(lengths)))
    A, x = asp.csr(m, copy=True), np.ones(500)
    found = state_of(A)
    found.next_look_ns = 0
    for _ in range(5):
        np.testing.assert_allclose(A @ x, m @ x)
    assert found.early is None
    assert not found.may_race
    assert not found.is_sampled
    assert "too few products" in str(A.explain(x))
    A.tune(effort="off")


@needs_shipped
@pytest.mark.usefixtures("best_isa")
def test_a_search_begins_with_the_winner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a live search neither races the winner again nor packs it twice."""
    race_at_once(monkeypatch)
    monkeypatch.setattr(early, "verdict", verdict_after(3))
    monkeypatch.setattr(early, "CHECK_AFTER", 1e9)
    m = sps.csr_array(sps.diags_array(np.ones((5, 9000)), offsets=(-90, -1, 0, 1, 90), shape=(9000, 9000)))
    m.data[:] = np.random.default_rng(3).standard_normal(m.nnz)
    A, x = asp.csr(m, copy=True), np.ones(9000)
    found = state_of(A)
    found.next_look_ns = 0
    for _ in range(20):
        A @ x
    race: Any = found.early
    n_packed = A._cell.dispatcher.packed_copies.n_bytes
    live_tuner = live_tuner_of(found, A._cell)
    session = live_tuner.session
    assert session is not None
    session.context = context_of(A._cell, found)
    search = candidates.search_for(session.context, effort=found.options.effort, live=True)
    session._begin_with_served(session.context, search)
    assert isinstance(found.recalled, KernelTrial)
    assert search.incumbent.choice == found.recalled.choice
    assert search.tried(search.incumbent.choice)
    assert search.measured_s[search.incumbent.choice] == pytest.approx(race.default_s / race.ratio)
    assert A._cell.dispatcher.packed_copies.n_bytes == n_packed
    assert session._twin(search.incumbent) is not None
    search.incumbent.drop()
