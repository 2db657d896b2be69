"""Candidates of all solvers for a problem: the schedule space, what races first, and the search over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from autosparse._native.c import build as c_build
from autosparse._native.ir.spec import VALUE_BYTES
from autosparse._native.kernels.shipped_specs import HIGH_SLICES, chosen, wide
from autosparse.config import Effort
from autosparse.core.composite import Schedule
from autosparse.core.formats import DICTIONARY
from autosparse.core.plan import Plan
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import DEFAULT
from autosparse.isa import ISAS
from autosparse.operands.csr import expected_look_s
from autosparse.tuner import Search
from autosparse.tuner.analytic.models import statistics_model
from autosparse.tuner.search.earlier import Earlier
from autosparse.tuner.search.style import BLOCKING, live_style
from autosparse.tuner.space import spaces
from autosparse.tuning.learned import proposer_of, training_domain_of
from autosparse.tuning.rates.scaling import model_rates
from autosparse.tuning.solvers import dense_rows
from autosparse.tuning.solvers.offered import offer_of
from autosparse.tuning.trials.context import TuningContext

MIN_IN_PLACE: Final = 10_000
"""Minimum number of stored entries for which schedules on the user's own arrays race."""
MAX_IN_PLACE: Final = 2
"""Maximum number of schedules on the user's own arrays that race whatever the models predict.

Each of them may take one compilation.
"""


def search_for(
    context: TuningContext, *, effort: Effort, live: bool, start: object = None, unfinished: Plan | None = None
) -> Search:
    """Return the search for this problem; `live` is true for tuning between products, and `start` is tried first.

    It continues the search that left the plan `unfinished`.
    """
    problem, default = context.problem, context(DEFAULT)
    style = live_style(problem) if live else BLOCKING
    offer, earlier = offer_of(problem, context.options), Earlier()
    if unfinished is not None:
        earlier = Earlier.of(unfinished)
        start = first.schedule if (first := earlier.first(unfinished, style.rule)) is not None else start
    dense, refused = dense_rows.offered(problem, context.options)
    always: list[Schedule] = [*dense, *_raced_first(context, live=live)]
    if not live:
        from autosparse.tuning.solvers.row_panels import of_the_runtime

        always += of_the_runtime(context, effort=effort, known=start)
    return Search(
        problem=problem,
        effort=effort,
        make_trial=context,
        default=default,
        incumbent=default,
        model=lambda: statistics_model(problem, model_rates(problem, context.rates)),
        supports=context.supports,
        cost_estimates=context.stats.cost_estimates,
        style=style,
        propose=proposer_of(context, live=live),
        is_built=context.is_built,
        can_make=_existing(context) if context.compiler_id() == "none" else lambda _: True,
        untrusted_reason=lambda learned: training_domain_of(context, is_learned=learned).untrusted_reason(problem),
        is_foreign=lambda: training_domain_of(context, is_learned=True).is_foreign(problem),
        first_price_s=context.packing_s() + context.compare_price_s(),
        start=start if isinstance(start, SuperSchedule) else None,
        earlier=earlier,
        build_all=None if live else context.build,
        shipped=_shipped(context) if live else (),
        always=always,
        others=offer.choices,
        refused=(*refused, *offer.refused),
    )


def _existing(context: TuningContext) -> Callable[[Schedule], bool]:
    """Return a test for schedules whose kernels exist, where there is no compiler.

    The first schedule without a kernel passes, too. It fails at once, so that the plan and a warning name the missing
    compiler.
    """
    named: list[Schedule] = []

    def exists(schedule: Schedule) -> bool:
        if context.is_built(schedule):
            return True
        if not named:
            named.append(schedule)
        return schedule == named[0]

    return exists


def _raced_first(context: TuningContext, *, live: bool) -> list[SuperSchedule]:
    """Return schedules of large matrices that race whatever the models predict: shipped ones, and on the user's arrays.

    Shipped ones are for several columns of rows that share their entries. Models rank schedules first that differ from
    them in unrolling or width of indices, which need a compiler: a short budget ended before one was compiled, where
    these have 1.3 times the default kernel's speed (elast_bunny, 3 s). A live search with a compiler has raced one.
    Kernels that numba compiles for 8 to 256 columns had 0.05 to 0.98 of the default kernel's speed (11 cases).

    Schedules on the user's own arrays need no checks for writes and no repacking. Those that need a compiler are
    included only where others can write the arrays, because packed copies may not pay there. A live search excludes
    them, because its other candidates would wait for their compilation to be paid for.
    """
    problem, is_exposed = context.problem, expected_look_s(context.operand()) > 0.0
    if problem.storage or problem.pattern.nnz < MIN_IN_PLACE or problem.transposed:
        return []
    blocks: list[SuperSchedule] = []
    has_several = problem.operation == HIGH_SLICES.operation and problem.n_dense_cols > 1
    is_open = not live or c_build.compiler_id(context.options.compiler) == "none"
    if has_several and is_open and problem.dtype in VALUE_BYTES and problem.matrix.has_identical_rows:
        row = ISAS[problem.target.isa]
        shipped = wide(row.vector_bytes // VALUE_BYTES[problem.dtype], row.n_registers)
        built = [one for one in shipped if one.dense_split("j") <= problem.n_dense_cols and context.is_built(one)]
        widest = max((one.dense_split("j") for one in built), default=0)
        blocks = [one for one in built if one.dense_split("j") == widest]
    if context.adapter.pack_live is None or (live and not is_exposed):
        return blocks
    own = [one for one in spaces.candidates(problem, context.supports) if one.format.is_csr]
    ready = [one for one in own if context.loaded(one) is not None][:MAX_IN_PLACE]
    others = [one for one in own if context.loaded(one) is None] if is_exposed and not live else []
    return [*blocks, *ready, *others[: MAX_IN_PLACE - len(ready)]]


def _shipped(context: TuningContext) -> list[SuperSchedule]:
    """Return schedules of shipped SpMV kernels that models rank too low or not at all; at most one.

    Blocks as high as a vector read each element of x once for all of their rows. On meshes of three unknowns a node
    they are predicted to take 1.1 times the default kernel's time and take 0.6 of it (bcsstk16; Zen 4, 64-byte
    registers).
    """
    problem = context.problem
    is_plain = problem.storage in {"", DICTIONARY} and problem.dtype in VALUE_BYTES
    if problem.operation != HIGH_SLICES.operation or problem.n_dense_cols > 1 or not is_plain:
        return []
    blocks, _ = chosen(ISAS[problem.target.isa].vector_bytes // VALUE_BYTES[problem.dtype])
    one = HIGH_SLICES if problem.storage == DICTIONARY else blocks
    return [one] if context.supports(problem.operation, one) is None and context.is_built(one) else []
