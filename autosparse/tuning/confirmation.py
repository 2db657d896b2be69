"""Confirm that a tuned kernel is faster on the user's products: by a race before it computes them, and by later checks.

In a search, candidates write repeatedly to one result. Users write to a new result each time or to `out=`, and timings
drift, so the winner is re-timed against the default kernel before it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Final

from autosparse.core.composite import Composite, Schedule
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import DEFAULT
from autosparse.core.values import dataclass
from autosparse.targets.priors import number
from autosparse.tuner.search.race import LAST_ROUNDS, LAST_TIE, LastRace, Race, RaceRule, last_race
from autosparse.tuner.search.search import CLOSE, MAX_PAIR_BYTES, Search
from autosparse.tuner.search.trial import Pause, Sample, Step, Trial
from autosparse.tuning.trials.context import TuningContext
from autosparse.tuning.trials.served import ServedTrial

FINAL_SHARE: Final = number("confirmation", "share of the final race")
"""Fraction of the budget of a search the user asked for that the final race may take."""
HOPEFUL: Final = number("confirmation", "hopeful")
"""Maximum ratio to the default kernel's time at which a candidate that has won no race enters the final race."""
MAX_CLOSE: Final = 2
"""Maximum number of single-format candidates close to the incumbent that enter the final race."""
RUNS_A_ROUND: Final = 4
"""Products per entrant and round of the final race: two kinds of result, each timed after one warm-up product."""
WATCH_CALLS: Final = 64
"""Products by a tuned kernel before it is compared with the default kernel again; multiplied by 4 each time."""
UNSERVED_CALLS: Final = 1024
"""Products between two checks whether a tuned kernel serves, while the default kernel serves."""
WATCH_WARMUP_S: Final = number("confirmation", "warm-up s")
"""Seconds of products by a kernel before the one that is timed, so that its sleeping threads are awake."""
WATCH_RULE: Final = RaceRule(margin=0.0, min_rounds=8, max_rounds=8, first_cut=99)
"""Rule of a check in service: 8 rounds, no margin, no early elimination."""
WATCH_MARGIN: Final = number("confirmation", "margin")
"""Minimum median ratio to the default kernel's time for which the tuned kernel is dropped."""
HOPELESS: Final = number("confirmation", "hopeless")
"""Ratio to the default kernel's time above which the tuned kernel is dropped without a second race."""
WATCH_MAJORITY: Final = number("confirmation", "majority")
"""Minimum fraction of rounds in which the tuned kernel must be slower to be dropped."""


MAX_REFUSALS: Final = 8
"""Number of consecutive products that a candidate may fail to compute before it leaves the race."""


@dataclass(slots=True)
class CheckedWidth:
    """Width (number of columns) of the products by which a plan in service is checked.

    It changes when products of another width persist.
    """

    width: int = 0
    _n_others: int = 0  # products of other widths since the last one of this width

    def is_sample(self, n_vecs: int) -> bool:
        """Return whether a product of `n_vecs` columns counts for the check; adopt a width that persists."""
        if n_vecs != self.width:
            self._n_others += 1
            if self.width and self._n_others < MAX_REFUSALS:
                return False
            self.width = n_vecs
        self._n_others = 0
        return True


def confirm(context: TuningContext, search: Search, *, limit_s: float, clock: Callable[[], float]) -> None:
    """Race the search's best candidates against the default kernel once more; the winner becomes its incumbent.

    Operands and results lie in memory as in users' programs. The best single formats near the incumbent run too, as
    time allows. A composite must beat them by more than a tie; otherwise the best of them serves. If no candidate won,
    the fastest one runs if it was clearly faster: the end of the budget, or noise, has decided its race in the search.
    """
    incumbent, default_s = search.incumbent, search.default_s
    if default_s is None:
        return
    if incumbent.choice.is_default:
        hopeful = (one for one in search.faster(HOPEFUL * default_s) if one.pack_price_s() <= limit_s)
        search.incumbent = incumbent = next(hopeful, incumbent)
    if incumbent.choice.is_default or incumbent.choice not in search.measured_s:
        return
    start_s = clock()
    incumbents = _entrants(search, limit_s)
    winner = _winner(context, search, incumbents, limit_s=limit_s, clock=clock)
    others = [one for one in search.faster(default_s, SuperSchedule) if one not in incumbents]
    close_s = CLOSE * min(search.measured_s[one.choice] for one in (incumbent, *others))
    singles = [one for one in others if search.measured_s[one.choice] <= close_s]
    for other in singles[:MAX_CLOSE]:
        if winner is not None or clock() - start_s > limit_s:
            break
        other.pack()  # its packed copy had no room before
        winner = _winner(context, search, [other] if other.ready else [], limit_s=limit_s, clock=clock)
    search.incumbent = winner or search.default
    if (in_place := fastest_in_place(search)) is not None:
        in_place.pack()
        in_place = _winner(context, search, [in_place] if in_place.ready else [], limit_s=limit_s, clock=clock)
    search.in_place = in_place


def fastest_in_place(search: Search) -> Trial | None:
    """Return the fastest candidate on the user's arrays that beat the default kernel.

    None if there is none, or if the incumbent itself reads the user's arrays.
    """
    incumbent, limit_s = search.incumbent, (1.0 - search.style.rule.margin) * (search.default_s or 0.0)
    if incumbent.reads_live:
        return None
    return next((one for one in search.faster(limit_s) if isinstance(one.schedule, Schedule) and one.reads_live), None)


def _winner(
    context: TuningContext, search: Search, incumbents: Sequence[Trial], *, limit_s: float, clock: Callable[[], float]
) -> Trial | None:
    """Return the trial that wins a race with the default kernel; None if none does. Drop the others.

    A composite must beat every single format that won.
    """
    ways = [[context.served(one, is_fresh=fresh) for one in (search.default, *incumbents)] for fresh in (True, False)]
    runs = [way for way in ([run for run in way if run is not None] for way in ways) if len(way) > len(incumbents)]
    try:
        races = last_race(runs, clock=clock, limit_s=limit_s)
    except MemoryError:  # no memory for a second result: what could not be raced is not accepted
        races = []
    races = races or [LastRace() for _ in incumbents]
    for one, race in zip(incumbents, races, strict=True):
        # Take the worst ratio: allocating a new result costs both kernels the same time.
        search.measured_s[one.choice] = max(race.ratios, default=1.0) * (search.default_s or 0.0)
    n_composites = sum(isinstance(one.schedule, Composite) for one in incumbents)  # they come first
    won = sorted((at for at, race in enumerate(races) if race.is_won), key=lambda at: races[at].ratio)
    singles = [at for at in won if at >= n_composites]
    able = [at for at in won if at < n_composites and all(races[at].beats(races[other]) for other in singles)]
    at = next(iter(able or singles), None)
    for one in incumbents:
        if at is None or one is not incumbents[at]:
            one.drop()
    return None if at is None else incumbents[at]


def _entrants(search: Search, limit_s: float) -> list[Trial]:
    """Return the entrants of the final race: the incumbent, the best single format beside a composite, close losers.

    A composite that lost narrowly precedes single formats, if there is time for it. Where memory does not hold both
    packed copies, the times of the search decide which of them enters.
    """
    incumbent, incumbent_s = search.incumbent, search.measured_s[search.incumbent.choice]
    singles = [one for one in search.faster(search.default_s or 0.0, SuperSchedule) if one is not incumbent]
    is_composite = isinstance(incumbent.schedule, Composite)
    if not incumbent.ready:  # it was dropped to make room for another candidate when the budget ended
        incumbent.pack()
    n_affordable = int(limit_s / (LAST_ROUNDS[0] * RUNS_A_ROUND * incumbent_s)) - 2
    composites = [one for one in search.faster(CLOSE * incumbent_s, Composite) if one is not incumbent]
    composites = composites[:1] if n_affordable > 0 else []
    n_affordable -= len(composites)
    times_s = [search.measured_s[one.choice] for one in singles]  # the fastest comes first
    n_close = sum(time_s <= CLOSE * min(incumbent_s, times_s[0]) for time_s in times_s)
    n_rivals, incumbents = min(MAX_CLOSE, n_close, n_affordable), [incumbent]
    for rival in (*singles[: max(int(is_composite), n_rivals)], *composites):
        held_bytes, own_bytes = max(one.packed_bytes for one in incumbents), rival.packed_bytes
        if held_bytes and own_bytes and held_bytes + own_bytes > MAX_PAIR_BYTES:
            continue
        rival.pack()
        if rival.ready:
            incumbents.insert(int(is_composite) if rival in composites else len(incumbents), rival)
    if not is_composite or not singles or len(incumbents) > 1:
        return incumbents
    if incumbent_s <= LAST_TIE * search.measured_s[singles[0].choice]:
        return incumbents
    incumbent.drop()
    singles[0].pack()
    return [singles[0] if singles[0].ready else incumbent]


def watch(context: TuningContext, served: Callable[[], ServedTrial | None], *, excess_s: float) -> Generator[
    Step, float | None, ServedTrial
]:  # fmt: skip
    """Compare the kernel that `served` returns with the default kernel repeatedly; return its trial once it loses.

    `excess_s`: expected seconds that the default kernel takes longer. Nothing is compared while the default kernel
    serves. A kernel that lost on isolated products is compared again on consecutive ones: after a pause its threads
    are asleep.
    """
    default, n_calls = context(DEFAULT), WATCH_CALLS
    while True:
        yield Pause(n_calls=n_calls)
        if (trial := served()) is None:
            n_calls = max(n_calls, UNSERVED_CALLS)
            continue
        for warmup_s in (0.0, WATCH_WARMUP_S):
            race = yield from _compared((default, trial), excess_s=excess_s, warmup_s=warmup_s)
            if not _is_lost(race):
                break
            if race.ratio(1) > HOPELESS:
                return trial
        else:
            return trial
        n_calls *= 4


def _compared(entrants: Sequence[Trial], *, excess_s: float, warmup_s: float) -> Generator[Step, float | None, Race]:
    """Yield the samples of a race of the default kernel and the tuned one on the user's products; return the race."""
    race = Race(2, WATCH_RULE)
    for turn in race:
        price_s = 0.0 if turn else max(0.0, excess_s)
        seconds = yield Sample(trial=entrants[turn], price_s=price_s, is_check=True, warmup_s=warmup_s)
        if seconds is None:
            break
        race.add(turn, seconds)
    return race


def _is_lost(race: Race) -> bool:
    """Return whether the tuned kernel was slower than the default kernel, or could not serve."""
    pairs = list(zip(race.samples_s[0], race.samples_s[1], strict=False))
    n_slower = sum(mine > reference for reference, mine in pairs)
    return not pairs or (race.ratio(1) > WATCH_MARGIN and n_slower >= WATCH_MAJORITY * len(pairs))
