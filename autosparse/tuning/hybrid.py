"""Composites for a search: select partitions worth measuring, and tune each part.

Each part is a problem of its own and is searched on a fraction of the budget. The composite of the winners then races
against the best single formats in the search of the whole matrix, within the same budget.
"""

from __future__ import annotations

import dataclasses
import math
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse import _native
from autosparse.config import Effort
from autosparse.core.composite import REST, Blocks, Composite, Part, Schedule, Selection
from autosparse.core.formats import Format
from autosparse.core.pattern import Pattern
from autosparse.core.plan import Plan
from autosparse.core.problem import Problem
from autosparse.core.schedule import RUNTIME, SuperSchedule
from autosparse.core.values import dataclass, field
from autosparse.errors import TUNING_FAILURES
from autosparse.log import event
from autosparse.operands.csr import Operand
from autosparse.operands.packed_copies import PackedCopyCache
from autosparse.ops import OPS
from autosparse.scalar import REAL
from autosparse.targets.priors import number
from autosparse.tuner import Search, tune
from autosparse.tuner.analytic.matmul import Proposal
from autosparse.tuner.analytic.models import statistics_model
from autosparse.tuner.hybrid.costs import PrimitiveCosts
from autosparse.tuner.hybrid.partitions import DEFAULT_COSTS, MIN_COLUMNS, MIN_NNZ, WORTH, Partition, partitions
from autosparse.tuner.hybrid.schedules import runtime, tried
from autosparse.tuner.search.race import RaceRule
from autosparse.tuner.search.style import SearchStyle
from autosparse.tuner.space.template import Supports
from autosparse.tuning.learned import machine_folder
from autosparse.tuning.memory.cost_table import farness, known_costs
from autosparse.tuning.rates.scaling import model_rates
from autosparse.tuning.sweeps import panels, resident_partition, stands_in_panels, sweeps
from autosparse.tuning.trials.context import TuningContext

Array = NDArray[Any]  # indices or values

SHARE: Final = number("composites", "share of the budget")
"""Maximum fraction of a search's budget spent on composites, including their races."""
PARTS_SHARE: Final = number("composites", "share of the parts")
"""Fraction of the composite budget spent on tuning individual parts."""
MAX_PARTITIONS: Final = 3
"""Maximum number of partitions for which a search tries composites."""
COPIED: Final = number("composites", "time with copied panels")
"""Time of parts that read copied panels of B, as a fraction of the time without copies."""
READS_BY_PARTS: Final = 16
"""Minimum number of reads per row of B for which composites copy B into panels, when B exceeds the L2 cache."""
READS_BY_ONE: Final = 32
"""Minimum number of reads per row of B for which the default kernel copies B into panels, if B exceeds the L2 cache."""
SWEPT: Final = number("composites", "time in one sweep")
"""Time of dense rows in one sweep over B with all parts, as a fraction of their time alone; B exceeds the L2 cache."""
BLOCKS_WORTH: Final = number("composites", "worth of blocks")
"""Maximum predicted time ratio for which a partition into blocks and rest is tried."""
MIN_SHARE: Final = number("composites", "minimum share left")
"""Minimum fraction of `HybridDivider.budget_s` that must be left for a call to start."""
MIN_PART: Final = number("composites", "minimum weight of a part")
"""Minimum weight of a part in the split of the budget; a small part's kernels take as long to compile as others."""
PART_STYLE: Final = SearchStyle(
    n_candidates=4, n_neighbours=2, n_corrected=0, n_reraces=1, takes_all_proposals=False,
    rule=RaceRule(margin=number("composites", "margin of parts"), min_rounds=5, max_rounds=9),
)  # fmt: skip
"""Settings of a part's search; it is short because the result is timed again in the composite."""


@dataclass(frozen=True, slots=True)
class _First:
    """Proposer that returns the given schedules: those tried for a kind of part before any that a model ranks."""

    schedules: tuple[SuperSchedule, ...]
    price_s: float = 0.0

    def __call__(self) -> Sequence[Proposal]:
        """Return the schedules in their order."""
        return [Proposal(one, 0.9) for one in self.schedules]

    def more(self, known: Sequence[SuperSchedule]) -> Sequence[Proposal]:
        """Return no proposals: there is no model."""
        return []


@dataclass(slots=True, eq=False)
class HybridDivider:
    """Factory of composites for the problem of `context`.

    A call takes at most `budget_s` seconds; `seed` is the composite of a remembered plan, returned first.
    """

    context: TuningContext
    budget_s: float
    end_s: float = math.inf  # end of the search, by `clock`
    seed: Composite | None = None
    costs: PrimitiveCosts = DEFAULT_COSTS
    clock: Callable[[], float] = time.perf_counter
    found: list[Partition] = field(default_factory=list)  # partitions that were considered
    _share_ends_s: float = math.inf  # end of the composites' share of the budget, by `clock`

    @property
    def price_s(self) -> float:
        """Minimum number of seconds for which a call is useful; a call takes at most `budget_s`."""
        return MIN_SHARE * self.budget_s

    def has_time(self) -> bool:
        """Return whether time is left in the composites' share; the rest is reserved for single formats."""
        return self.clock() < self._share_ends_s

    def __call__(self) -> list[Schedule]:
        """Return composites, most promising first; the second element may be a single format that they must beat."""
        now_s = self.clock()
        share_s = min(self.budget_s, self.end_s - now_s)
        end_s, self._share_ends_s = now_s + PARTS_SHARE * share_s, now_s + share_s
        composites: list[Schedule] = [] if self.seed is None else [self.seed]
        try:
            view = _view(self.context)
            self.found = self.partitions(view)
            is_resident = any("near" in one.kinds for one in self.found)
            for partition in self.found:  # those that need no compiler first: they race at once
                composites += self._ready(view, partition)
            for n_left, partition in zip(range(len(self.found), 0, -1), self.found, strict=True):
                # the most promising partition gets half of the remaining time
                limit_s = (end_s - self.clock()) / min(n_left, 2)
                compile_s = len(partition.kinds) * self.context.stats.cost_estimates.price_s("compile")
                if limit_s > compile_s and not (self._is_narrow or is_resident):  # single-row panels need no compiler
                    composites += self._searched(partition, limit_s)
        except TUNING_FAILURES as err:
            event("fallback", f"no composite: {type(err).__name__}: {err}")
        rival: list[Schedule] = list(ordered(self.context.problem.operation)[:1])
        return [*composites[:1], *rival, *composites[1:]] if composites else []

    def partitions(self, view: Pattern | None = None) -> list[Partition]:
        """Return ways to divide the entries of op(A) into parts, those with an expected gain, most promising first."""
        view = _view(self.context) if view is None else view
        start_s = self.clock()
        problem, n_cols = self.context.problem, self.context.problem.n_dense_cols
        is_swept = not OPS[problem.operation].is_sampled and _is_streaming(problem, view)
        resident = resident_partition(view, n_cols) if is_swept else []
        worth = WORTH / (COPIED if not resident and _parts_copy(problem, view) else 1.0)
        dense = max(worth, WORTH / SWEPT) if is_swept and not resident else worth
        found = partitions(view, n_cols, _native.block_fill, self.costs, worth=dense)
        limits = {"dense": dense, "blocks": min(worth, BLOCKS_WORTH)}
        found = [one for one in found if one.predicted_ratio < limits.get(one.kinds[0], worth)]
        found = [*resident, *found[:MAX_PARTITIONS]]
        event("divide", "; ".join(map(str, found)) or "one format", seconds=self.clock() - start_s)
        return found

    @property
    def _is_narrow(self) -> bool:
        """Return whether products have too few columns for parts to gain, so that parts are not searched."""
        return self.context.problem.n_dense_cols < MIN_COLUMNS

    def _ready(self, view: Pattern, partition: Partition) -> list[Composite]:
        """Return the composites for `partition` whose kernels need no compiler."""
        swept = sweeps(self.context.problem.operation, view, partition, self.context.problem.n_dense_cols)
        return [*fused_of(self.context, partition), *filter(self.context.is_built, swept), *self._at_once(partition)]

    def _at_once(self, partition: Partition) -> list[Composite]:
        """Return the composite of the parts' first schedules if it needs no compiler; else none.

        It applies to narrow products and to dense rows, whose panels the runtime computes.
        """
        if not self._is_narrow and "dense" not in partition.kinds:
            return []
        parts = []
        for at, (selection, kind) in enumerate(zip(partition.selections, partition.kinds, strict=True)):
            place, firsts = _Place(partition, at), first_schedules(self.context.problem, kind, selection, at)
            able = [one for one in firsts if place.reason(self.context.problem.operation, one) is None]
            parts += [Part(selection, one) for one in able[:1]]
        is_whole = len(parts) == len(partition.kinds) and len({part.schedule for part in parts}) > 1  # else one format
        made = _composite(self.context.problem.operation, partition, parts) if is_whole else None
        return [made] if made is not None and self.context.is_built(made) else []

    def _searched(self, partition: Partition, limit_s: float) -> list[Composite]:
        """Tune each part for its share of `limit_s` seconds; return composites of first and of fastest schedules.

        They are distinct. The composite of first schedules is returned even if no part had time to compile. The list
        is empty if a part has no schedule.
        """
        problem = self.context.problem
        parts = _native.subsets(problem.matrix, partition.selections, transposed=problem.transposed)
        sizes = [max(MIN_PART, part.pattern.nnz / max(1, problem.pattern.nnz)) for part in parts]
        firsts: list[Part] = []
        winners: list[Part] = []
        for at, (selection, kind, subset) in enumerate(zip(partition.selections, partition.kinds, parts, strict=True)):
            share_s, place = limit_s * sizes[at] / sum(sizes), _Place(partition, at)
            tried_first = first_schedules(problem, kind, selection, at)
            able = tuple(one for one in tried_first if place.reason(problem.operation, one) is None)
            schedule = self._best(subset.pattern, subset.entries, place, able, share_s)
            if not schedule:
                return []
            winners.append(Part(selection, schedule))
            firsts.append(Part(selection, able[0] if able else schedule))
        made = (_composite(problem.operation, partition, chosen) for chosen in (firsts, winners))
        return list(dict.fromkeys(one for one in made if one is not None))

    def _best(
        self, pattern: Pattern, entries: Array, place: _Place, able: tuple[SuperSchedule, ...], limit_s: float
    ) -> SuperSchedule | None:
        """Return the fastest schedule found in `limit_s` seconds for the part `pattern`, or the first of `able`.

        `entries`: positions of the part's entries in the matrix; `able`: schedules to try first. None if nothing was
        found and `able` is empty.
        """
        if pattern.nnz == 0:
            return next(iter(able), None)
        whole = self.context.operand()
        assert isinstance(whole, Operand)
        values = np.ascontiguousarray(whole.data[entries])
        operand = Operand.over(pattern.n_rows, pattern.n_cols, [pattern.indptr, pattern.indices, values], is_valid=True)
        operand.validate()
        context = _part_context(self.context, operand)
        problem = context.problem
        search = Search(
            problem=problem,
            effort=Effort.MEASURE,
            make_trial=context,
            model=lambda: statistics_model(problem, model_rates(problem, context.rates)),
            supports=place.supports(context.supports),
            cost_estimates=context.stats.cost_estimates,
            style=PART_STYLE,
            propose=_First(tuple(one for one in able if not one.is_precompiled)),
            always=[one for one in able if one.is_precompiled],  # timed even if there is no time to compile
            is_built=context.is_built,
            build_all=context.build,
        )
        try:
            tune(search, runner=context.runner, budget_s=limit_s, clock=self.clock)
        finally:
            context.release()
            search.incumbent.drop()
        times = [(found, choice.schedule) for choice, found in search.measured_s.items()]
        fastest = [one for _, one in sorted(times, key=lambda pair: pair[0]) if isinstance(one, SuperSchedule)]
        return next(iter(fastest), next(iter(able), None))


def _composite(operation: str, partition: Partition, parts: Sequence[Part]) -> Composite | None:
    """Return the composite of `parts`, interleaved by row windows if its kernels support that; None without kernels."""
    for window in (partition.window if "blocks" in partition.kinds else 0, 0):
        composite = Composite(parts=tuple(parts), window=window)
        if _native.composite_unsupported(operation, composite) is None:
            return composite
    return None


def fused_of(context: TuningContext, partition: Partition) -> list[Composite]:
    """Return the composite of blocks and rest that the runtime sums in registers; none if it has no such loops."""
    blocks, operation = partition.selections[0], context.problem.operation
    if OPS[operation].is_sampled or context.problem.n_dense_cols < MIN_COLUMNS or not isinstance(blocks, Blocks):
        return []
    fmt = Format.parse(f"i1:U,k1:C,i0:U,k0:U | i={blocks.r},k={blocks.c}")
    loops = SuperSchedule(operation=operation, format=fmt, loop_order=tuple(fmt.order), implementation=RUNTIME)
    made = Composite(parts=(Part(blocks, loops), Part(REST, runtime(operation))), window=partition.window)
    is_known = len(partition.selections) == 2 and _native.composite_unsupported(operation, made) is None
    return [made] if is_known and context.loaded(made) is not None else []


@dataclass(frozen=True, slots=True)
class _Place:
    """Position `at` of a part in the composite of `partition`, which limits the schedules that the part may have."""

    partition: Partition
    at: int

    def reason(self, operation: str, schedule: SuperSchedule) -> str | None:
        """Return why the part at this position cannot have `schedule`; None if it can."""
        try:
            filler = SuperSchedule(operation=operation)
            parts = tuple(
                Part(selection, schedule if at == self.at else filler)
                for at, selection in enumerate(self.partition.selections)
            )
            return _native.part_unsupported(Composite(parts=parts), self.at)
        except TUNING_FAILURES as err:
            return str(err)

    def supports(self, supports: Supports) -> Supports:
        """Return `supports` restricted to schedules that can be used at this position."""
        key = (supports, self)
        if key not in _supports:
            _supports[key] = lambda operation, schedule: (
                supports(operation, schedule) or self.reason(operation, schedule)
            )
        return _supports[key]


_supports: Final[dict[tuple[Any, ...], Supports]] = {}
"""One filter function per position: schedule spaces are cached under the identity of their filter."""


def first_schedules(problem: Problem, kind: str, selection: Selection, at: int) -> tuple[SuperSchedule, ...]:
    """Return the schedules that are tried first for part number `at`, of this `kind`, of a composite."""
    is_added = kind == "rest" and at > 0 and not OPS[problem.operation].is_sampled
    return tuple(tried(problem.operation)(kind, selection, problem.n_dense_cols)) + (
        tuple(tried(problem.operation)("adds", selection, problem.n_dense_cols)) if is_added else ()
    )


def ordered(operation: str) -> tuple[SuperSchedule, ...]:
    """Return schedules of the runtime's loops over rows sorted by length and by first column; none if it lacks them.

    They need no compiler. Every search that a user asks for races them, and composites must beat them.
    """
    orders = () if OPS[operation].is_sampled or not OPS[operation].tuning.parts else ("degree", "first")
    return tuple(runtime(operation, order) for order in orders)


def in_panels(context: TuningContext) -> tuple[SuperSchedule, ...]:
    """Return the schedule of single-row panels if B exceeds L2 and most rows suit it, else none; no compiler needed."""
    problem, row = context.problem, OPS[context.problem.operation]
    if row.is_sampled or not row.tuning.parts or problem.n_dense_cols < MIN_COLUMNS:
        return ()
    view = _view(context)
    is_resident = _is_streaming(problem, view) and stands_in_panels(view, problem.n_dense_cols)
    return (panels(problem.operation, 1),) if is_resident else ()


def _view(context: TuningContext) -> Pattern:
    """Return the pattern of op(A) in compressed rows."""
    return _native.View.of(context.problem.matrix, transposed=context.problem.transposed).pattern


def _parts_copy(problem: Problem, view: Pattern) -> bool:
    """Return whether parts copy panels of B and the default kernel does not: B's rows are read moderately often."""
    is_sampled, reads = OPS[problem.operation].is_sampled, view.nnz / max(1, view.n_cols)
    return not is_sampled and _is_streaming(problem, view) and READS_BY_PARTS <= reads < READS_BY_ONE


def _is_streaming(problem: Problem, view: Pattern) -> bool:
    """Return whether B exceeds the L2 cache of a core."""
    n_bytes: int = view.n_cols * problem.n_dense_cols * np.dtype(problem.dtype).itemsize
    return n_bytes > problem.target.l2_bytes


def _part_context(context: TuningContext, operand: Operand) -> TuningContext:
    """Return a context in which the part `operand` is tuned with the dense operands of `context`.

    The caller keeps `operand` alive.
    """
    problem = dataclasses.replace(context.problem, pattern=operand.pattern, transposed=False)
    part = TuningContext(
        problem=problem, operand=weakref.ref(operand), options=context.options, store=context.store,
        stats=context.stats, packed_copies=PackedCopyCache(), structure_version=operand.structure_version,
        patience_s=context.patience_s,
    )  # fmt: skip
    context.lend_calls(part)
    return part


def divider_of(
    context: TuningContext, *, effort: Effort, budget_s: float, known: Plan | None, clock: Callable[[], float]
) -> HybridDivider | None:
    """Return the factory of composites for a search; None if they are disabled, unsupported or unlikely to gain.

    Without ``hybrid=True``, only full searches use composites, for matrices and widths that can gain. `known` is a
    remembered plan.
    """
    problem, wish, parts = context.problem, context.options.hybrid, OPS[context.problem.operation].tuning.parts
    if wish is False or not parts or problem.storage or problem.dtype not in REAL:
        return None
    is_large = problem.pattern.nnz > MIN_NNZ and problem.n_dense_cols >= MIN_COLUMNS
    if wish is None and not (effort is Effort.FULL and is_large):
        return None
    seed = known.schedule if known is not None and isinstance(known.schedule, Composite) else None
    return HybridDivider(context, SHARE * budget_s, clock() + budget_s, seed, costs_of(context), clock=clock)


def costs_of(context: TuningContext) -> PrimitiveCosts:
    """Return the primitives' costs in products of this width: measured by `calibrate`, else the default."""
    problem = context.problem
    table = known_costs(machine_folder(context.options, problem.target))
    n_inner = problem.pattern.shape[0 if problem.transposed else 1]
    n_bytes = n_inner * problem.n_dense_cols * np.dtype(problem.dtype).itemsize
    costs = table.of(problem.n_dense_cols, far=farness(n_bytes, problem.target.l2_bytes)) or DEFAULT_COSTS
    # Parts of a sampled product write to separate results, so there is no cost of adding.
    return dataclasses.replace(costs, further_row=0.0) if OPS[problem.operation].is_sampled else costs
