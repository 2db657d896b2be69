"""Noise-resistant timing: entrants run interleaved in rounds and are compared round by round.

Every round times each remaining entrant once, so that slow drift (frequency, other processes, page cache) affects all
of them alike. Entrants are compared by the median of the *ratios* to the holder of the same round. A winner must beat
the holder by a margin and in three of four rounds. On a busy machine the ratios scatter, no challenger wins, and the
default kernel stays.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from autosparse.core.numbers import median
from autosparse.core.values import dataclass, field
from autosparse.targets.priors import number

MIN_SAMPLE_S: Final = number("race", "minimum sample s")  # shorter samples are repeated, as the clock dominates them


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceRule:
    """Rules for when entrants leave a race and when it ends; counts are rounds."""

    margin: float = number("race", "margin")  # minimum relative gain of a challenger over the holder
    min_rounds: int = 7
    max_rounds: int = 21
    first_cut: int = 3  # first round after which slow entrants leave
    cut: float = number("race", "first cut")  # ratio to the best above which entrants leave first
    final_cut: float = number("race", "final cut")  # value that `cut` tightens to by `min_rounds`
    majority: float = number("race", "majority")  # share of the rounds that a winner must win
    cut_short: int = 0
    """Rounds of an interrupted race after which a challenger that won all of them counts as winner; 0: never."""


@dataclass(slots=True)
class Race:
    """Interleaved comparison of entrant 0 (holder) with others: ``for turn in race: race.add(turn, seconds)``."""

    n_entrants: int
    rule: RaceRule = field(default_factory=RaceRule)
    n_kept: int = 1  # number of first entrants that never leave early: the holder, and an incumbent that won before
    samples_s: defaultdict[int, list[float]] = field(init=False, default_factory=partial(defaultdict, list))
    gone: set[int] = field(init=False, default_factory=set)  # challengers that failed or fell behind
    n_rounds: int = field(init=False, default=0)
    is_over: bool = field(init=False, default=False)

    def __iter__(self) -> Iterator[int]:
        """Yield the entrant to time next; its seconds must be added before the next one is taken.

        The order is reversed in odd rounds, to vary who follows whom. Every planner times its candidates in this
        order: `selection.run_race` in a row, `search.Search` between a user's products. After a round, entrants that
        fell behind leave (successive halving), and the race ends if it is decided.
        """
        rule = self.rule
        while self.n_entrants - len(self.gone) > 1 and not self.is_over:
            order = [at for at in range(self.n_entrants) if at not in self.gone]
            for turn in order if self.n_rounds % 2 == 0 else order[::-1]:
                if turn not in self.gone:
                    yield turn
                if self.is_over or len(self.gone) == self.n_entrants - 1:
                    return
            self.n_rounds += 1
            share = (self.n_rounds - rule.first_cut) / max(1, rule.min_rounds - rule.first_cut)
            limit = math.inf if share < 0 else rule.cut + (rule.final_cut - rule.cut) * min(1.0, share)
            # The minimum of few samples is used, not their median: of two samples an outlier moves the median.
            fastest = {at: min(self.samples_s[at]) for at in order if at not in self.gone}
            best_s = min(fastest.values())
            self.gone |= {at for at, time_s in fastest.items() if at >= self.n_kept and time_s > limit * best_s}
            # The race ends early only when the last challenger clearly won every round. Testing a weaker criterion
            # repeatedly would select a lucky challenger (7 of 7 by chance: 1 in 128).
            left = [at for at in order[1:] if at not in self.gone]
            is_last = self.n_rounds >= rule.min_rounds and len(left) == 1
            is_clear = is_last and self.ratio(left[0]) <= 1.0 - 2.0 * rule.margin
            pairs = zip(self.samples_s[left[0]], self.samples_s[0], strict=False) if is_clear else ()
            is_decided = is_clear and all(own_s < holder for own_s, holder in pairs)
            self.is_over = is_decided or self.n_rounds >= rule.max_rounds

    def add(self, turn: int, seconds: float | None) -> None:
        """Add the seconds of an entrant; None disqualifies one that failed, and ends the race if it was the holder."""
        if seconds is not None:
            self.samples_s[turn].append(max(seconds, 1e-9))
        elif turn == 0:
            self.is_over = True
        else:
            self.gone.add(turn)

    def ratio(self, entrant: int, holder: int = 0) -> float:
        """Return the median over rounds of (time of `entrant`) / (time of `holder`); below 1: faster."""
        pairs = list(zip(self.samples_s[entrant], self.samples_s[holder], strict=False))
        return median(own_s / other_s for own_s, other_s in pairs) if pairs else 1.0

    def winner(self, factors: Sequence[float] = (), *, has_incumbent: bool = False, holder: int = 0) -> int:
        """Return the fastest entrant that beats `holder` by the margin and in enough rounds, or `holder`.

        `factors`, one for each challenger, multiply their times when they are compared with each other. An incumbent,
        entrant 1, competes with the winners if it is faster than entrant 0.
        """
        rule, won = self.rule, [1] if has_incumbent and self.ratio(1) < 1.0 else []
        for at in (at for at in range(1, self.n_entrants) if at not in self.gone and at != holder):
            pairs = list(zip(self.samples_s[at], self.samples_s[holder], strict=False))
            n_won = sum(own_s < other_s for own_s, other_s in pairs)
            is_early = 0 < rule.cut_short <= len(pairs) == n_won
            is_whole = len(pairs) >= min(rule.min_rounds, rule.max_rounds) and n_won >= rule.majority * len(pairs)
            if (is_early or is_whole) and self.ratio(at, holder) <= 1.0 - rule.margin:
                won.append(at)
        return min(won, key=lambda at: self.ratio(at) * (factors[at - 1] if factors else 1.0), default=holder)


LAST_ROUNDS: Final = (5, 11)  # minimum and maximum rounds of the last race
MIN_ROUNDS: Final = 3  # minimum rounds when the usual minimum would exceed twice the time limit
LAST_WORST: Final = 1.0
"""Maximum ratio to the default kernel in every variant of result allocation; above it the incumbent is rejected."""
LAST_MEAN: Final = number("race", "last mean")  # maximum geometric mean of the ratios
LAST_MAJORITY: Final = 2 / 3
"""Minimum share of faster samples; medians of few rounds scatter on a busy machine."""
LAST_TIE: Final = number("race", "last tie")
"""Maximum mean ratio of a composite to the best single format for a win; above it the race is a tie."""


@dataclass(frozen=True, slots=True)
class LastRace:
    """Median ratios of an incumbent's times to the default kernel's, one for each way of running a product."""

    ratios: tuple[float, ...] = ()
    ratio: float = 1.0  # geometric mean of the ratios; below 1, the incumbent is faster than the default kernel
    won: float = 0.0  # share of the samples, of all ways and rounds, in which the incumbent was faster
    is_won: bool = False  # the incumbent beat the default kernel, so that it is kept

    def beats(self, other: LastRace) -> bool:
        """Return whether the incumbent is nowhere slower than that of `other`, and faster in the mean beyond a tie."""
        pairs = list(zip(self.ratios, other.ratios, strict=True))
        return all(own <= LAST_WORST * rival for own, rival in pairs) and self.ratio <= LAST_TIE * other.ratio


def last_race(
    ways: Sequence[Sequence[Callable[[int], object]]], *, clock: Callable[[], float], limit_s: float
) -> list[LastRace]:
    """Race the default kernel and incumbents, interleaved, in each way of running a product.

    Each function gets the round number, on which its operands may depend. Returns one result per incumbent, in order.
    After `limit_s` seconds the race ends at the minimum rounds, after twice that at MIN_ROUNDS.
    """
    ratios: list[list[list[float]]] = [[[] for _ in way[1:]] for way in ways]
    start_s, (fewest, most) = clock(), LAST_ROUNDS
    for turn in range(most):
        for way, found in zip(ways, ratios, strict=True):
            each_s = [0.0] * len(way)
            for at in range(len(way))[:: 1 if turn % 2 == 0 else -1]:
                run = partial(way[at], turn)
                run()  # users run one kernel repeatedly, which then finds its own data in the caches
                each_s[at] = timed_s(run, clock=clock)
            for own, mine_s in zip(found, each_s[1:], strict=True):
                own.append(mine_s / max(each_s[0], 1e-9))
        taken_s, n_rounds = clock() - start_s, turn + 1
        if (n_rounds >= fewest and taken_s > limit_s) or (n_rounds >= MIN_ROUNDS and taken_s > 2 * limit_s):
            break
    races: list[LastRace] = []
    for each in zip(*ratios, strict=True):  # the ratios of one incumbent, by way and round
        # A disturbance decides one sample, not a round of all ways: on a busy machine few rounds are undisturbed.
        medians, samples = tuple(map(median, each)), list(itertools.chain(*each))
        mean = math.exp(math.fsum(map(math.log, medians)) / len(medians))
        won = sum(one < 1 for one in samples) / len(samples)
        is_won = max(medians) <= LAST_WORST and won >= LAST_MAJORITY and mean <= LAST_MEAN
        races.append(LastRace(medians, mean, won, is_won))
    return races


DISTURBED: Final = number("race", "disturbed")
"""Factor over the shortest run above which a run counts as disturbed, because a thread was descheduled."""


def timed_s(run: Callable[[], object], *, clock: Callable[[], float], usual_s: float = math.inf) -> float:
    """Return the seconds of one `run`, warmed up, and repeated if it is shorter than MIN_SAMPLE_S.

    The warm-up brings the operands back into the caches, which the previous entrant filled with its own. A long run
    needs no warm-up and counts at once, unless it is disturbed relative to `usual_s`, the shortest run so far.
    """
    start = clock()
    run()
    first_s = clock() - start
    if first_s >= 10 * MIN_SAMPLE_S and first_s < DISTURBED * usual_s:
        return first_s
    n_runs = max(1, min(100, int(MIN_SAMPLE_S / max(min(first_s, usual_s), 1e-7))))
    start = clock()
    for _ in range(n_runs):
        run()
    return (clock() - start) / n_runs
