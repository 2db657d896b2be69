"""Whether a tuned kernel is faster where it serves: a last race before it does, and a look now and then afterwards.

Candidates race on one result, written again and again. Users write to a new result each time, or name one (`out=`);
values, neighbours and the machine change. So a plan is what the last race left of it (docs/design/tuning-policy.md).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Final

from autosparse.config import Effort
from autosparse.core.composite import Composite
from autosparse.core.plan import Plan
from autosparse.core.schedule import SuperSchedule
from autosparse.tuner.search.outcome import plan_of
from autosparse.tuner.search.race import LAST_ROUNDS, LAST_TIE, LastRace, Race, RaceRule, last_race
from autosparse.tuner.search.search import Search
from autosparse.tuner.search.second_round import CLOSE
from autosparse.tuner.search.trial import Pause, Sample, Step, Trial
from autosparse.tuning.memory.plan_lookup import remember
from autosparse.tuning.trials.context import TuningContext
from autosparse.tuning.trials.kernel_trial import KernelTrial

FINAL_SHARE: Final = 0.15
"""Of the budget of a search that the user asked for: the last race."""
MAX_CLOSE: Final = 2
"""Single formats that lost to the incumbent by little and run in the last race."""
RUNS_A_ROUND: Final = 4
"""Of an entrant of the last race: two ways, each product after one that brings its operands back."""
WATCH_CALLS: Final = 64
"""Products with a tuned kernel before it is compared with the default one again; four times as many each time."""
UNSERVED_CALLS: Final = 1024
"""Products after which it is asked again whether a tuned kernel serves, where the default kernel does."""
WATCH_WARMUP_S: Final = 1e-4
"""Of products by a kernel before the one that is compared: sleeping threads are woken within half of it."""
WATCH_RULE: Final = RaceRule(margin=0.0, min_rounds=8, max_rounds=8, first_cut=99)
WATCH_MARGIN: Final = 1.03
"""An incumbent goes when it was slower than this times the default kernel in the median, and slower in most rounds."""
HOPELESS: Final = 4.0
"""... at once when it was so many times as slow, which no sleeping thread explains."""
WATCH_MAJORITY: Final = 0.75


MAX_REFUSALS: Final = 8
"""A candidate that did not serve so many products in a row leaves the race."""


@dataclass(slots=True)
class CheckedWidth:
    """Number of columns of the products that a plan in service is checked on: one until products have another one."""

    width: int = 0
    _n_others: int = 0  # products of other widths since the last of this one

    def is_sample(self, n_vecs: int) -> bool:
        """Whether a product of so many columns is a sample of the check that goes on."""
        if n_vecs != self.width:
            self._n_others += 1
            if self.width and self._n_others < MAX_REFUSALS:
                return False
            self.width = n_vecs
        self._n_others = 0
        return True


def confirmed(
    context: TuningContext, search: Search, found: Plan, *, limit_s: float, clock: Callable[[], float]
) -> Plan:
    """What is left of a measured plan after a race on memory as users have it; the search's incumbent is who won.

    The best single formats beside the incumbent run as well, as many as there is time for: who wins a race on one
    result
    need not win here. A composite must beat them by more than a tie; the best of them serves where it does not win.
    """
    incumbent, default_s = search.incumbent, search.default_s
    if incumbent.schedule is None or id(incumbent) not in search.measured_s or default_s is None:
        return found
    start_s = clock()
    incumbents = _incumbents(search, limit_s)
    winner = _winner(context, search, incumbents, limit_s=limit_s, clock=clock)
    for other in _close(search, [one for one in _singles(search) if one not in incumbents])[:MAX_CLOSE]:
        if winner is not None or clock() - start_s > limit_s:
            break
        other.pack()  # there was no room for it before
        winner = _winner(context, search, [other] if other.ready else [], limit_s=limit_s, clock=clock)
    search.incumbent = winner or search.default
    search.in_place = _confirmed_in_place(context, search, limit_s=limit_s, clock=clock)
    return planned(search, tune_s=found.tune_s + clock() - start_s)


def fastest_in_place(search: Search) -> KernelTrial | None:
    """The fastest candidate on the user's arrays that beat the default kernel; None where the incumbent is one."""
    incumbent, limit_s = search.incumbent, (1.0 - search.style.rule.margin) * (search.default_s or 0.0)
    if incumbent.schedule is None or _reads_live(incumbent):
        return None
    able = [one for one in search.trials if isinstance(one, KernelTrial) and one.reads_live and one.failed is None]
    able = [one for one in able if search.measured_s.get(id(one), math.inf) <= limit_s]
    return min(able, key=lambda one: search.measured_s[id(one)], default=None)


def _reads_live(trial: Trial) -> bool:
    return isinstance(trial, KernelTrial) and trial.reads_live


def planned(search: Search, *, tune_s: float) -> Plan:
    """The plan of a search that is over, with its kernel on the user's arrays."""
    in_place = search.in_place
    found = plan_of(search, tune_s=tune_s)
    if in_place is None:
        return found
    return dataclasses.replace(found, in_place=in_place.schedule, in_place_s=search.measured_s.get(id(in_place)))


def _confirmed_in_place(
    context: TuningContext, search: Search, *, limit_s: float, clock: Callable[[], float]
) -> Trial | None:
    """The fastest kernel that reads the user's arrays, where it wins a last race; None where the incumbent does so."""
    trial = fastest_in_place(search)
    if trial is None:
        return None
    trial.pack()
    return _winner(context, search, [trial] if trial.ready else [], limit_s=limit_s, clock=clock)


def _winner(
    context: TuningContext, search: Search, incumbents: Sequence[Trial], *, limit_s: float, clock: Callable[[], float]
) -> Trial | None:
    """Which of these serves, by a race with the default kernel; None: none. The others are dropped."""
    ways = [[context.served(one, is_fresh=fresh) for one in (search.default, *incumbents)] for fresh in (True, False)]
    runs = [way for way in ([run for run in way if run is not None] for way in ways) if len(way) > len(incumbents)]
    try:
        races = last_race(runs, clock=clock, limit_s=limit_s)
    except MemoryError:  # a second result beside the first: what could not be raced is not believed
        races = []
    races = races or [LastRace(()) for _ in incumbents]
    for one, race in zip(incumbents, races, strict=True):
        # What every way keeps: a result that is made anew costs both kernels the same time.
        search.measured_s[id(one)] = max(race.ratios, default=1.0) * (search.default_s or 0.0)
    at = winner_of(races, n_composites=sum(isinstance(one.schedule, Composite) for one in incumbents))
    for one in incumbents:
        if at is None or one is not incumbents[at]:
            one.drop()
    return None if at is None else incumbents[at]


def winner_of(races: Sequence[LastRace], *, n_composites: int) -> int | None:
    """Which incumbent serves; None: the default kernel. First come composites, which must beat singles that won."""
    won = sorted((at for at, race in enumerate(races) if race.is_won), key=lambda at: races[at].ratio)
    singles = [at for at in won if at >= n_composites]
    able = [at for at in won if at < n_composites and all(races[at].beats(races[other]) for other in singles)]
    return next(iter(able or singles), None)


def _incumbents(search: Search, limit_s: float) -> list[Trial]:
    """The incumbent; behind a composite the best single format that beats the default kernel; then close losers.

    Before single formats a composite that lost to the incumbent by little, where there is time for one more. Where
    there
    is no room for both packed copies, the races of the search decide which of them it is.
    """
    incumbent = search.incumbent
    singles = [one for one in _singles(search) if one is not incumbent]
    is_composite = isinstance(incumbent.schedule, Composite)
    if not incumbent.ready:  # it had made room for a challenger when the budget ended
        incumbent.pack()
    title_s = search.measured_s[id(incumbent)]
    n_affordable = int(limit_s / (LAST_ROUNDS[0] * RUNS_A_ROUND * title_s)) - 2
    composite = _close_composite(search) if n_affordable > 0 else None
    n_affordable -= composite is not None
    n_rivals, incumbents = min(MAX_CLOSE, len(_close(search, singles)), n_affordable), [incumbent]
    for rival in singles[: max(int(is_composite), n_rivals)]:
        rival.pack()
        if rival.ready:
            incumbents.append(rival)
    if composite is not None:
        composite.pack()
        if composite.ready:
            return [*incumbents[:1], composite, *incumbents[1:]] if is_composite else [composite, *incumbents]
    if not is_composite or not singles or len(incumbents) > 1:
        return incumbents
    if title_s <= LAST_TIE * search.measured_s[id(singles[0])]:
        return incumbents
    incumbent.drop()
    singles[0].pack()
    return [singles[0] if singles[0].ready else incumbent]


def _close_composite(search: Search) -> Trial | None:
    """The fastest composite that lost to the incumbent by little: both race as products are run."""
    limit_s = CLOSE * search.measured_s[id(search.incumbent)]
    others = [one for one in search.trials if one is not search.incumbent and one.failed is None]
    able = [one for one in others if isinstance(one.schedule, Composite)]
    able = [one for one in able if search.measured_s.get(id(one), math.inf) <= limit_s]
    return min(able, key=lambda one: search.measured_s[id(one)], default=None)


def _close(search: Search, singles: Sequence[Trial]) -> list[Trial]:
    """Those of `singles` that are close to the best single format and the incumbent."""
    title_s = min((search.measured_s[id(one)] for one in (search.incumbent, *singles)), default=0.0)
    return [one for one in singles if search.measured_s[id(one)] <= CLOSE * title_s]


def _singles(search: Search) -> list[Trial]:
    """Single formats that raced and were faster than the default kernel, fastest first."""
    times_s = {
        id(one): search.measured_s[id(one)]
        for one in search.trials
        if isinstance(one.schedule, SuperSchedule) and one.failed is None and id(one) in search.measured_s
    }
    able = [one for one in search.trials if times_s.get(id(one), math.inf) < (search.default_s or 0.0)]
    return sorted(able, key=lambda one: times_s[id(one)])


def watch(context: TuningContext, served: Callable[[], KernelTrial | None], *, excess_s: float) -> Generator[
    Step, float | None, KernelTrial
]:  # fmt: skip
    """Compare what `served` gives with the default kernel, which takes `excess_s` longer, until it has lost; who lost.

    Where the default kernel serves, there is nothing to compare. A kernel that lost by single products is compared once
    more, by products that follow each other: a short product that comes alone finds threads asleep and is not shared.
    """
    default, n_calls = context(None), WATCH_CALLS
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


def _compared(
    entrants: Sequence[KernelTrial], *, excess_s: float, warmup_s: float
) -> Generator[Step, float | None, Race]:
    """A race of the default kernel and the incumbent on the user's products."""
    race = Race(2, WATCH_RULE)
    while (turn := race.next_entrant()) is not None:
        price_s = 0.0 if turn else max(0.0, excess_s)
        sample = Sample(trial=entrants[turn], price_s=price_s, is_check=True, warmup_s=warmup_s)
        # The first brings back into the caches what the other kernel does not read.
        if (yield sample) is None or (seconds := (yield sample)) is None:
            break
        race.add(seconds)
    return race


def _is_lost(race: Race) -> bool:
    """Whether the incumbent was slower than the default kernel, or could not serve."""
    pairs = list(zip(*race.samples_s, strict=False))
    n_slower = sum(mine > reference for reference, mine in pairs)
    return not pairs or (race.ratio(1) > WATCH_MARGIN and n_slower >= WATCH_MAJORITY * len(pairs))


def given_up(context: TuningContext, plan: Plan) -> Plan:
    """The default kernel instead of `plan`, also for who remembers that."""
    why = "the tuned kernel stopped being faster than the default one, or could not serve products any more"
    instead = dataclasses.replace(plan, schedule=None, why=why)
    if plan.effort != Effort.OFF.value and not context.is_stale:
        remember(context, instead)
    return instead
