"""Select the fastest of ranked candidates in one go: the race of the planners for GPUs and einsum programs.

`search.Search` does the same in single steps, for kernels on the CPU. Both time by `race.Race`.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from autosparse.tuner.search.race import Race, RaceRule

from autosparse.config import Effort
from autosparse.core.numbers import median
from autosparse.core.plan import Candidate, Plan
from autosparse.core.solver import DEFAULT, Choice
from autosparse.errors import BuildError, PackError

T = TypeVar("T")

BATCH: Final = 4
"""Number of candidates that are prepared and race together; each of them may hold a packed copy of the operand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection(Generic[T]):
    """Result of a selection: the fastest choice, prepared (`bound` None: the default), and all candidates."""

    choice: Choice
    bound: T | None
    default_s: float | None
    candidates: tuple[Candidate, ...]  # times are scaled to the default's; a failed one could not run, or was wrong

    def measured_s(self, choice: Choice) -> float | None:
        """Return the measured seconds of one run by `choice`; None if it was not timed."""
        return next((one.measured_s for one in self.candidates if one.choice == choice), None)

    def plan(self, *, why: str, effort: Effort, tune_s: float = 0.0, refused: Sequence[Candidate] = ()) -> Plan:
        """Return the selection as a plan; `refused` are further candidates, with the reasons why they did not race."""
        best = next(one for one in self.candidates if one.choice == self.choice)
        return Plan(
            choice=self.choice, why=why, effort=effort.value, predicted_s=best.predicted_s, measured_s=best.measured_s,
            default_s=self.default_s, tune_s=tune_s, candidates=(*self.candidates, *refused),
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Selector(Generic[T]):
    """Preparation, check and timing of the candidates of one problem, and the rules of their races."""

    prepare: Callable[[Choice], T]  # raises BuildError or PackError
    measure: Callable[[T | None], float]  # seconds of one run; of the default for None
    difference: Callable[[T], str | None] = lambda bound: None  # why its result is wrong, or None
    handicap: Callable[[Choice], float] = lambda choice: 1.0  # factor on its time when it is compared with others
    rule: RaceRule = RaceRule()  # noqa: RUF009  # a frozen dataclass
    default: Candidate = Candidate(choice=DEFAULT, name="default")  # noqa: RUF009  # a frozen dataclass
    limit_s: float = float("inf")  # seconds of timing after which a race ends

    def select(self, ranked: Iterable[Candidate]) -> Selection[T]:
        """Race the default and the candidates `ranked`, in batches, and return the fastest that beats the default."""
        waiting, found = iter(ranked), list[Candidate]()
        best: tuple[Candidate, T] | None = None
        default_s: float | None = None
        while batch := list(itertools.islice(waiting, BATCH)):
            ready = []
            for one in batch:
                bound, failed = self._prepared(one.choice)
                if bound is None:
                    found.append(replace(one, failed=failed))
                else:
                    ready.append((one, bound))
            entrants = [*(() if best is None else (best,)), *ready]
            if not ready:
                continue
            race = self._race([bound for _, bound in entrants])
            default_s = default_s or (median(race.samples_s[0]) if race.samples_s[0] else None)
            timed = [
                (replace(one, measured_s=race.ratio(at) * (default_s or 0.0)), bound)
                for at, (one, bound) in enumerate(entrants, start=1)
            ]
            found += [one for one, _ in timed[len(entrants) - len(ready) :]]
            factors = [self.handicap(one.choice) for one, _ in timed]
            at = race.winner(factors, has_incumbent=best is not None)
            best = timed[at - 1] if at else None
        default = replace(self.default, measured_s=default_s)
        choice, bound = (self.default.choice, None) if best is None else (best[0].choice, best[1])
        return Selection(choice=choice, bound=bound, default_s=default_s, candidates=(default, *found))

    def _prepared(self, choice: Choice) -> tuple[T | None, str | None]:
        try:
            bound = self.prepare(choice)
        except (BuildError, PackError) as err:
            return None, " ".join(str(err).split())
        wrong = self.difference(bound)
        return (bound, None) if wrong is None else (None, wrong)

    def _race(self, challengers: Sequence[T]) -> Race:
        entrants: list[T | None] = [None, *challengers]
        for one in entrants:
            self.measure(one)  # compiles, and fills the caches
        return run_race(len(entrants), lambda at: self.measure(entrants[at]), rule=self.rule, limit_s=self.limit_s)


def run_race(
    n_entrants: int,
    measure: Callable[[int], float | None],
    *,
    rule: RaceRule | None = None,
    limit_s: float = math.inf,
    clock: Callable[[], float] = time.perf_counter,
) -> Race:
    """Time entrants 0 (the holder) to ``n_entrants - 1`` in rounds by ``measure(entrant)``.

    After `limit_s` seconds the race ends, but not before its first round is complete.
    """
    race = Race(n_entrants, rule or RaceRule())
    end_s = clock() + limit_s
    for turn in race:
        if race.n_rounds and clock() > end_s:
            break
        race.add(turn, measure(turn))
    return race
