"""Parts of the search space and the tuner's search restricted to a part, for the gains of format and schedule alone.

The parts follow WACO §2.1, Table 1. The base is CSR with TACO's schedule (§5.1: threads take 128 rows at a time in
SpMV, 32 otherwise; one row at a time, columns innermost, result in memory), vectorised as compilers do. "format" keeps
that schedule and tries all formats, with loops in the order of the levels; "schedule" keeps CSR; "both" may change
everything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from autosparse.tuner import Search
from autosparse.tuner.analytic.matmul import Proposal
from autosparse.tuner.analytic.models import statistics_model
from autosparse.tuner.research.collect.operations import Op
from autosparse.tuner.search.loop import perform
from autosparse.tuner.search.outcome import plan_of
from autosparse.tuner.search.search import SearchStyle
from autosparse.tuner.space import spaces

from autosparse import _native
from autosparse.config import Effort
from autosparse.core.formats import CSR, Format, LevelKind
from autosparse.core.plan import Plan
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import DEFAULT
from autosparse.tuning.trials.context import TuningContext

TILE: Final = 16
"""Number of columns that the innermost loop of the base computes together, as compilers do with TACO's loop."""
LANES: Final = 16
"""Number of entries of a row that the base gathers together in SpMV."""
CHUNKS: Final = {1: 128}
CHUNK: Final = 32
"""Number of rows that a thread of the base takes at a time, by the number of dense columns (WACO §5.1)."""


def base_schedule(op: Op) -> SuperSchedule:
    """Return fixed CSR: TACO's schedule of ``A[i,k]`` in CSR."""
    loops, tile = CSR.order, min(TILE, op.n_dense_cols)
    is_vector = op.operation == "matmul" and op.n_dense_cols == 1
    return SuperSchedule(
        operation=op.operation,
        format=CSR,
        loop_order=loops if is_vector else (*loops, "j1", "j0"),
        dense_splits=() if is_vector else (("j", tile),),
        parallel="i1",
        partition="dynamic",
        chunk=CHUNKS.get(op.n_dense_cols, CHUNK),
        unroll=LANES if is_vector else 1,
    )


def under(base: SuperSchedule, fmt: Format) -> SuperSchedule:
    """Return the schedule of `base` for another format: loops in the order of its levels, columns of B innermost.

    Vectors lie along the innermost loop, because blocks and slices have no entries to gather together.
    """
    columns = tuple(name for name in base.loop_order if name[0] == "j")
    unroll = base.unroll if fmt.levels[-1].kind is LevelKind.COMPRESSED else 1
    return dataclasses.replace(base, format=fmt, loop_order=(*fmt.order, *columns), unroll=unroll)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the space: a predicate for its schedules, and schedules to try before the model's favourites."""

    name: str
    holds: Callable[[SuperSchedule], bool]
    first: tuple[SuperSchedule, ...]


def format_part(context: TuningContext, base: SuperSchedule) -> Part:
    """Return the part with every format under the schedule of `base`: the base first, the others in predicted order."""
    found = dict.fromkeys(under(base, one.format) for one in spaces.everything(context.problem, context.supports))
    able = [one for one in found if one != base and context.supports(base.operation, one) is None]
    times_s = statistics_model(context.problem).rank(context.problem, able)
    ranked = [able[at] for at in sorted(range(len(able)), key=lambda at: times_s[at])]
    return Part("format", lambda one: one in found, (base, *ranked))


def schedule_part(base: SuperSchedule) -> Part:
    """Return the part with every schedule of the space for CSR in the user's row order."""
    return Part("schedule", lambda one: one.format == CSR, (base,))


def whole(first: Sequence[SuperSchedule]) -> Part:
    """Return the whole space; `first` are tried first."""
    return Part("both", lambda one: True, tuple(dict.fromkeys(first)))


@dataclass(frozen=True, slots=True)
class Given:
    """Proposer of a fixed list at no cost; see `autosparse.tuner.analytic.matmul.Proposer`."""

    schedules: Sequence[SuperSchedule]
    price_s: float = 0.0

    def __call__(self) -> list[Proposal]:
        """Return all schedules with ratio 1; they are measured whatever is predicted."""
        return [Proposal(one, 1.0) for one in self.schedules]

    def more(self, known: Sequence[SuperSchedule]) -> list[Proposal]:
        """Return no further proposals."""
        return []


@dataclass(slots=True)
class PartSearch:
    """The tuner's search within `part`; schedules outside of the part are rejected like unsupported ones."""

    context: TuningContext
    part: Part
    style: SearchStyle = field(default_factory=lambda: SearchStyle(n_candidates=16))

    def supports(self, operation: str, schedule: SuperSchedule) -> str | None:
        """Return why `schedule` is not tried, or None."""
        if not self.part.holds(schedule):
            return f"not in the part {self.part.name!r} of the space"
        return self.context.supports(operation, schedule)

    def run(self, budget_s: float) -> Plan:
        """Search for about `budget_s` seconds and drop all packed copies."""
        default = self.context(DEFAULT)
        search = Search(
            problem=self.context.problem,
            effort=Effort.FULL,
            make_trial=self.context,
            default=default,
            incumbent=default,
            model=lambda: statistics_model(self.context.problem),
            supports=self.supports,
            cost_estimates=self.context.stats.cost_estimates,
            style=self.style,
            propose=Given(self.part.first),
            build_all=self.context.build,
        )
        try:
            perform(search.steps(), runner=self.context.runner, budget_s=budget_s)
            return plan_of(search, tune_s=0.0)
        finally:
            search.incumbent.drop()

    def best(self, budget_s: float, n: int) -> tuple[list[SuperSchedule], int]:
        """Return the `n` fastest schedules found and the number measured.

        If none could be measured, return the first schedule of the part.
        """
        candidates = self.run(budget_s).candidates
        times_s = {one.schedule: one.measured_s for one in candidates if one.schedule and one.measured_s}
        ordered = sorted(times_s, key=lambda one: times_s[one])
        return ordered[:n] or list(self.part.first[:1]), len(times_s)


def kernels_of(context: TuningContext, base: SuperSchedule) -> list[_native.KernelSpec]:
    """Return every kernel that a search of any part can ask for, without duplicates."""
    schedules = [*spaces.everything(context.problem, context.supports), *format_part(context, base).first]
    return list({(spec := context.spec(one)).key(): spec for one in schedules}.values())
