"""Whether a tuned kernel is faster where it serves: a last race before it does, and a look now and then afterwards.

Candidates race on one result, written again and again. Users write to a new result each time, or name one (`out=`);
values, neighbours and the machine change. So a plan is what the last race left of it (ADR 33).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Final

from autosparse.config import Effort
from autosparse.core.composite import Composite
from autosparse.core.plan import Plan
from autosparse.core.schedule import SuperSchedule
from autosparse.tuner.search.outcome import plan_of
from autosparse.tuner.search.race import LAST_TIE, LastRace, Race, RaceRule, last_race
from autosparse.tuner.search.search import Search
from autosparse.tuner.search.trial import Pause, Sample, Steps, Trial
from autosparse.tuning.memory.plan_lookup import remember
from autosparse.tuning.trials.kernel_trial import KernelTrial
from autosparse.tuning.trials.lab import KernelLab

FINAL_SHARE: Final = 0.15
"""Of the budget of a search that the user asked for: the last race."""
WATCH_CALLS: Final = 64
"""Products with a tuned kernel before it is compared with the default one again; four times as many each time."""
WATCH_RULE: Final = RaceRule(margin=0.0, min_rounds=8, max_rounds=8, first_cut=99)
WATCH_MARGIN: Final = 1.03
"""A champion goes when it was slower than this times the default kernel in the median, and slower in most rounds."""
WATCH_MAJORITY: Final = 0.75


def confirmed(lab: KernelLab, search: Search, found: Plan, *, limit_s: float, clock: Callable[[], float]) -> Plan:
    """What is left of a measured plan after a race on memory as users have it; the search's champion is who won.

    A composite has the best single format for a rival: it must beat it by more than a tie, and the rival serves where
    the composite does not win.
    """
    champion, default_s = search.champion, search.default_s
    if champion.schedule is None or id(champion) not in search.measured_s or default_s is None:
        return found
    start_s = clock()
    champions = _champions(search)
    ways = [[lab.served(one, is_fresh=fresh) for one in (search.default, *champions)] for fresh in (True, False)]
    runs = [way for way in ([run for run in way if run is not None] for way in ways) if len(way) > len(champions)]
    try:
        races = last_race(runs, clock=clock, limit_s=limit_s)
    except MemoryError:  # a second result beside the first: what could not be raced is not believed
        races = []
    races = races or [LastRace(()) for _ in champions]
    for one, race in zip(champions, races, strict=True):
        search.measured_s[id(one)] = race.ratio * default_s
    at = winner_of(races)
    search.champion = search.default if at is None else champions[at]
    for one in champions:
        if one is not search.champion:
            one.drop()
    return plan_of(search, tune_s=found.tune_s + clock() - start_s)


def winner_of(races: Sequence[LastRace]) -> int | None:
    """Which champion serves: the first where it won and beats those after it that won; None: the default kernel."""
    for at, race in enumerate(races):
        if race.is_won and all(race.beats(other) for other in races[at + 1 :] if other.is_won):
            return at
    return None


def _champions(search: Search) -> list[Trial]:
    """The champion, and behind a composite the best single format that is faster than the default kernel.

    Where there is no room for both packed copies, their races of the search decide which of them it is.
    """
    champion, rival = search.champion, _best_single(search)
    if not champion.ready:  # it had made room for a challenger when the budget ended
        champion.pack()
    if rival is None or not isinstance(champion.schedule, Composite):
        return [champion]
    rival.pack()
    if rival.ready:
        return [champion, rival]
    if search.measured_s[id(champion)] <= LAST_TIE * search.measured_s[id(rival)]:
        return [champion]
    champion.drop()
    rival.pack()
    return [rival if rival.ready else champion]


def _best_single(search: Search) -> Trial | None:
    """The fastest of the single formats that raced and were faster than the default kernel."""
    times_s = {
        id(one): search.measured_s[id(one)]
        for one in search.trials
        if isinstance(one.schedule, SuperSchedule) and one.failed is None and id(one) in search.measured_s
    }
    able = [one for one in search.trials if times_s.get(id(one), math.inf) < (search.default_s or 0.0)]
    return min(able, key=lambda one: times_s[id(one)], default=None)


def watch(lab: KernelLab, champion: KernelTrial, *, excess_s: float) -> Steps:
    """Compare `champion` with the default kernel, which takes `excess_s` longer, now and then until it has lost."""
    entrants, n_calls = (lab(None), champion), WATCH_CALLS
    while True:
        yield Pause(n_calls=n_calls)
        race = Race(2, WATCH_RULE)
        while (turn := race.next_entrant()) is not None:
            sample = Sample(trial=entrants[turn], price_s=0.0 if turn else max(0.0, excess_s), is_check=True)
            # The first brings back into the caches what the other kernel does not read.
            if (yield sample) is None or (seconds := (yield sample)) is None:
                break
            race.add(seconds)
        if _is_lost(race):
            return
        n_calls *= 4


def _is_lost(race: Race) -> bool:
    """Whether the champion was slower than the default kernel, or could not serve."""
    pairs = list(zip(*race.samples_s, strict=False))
    n_slower = sum(mine > reference for reference, mine in pairs)
    return not pairs or (race.ratio(1) > WATCH_MARGIN and n_slower >= WATCH_MAJORITY * len(pairs))


def given_up(lab: KernelLab, plan: Plan) -> Plan:
    """The default kernel instead of `plan`, also for who remembers that."""
    why = "the tuned kernel stopped being faster than the default one, or could not serve products any more"
    instead = dataclasses.replace(plan, schedule=None, why=why)
    if plan.effort != Effort.OFF.value and not lab.is_stale:
        remember(lab, instead)
    return instead
