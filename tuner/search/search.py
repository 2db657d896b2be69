"""Search from candidates to a winner, as a sequence of steps that run in a row or spread over many products.

`Search.steps` is a generator of `Work` (rank, build, pack) and `Sample` (time one product with one kernel), which
`loop.StepLoop` performs. Steps run in a row within a budget, or one at a time after the user's own products, which
serve as the samples. The search itself reads no clock.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from autosparse.tuner.analytic.matmul import CostModel, Proposer
from autosparse.tuner.analytic.residuals import next_best
from autosparse.tuner.search.candidates import Queue
from autosparse.tuner.search.cost_estimates import CostEstimates
from autosparse.tuner.search.earlier import Earlier
from autosparse.tuner.search.race import Race
from autosparse.tuner.search.style import BLOCKING, LIVE, SearchStyle, acceptance_ratio, is_accepted
from autosparse.tuner.search.trial import Sample, Steps, Trial, Work
from autosparse.tuner.space import spaces
from autosparse.tuner.space.neighbours import neighbours
from autosparse.tuner.space.template import Supports

from autosparse.config import Effort
from autosparse.core.composite import Schedule
from autosparse.core.numbers import median
from autosparse.core.plan import Candidate
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import Choice, choice_of
from autosparse.core.values import dataclass, field
from autosparse.targets.priors import number

__all__ = ["BLOCKING", "LIVE", "Search", "SearchStyle"]

CLOSE: Final = number("candidates", "close")
"""Maximum time of a candidate, as a multiple of the incumbent's, for which the race is repeated."""
N_BESIDE_LEARNED: Final = 4
"""Number of the analytic model's best candidates measured besides a learned model's; the two err differently."""
MAX_TRIED: Final = 2
"""Maximum number of candidates tried per candidate to measure, for formats that cannot hold the operand."""
MAX_REFUSED: Final = 4
"""Number of formats that may fail to hold the operand before an estimate keeps the default kernel."""
UNKNOWN_EXCESS: Final = 0.5
"""Expected excess time of an unmeasured candidate, relative to the best known kernel."""
MAX_PAIR_BYTES: Final = 16 << 20
"""Maximum bytes of two packed copies that exist at once; for larger ones a candidate takes the incumbent's memory."""


@dataclass(slots=True, kw_only=True)
class Search:
    """Search for the fastest schedule of `problem`; `default` is the trial of the default kernel, in every race."""

    problem: Problem
    effort: Effort
    make_trial: Callable[[Choice], Trial]  # builds nothing yet
    model: Callable[[], CostModel]  # called inside the step "rank", since collecting statistics takes time
    supports: Supports
    cost_estimates: CostEstimates
    style: SearchStyle = BLOCKING
    start: SuperSchedule | None = None  # schedule of a record with less effort, tried first
    earlier: Earlier = field(default_factory=Earlier)  # measurements of unfinished searches; `start` was their best
    propose: Proposer | None = None  # learned model, where there is one
    build_all: Callable[[Sequence[Trial]], None] | None = None  # compiles several kernels at once
    is_built: Callable[[Schedule], bool] | None = None  # returns whether a kernel needs no compilation
    can_make: Callable[[Schedule], bool] = lambda _: True  # false: a kernel needs a compiler, and there is none
    untrusted_reason: Callable[[bool], str | None] = lambda _: None  # why no prediction is accepted unmeasured
    is_foreign: Callable[[], bool] = lambda: False  # returns whether the learned model was trained on other processors
    always: Sequence[Schedule] = ()  # schedules that race first regardless of predictions and need no compilation
    others: Sequence[Choice] = ()  # choices of solvers without schedules, which race after `always`
    refused: Sequence[Candidate] = ()  # solvers that cannot compute the problem, with the reasons
    shipped: Sequence[SuperSchedule] = ()  # precompiled schedules to try where values are dictionary-encoded
    first_price_s: float = 0.0  # expected cost of packing a first candidate whose kernel is available
    default: Trial  # the default kernel's, in every race
    incumbent: Trial  # fastest so far; at first the default kernel's
    in_place: Trial | None = field(init=False, default=None)  # fallback that reads the user's arrays
    trials: list[Trial] = field(init=False, default_factory=list)
    measured_s: dict[Choice, float] = field(init=False, default_factory=dict)  # times, scaled to default_s
    n_samples: dict[Choice, int] = field(init=False, default_factory=dict)  # numbers of timed products
    default_s: float | None = None
    finished: bool = field(init=False, default=False)
    untrusted: str | None = field(init=False, default=None)  # reason why an estimate kept the default kernel
    queue: Queue = field(init=False, default_factory=Queue)
    _entered: set[Choice] = field(init=False, default_factory=set)  # choices of `trials`
    _settled: set[Choice] = field(init=False, default_factory=set)  # measured by earlier processes; they need no race
    _unbuilt: list[Trial] = field(init=False, default_factory=list)  # candidates added since the last build

    # -- the steps ----------------------------------------------------------------------------------------------

    def steps(self) -> Steps:
        """Yield all steps of the search, cheapest and most promising first; it may be closed at any yield."""
        price_s = self.cost_estimates.price_s("rank")
        yield Work(
            kind="rank", price_s=price_s, units=1, path_price_s=price_s + self.first_price_s, in_advance=True,
            do=lambda: self.queue.rank(self.problem, self.model(), self.supports, start=self.start),
        )  # fmt: skip
        ask, is_late = None, self.style.asks_late
        if (propose := self.propose) is not None:  # it is skipped where it is too expensive
            path_s = propose.price_s + (self.first_price_s if is_late else 0.0)  # until a product can benefit
            ask = Work(
                kind="features", price_s=propose.price_s, path_price_s=path_s, is_optional=True,
                do=lambda: self.queue.take_proposals(propose()),
            )  # fmt: skip
        if ask is not None and not is_late:
            yield ask
        if self.is_built is not None:
            hopeless = self._acceptable() if self.effort is Effort.ESTIMATE else self.style.hopeless
            self.queue.prefer_built(self.is_built, hopeless=hopeless, n=self.style.n_built, beside=self.shipped)
        if self.effort is Effort.ESTIMATE:
            yield from self._take_estimate()
        else:
            if self.earlier.ratios:
                yield from self._continue_earlier()
            alone = [self._groups([choice]) for choice in (*map(choice_of, self.always), *self.others)]
            for batch in itertools.chain(*alone, self._batches()):
                yield from self._run_batch(batch)
            if ask is not None and is_late:  # once products paid for it
                yield ask
                yield from self._second_opinion()
            if not self.incumbent.ready:
                yield from self._come_back([])
        self.finished = True

    def _continue_earlier(self) -> Steps:
        """Race the best candidate of an unfinished search again; what was measured then needs no race if it wins."""
        if self.start is not None:
            if self.incumbent.choice == choice_of(self.start):  # it serves already
                yield from self._race([])
            for batch in self._groups([choice_of(self.start)]):
                yield from self._run_batch(batch)
        if self.start is None or self.incumbent is not self.default:
            self._settled = {one for one in self.earlier.ratios if self.earlier.is_measured(one, self.style.rule)}

    def _second_opinion(self) -> Steps:
        """Race the learned model's proposals that are expected to beat the incumbent."""
        reached = self.measured_s.get(self.incumbent.choice, self.default_s or 0.0) / (self.default_s or 1.0)
        limit, ratios = min(reached, self.style.hopeless), self.queue.ratios
        better = [one for one in self.queue.schedules if one in self.queue.proposed and ratios.get(one, 1.0) < limit]
        for batch in self._groups(map(choice_of, better), self.style.n_late):
            yield from self._run_batch(batch)

    def _take_estimate(self) -> Steps:
        """Choose the best predicted schedule that fits, unmeasured, if predictions are accepted for the problem."""
        self.untrusted = self.untrusted_reason(bool(self.queue.proposed))
        if self.untrusted is not None:
            return
        for schedule in filter(self._is_accepted, self.queue.schedules):
            refused = {trial.schedule.format for trial in self.trials if isinstance(trial.schedule, SuperSchedule)}
            if len(refused) == MAX_REFUSED:
                return
            if schedule.format in refused:
                continue
            trial = self.make_trial(choice_of(self.queue.for_any_threads(schedule)))
            self.trials.append(trial)
            self._entered.add(trial.choice)
            self._unbuilt = [trial]
            yield from self._prepare([trial])
            if trial.ready:
                self.incumbent = trial
                return

    def _acceptable(self) -> float:
        """Return the largest predicted ratio at which a schedule is accepted unmeasured."""
        return acceptance_ratio(self.problem, is_learned=bool(self.queue.proposed), is_foreign=self.is_foreign())

    def _is_accepted(self, schedule: SuperSchedule) -> bool:
        """Return whether `schedule` may be used unmeasured; after a learned model ran, only its proposals may."""
        ratio, is_learned = self.queue.ratios.get(schedule, 1.0), bool(self.queue.proposed)
        is_open = (not is_learned or schedule in self.queue.proposed) and self.can_make(schedule)
        return is_open and is_accepted(schedule, ratio, most=self._acceptable(), is_learned=is_learned)

    def _batches(self) -> Iterator[list[Trial]]:
        """Yield batches: best predictions, corrected ones, the incumbent's neighbours, close losers, or (full) all."""
        ratios, hopeless = self.queue.ratios, self.style.hopeless  # a schedule from a record is always worth measuring
        kept = self.start, *self.queue.preferred
        hopeful = [one for one in self.queue.schedules if one in kept or ratios.get(one, 1.0) <= hopeless]
        n_taken = self.style.n_candidates
        if self.style.takes_all_proposals:
            n_taken = max(n_taken, len(self.queue.proposed) + N_BESIDE_LEARNED)
        waiting = itertools.islice((one for one in hopeful if not self.tried(choice_of(one))), MAX_TRIED * n_taken)
        at, n_taken = len(self.trials), n_taken - sum(choice_of(one) in self._settled for one in hopeful)
        # Each pass replaces candidates that failed: formats that did not hold the operand, kernels that were not made.
        while fresh := list(itertools.islice(waiting, max(0, n_taken - sum(not it.failed for it in self.trials[at:])))):
            yield from self._groups(map(choice_of, fresh))
        corrected = self._corrected()
        yield from self._groups(map(choice_of, corrected))
        # Neighbours differ from the winner in axes that models predict worst: partition, unrolling, prefetching.
        nearest = neighbours(self.problem, self.incumbent.schedule, self.supports)
        yield from self._groups(map(choice_of, nearest), self.style.n_neighbours - len(corrected))
        incumbent_s = self.measured_s.get(self.incumbent.choice, self.default_s or 0.0)
        close = [one for one in self.faster(CLOSE * incumbent_s) if one is not self.incumbent]
        yield from ([one] for one in close[: self.style.n_reraces])
        if self.effort is not Effort.FULL:
            return
        rest = itertools.chain(self.queue.schedules, spaces.everything(self.problem, self.supports))
        while True:
            around = neighbours(self.problem, self.incumbent.schedule, self.supports)
            fresh = [one for one in around if not self.tried(choice_of(one))]
            fresh += list(itertools.islice((one for one in rest if not self.tried(choice_of(one))), self.style.batch))
            if not fresh:
                return
            yield from self._groups(map(choice_of, fresh))

    def _corrected(self) -> list[SuperSchedule]:
        """Return the best schedules of the learned model after a correction by the measured errors, if a model ran."""
        propose, default_s, n = self.propose, self.default_s, self.style.n_corrected
        if propose is None or not self.queue.proposed or not default_s or not n:
            return []
        raced = [one for one in self.trials if one.choice in self.measured_s]
        ratios = {
            one.schedule: self.measured_s[one.choice] / default_s
            for one in raced
            if isinstance(one.schedule, SuperSchedule)
        }
        unfit = {one.schedule.format for one in self.trials if isinstance(one.schedule, Schedule) and one.failed}
        named = [one for one in propose.more(list(ratios)) if one.schedule.format not in unfit]
        self.queue.ratios |= {one.schedule: one.ratio for one in named if one.schedule not in ratios}
        return list(filter(self.can_make, next_best(named, ratios, n)))

    def faster(self, limit_s: float, kind: type | None = None) -> list[Trial]:
        """Return the candidates that take at most `limit_s`, fastest first; only with schedules of the type `kind`."""
        able = [one for one in self.trials if one.failed is None and (kind is None or isinstance(one.schedule, kind))]
        able = [one for one in able if self.measured_s.get(one.choice, math.inf) <= limit_s]
        return sorted(able, key=lambda one: self.measured_s[one.choice])

    def tried(self, choice: Choice) -> bool:
        """Return whether `choice` was entered, or measured by an earlier process, or needs a missing compiler."""
        is_known = choice in self._entered or choice in self._settled
        return is_known or (isinstance(choice.schedule, Schedule) and not self.can_make(choice.schedule))

    def _groups(self, choices: Iterable[Choice], n_wanted: int | None = None) -> Iterator[list[Trial]]:
        """Yield trials of the untried ones of `choices`, in batches of at most `style.batch`; what packs runs alone.

        `n_wanted` bounds their number together with choices measured by earlier processes. Candidates of a batch are
        compiled together, on all cores, before the first of them runs.
        """
        group, new = list[Trial](), [one for one in choices if one not in self._entered]
        if n_wanted is not None:
            n_wanted = max(0, n_wanted - sum(one in self._settled for one in new))
        fresh = iter([one for one in new if not self.tried(one)][:n_wanted])
        while entered := list(map(self.make_trial, itertools.islice(fresh, self.style.batch))):
            self.trials += entered
            self._entered |= {one.choice for one in entered}
            self._unbuilt += entered
            for trial in entered:
                is_csr = isinstance(trial.schedule, SuperSchedule) and trial.schedule.format.is_csr
                if self.problem.transposed or not is_csr:
                    yield [trial]
                    continue
                group.append(trial)
                if len(group) == self.style.batch:
                    yield group
                    group = []
        if group:
            yield group

    def begin_with(self, won: Trial, *, default_s: float, measured_s: float) -> None:
        """Make `won`, the ready kernel that serves before this search, the incumbent; it needs no race of its own."""
        self.trials.append(won)
        self._entered.add(won.choice)
        self.incumbent, self.default_s, self.measured_s[won.choice] = won, default_s, measured_s

    def _run_batch(self, batch: Sequence[Trial]) -> Steps:
        try:
            yield from self._prepare(batch)
            if ready := [trial for trial in batch if trial.ready]:
                yield from self._race(ready)
            if self.style.is_live and not self.incumbent.ready:  # it serves products
                yield from self._come_back(batch)
        finally:  # also when the caller closes the generator: only the incumbent keeps memory
            for trial in batch:
                if trial is not self.incumbent:
                    trial.drop()

    def _prepare(self, batch: Sequence[Trial]) -> Steps:
        """Yield the steps that build the kernels of a batch, then those that pack its operands."""
        build_s = {trial.choice: trial.build_price_s() for trial in (*batch, *self._unbuilt)}
        path_s = sum(build_s[trial.choice] + trial.pack_price_s() for trial in batch)
        wanted, self._unbuilt = self._unbuilt, []
        if (build_all := self.build_all) is not None and len(wanted) > 1:
            price_s, what = sum(build_s[trial.choice] for trial in wanted), f"{len(wanted)} kernels"
            took_s = yield Work(
                kind="build", price_s=price_s, path_price_s=max(price_s, path_s), what=what, is_optional=True,
                may_hang=True, do=lambda: build_all(wanted),
            )  # fmt: skip
            if took_s is not None:
                wanted = []
        if wanted:  # single kernels, or a group that is too expensive to build together: build those of this batch
            now = {trial.choice for trial in batch}
            self._unbuilt = [trial for trial in wanted if trial.choice not in now]
            for trial in batch:
                price_s, is_first = build_s[trial.choice], self.trials[:1] == [trial]
                schedule = trial.schedule
                is_cheap = self.is_built is not None and isinstance(schedule, Schedule) and self.is_built(schedule)
                yield Work(
                    kind="build", price_s=price_s, path_price_s=max(price_s, path_s), what=trial.choice.name,
                    in_advance=is_cheap and is_first, may_hang=True, do=trial.build,
                )  # fmt: skip
        for trial, is_again in itertools.product(batch, (False, True)):
            if trial.failed is not None or (is_again and not (trial.lacks_memory and self.incumbent.packed_bytes)):
                continue
            is_large = trial.packed_bytes + self.incumbent.packed_bytes > MAX_PAIR_BYTES
            is_alone, what = is_again or (is_large and self._competes(trial)), trial.choice.name
            price_s = trial.pack_price_s() + (self._release_price_s(trial) if is_alone else 0.0)
            do, is_first = partial(self._pack_alone, trial) if is_alone else trial.pack, self.trials[:1] == [trial]
            yield Work(kind="pack", price_s=price_s, do=do, what=what, in_advance=is_first and not is_alone)

    # -- packed copies that are too large to exist at once ------------------------------------------------------

    def _competes(self, trial: Trial) -> bool:
        """Return whether `trial` and the incumbent need a packed copy each."""
        own, other = trial.schedule, self.incumbent.schedule
        is_shared = isinstance(own, Schedule) and isinstance(other, Schedule) and own.format == other.format
        return self.incumbent.ready and not is_shared and bool(trial.packed_bytes and self.incumbent.packed_bytes)

    def _pack_alone(self, trial: Trial) -> None:
        """Pack `trial` in place of the incumbent, which was measured already and is packed again if it stays best."""
        self.incumbent.drop()
        trial.pack()

    def _release_price_s(self, trial: Trial) -> float:
        """Return the expected seconds lost by releasing the incumbent's copy while `trial` races: packing it again,
        and products by the default kernel.
        """
        if not self.style.is_live:
            return 0.0
        default_s = self.default_s or 0.0
        excess_s = default_s - self.measured_s.get(self.incumbent.choice, default_s)
        return trial.pack_price_s() + 2.0 * self.style.rule.min_rounds * max(0.0, excess_s)

    def _come_back(self, batch: Sequence[Trial]) -> Steps:
        """Yield the step that packs the incumbent again, in place of the candidates `batch`."""

        def restore() -> None:
            for trial in batch:
                trial.drop()
            self.incumbent.pack()
            if not self.incumbent.ready:  # other packed copies of the matrix have taken the memory
                self.incumbent = self.default

        yield Work(kind="pack", price_s=0.0, do=restore, what=self.incumbent.choice.name)  # paid for by the candidate

    # -- the race -----------------------------------------------------------------------------------------------

    def _race(self, challengers: Sequence[Trial]) -> Steps:
        """Yield interleaved samples of default kernel, incumbent and challengers; the winner becomes the incumbent."""
        known = [self.default]
        if self.incumbent is not self.default and self.incumbent.ready:
            known.append(self.incumbent)
        entrants = [*known, *challengers]
        race = Race(len(entrants), self.style.rule, n_kept=len(known))
        is_first = len(entrants) == 2 and self.trials[:1] == [entrants[1]]
        try:
            for turn in race:
                times_s = {at: median(samples) for at, samples in race.samples_s.items() if samples}
                best_s = min(times_s.values(), default=self.default_s or 0.0)
                # The price is the expected excess over the fastest known kernel.
                mine_s = times_s.get(turn) or best_s * (1.0 if turn < len(known) else 1.0 + UNKNOWN_EXCESS)
                race.add(turn, (yield Sample(
                    trial=entrants[turn], price_s=max(0.0, mine_s - best_s), turn=race.n_rounds, in_advance=is_first
                )))  # fmt: skip
        finally:
            self._update_incumbent(race, entrants)

    def _update_incumbent(self, race: Race, entrants: Sequence[Trial]) -> None:
        """Store the times of a race, and make its winner the incumbent; an unfinished race needs enough rounds."""
        if not race.samples_s[0]:
            return
        self.default_s = self.default_s or median(race.samples_s[0])
        for at, trial in enumerate(entrants):
            if at and race.samples_s[at]:
                # Ratios are stable between batches, absolute times drift: scale all ratios by one default time.
                self.measured_s[trial.choice] = race.ratio(at) * self.default_s
                self.n_samples[trial.choice] = self.n_samples.get(trial.choice, 0) + len(race.samples_s[at])
        at = race.winner()
        if self.incumbent in entrants[1:] and race.ratio(1) < 1.0:
            if at == 0:
                at = 1  # an incumbent loses only to a faster one: over many batches, bad luck is likely
            elif self.style.is_live:
                at = race.winner(holder=1)  # it serves products: whoever replaces it must beat it by the margin
        winner = entrants[at]
        if winner is self.incumbent or (at == 0 and race.n_rounds < race.rule.min_rounds):
            return
        if self.incumbent not in entrants:  # it released its copy and could not race
            limit_s = self.measured_s.get(self.incumbent.choice, 0.0) * (1.0 - self.style.rule.margin)
            if self.measured_s.get(winner.choice, self.default_s) >= limit_s:
                return
        self.incumbent.drop()
        self.incumbent = winner
