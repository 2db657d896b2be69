"""Write the location of plans into the accounts of their problems, for later processes."""

from __future__ import annotations

import time
from contextlib import suppress

from autosparse import _native
from autosparse._native.kernels import identity
from autosparse.cache.accounts import ledger
from autosparse.cache.accounts.rows import (
    ASKED,
    NEEDS_SORTED,
    NOTHING_FASTER,
    PlanNote,
    kernel_row,
    plan_row,
    search_row,
)
from autosparse.core.plan import Plan
from autosparse.core.schedule import SuperSchedule
from autosparse.dispatch import accounts
from autosparse.errors import BuildError, RecordError
from autosparse.tuning.memory import stamps
from autosparse.tuning.memory.plan_lookup import key_of
from autosparse.tuning.trials.context import TuningContext


def note(context: TuningContext, plan: Plan, *, is_asked: bool = False) -> None:
    """Write the location of the problem's plan into its account, so that the next process finds it without a search.

    Nothing is written for options that store nothing, for composites (`recall` cannot use them), and for effort "off".
    """
    problem, options = context.problem, context.options
    place = accounts.place_of(options)
    schedule, is_default = plan.choice.schedule, plan.choice.is_default
    is_simple = is_default or isinstance(schedule, SuperSchedule)
    if not context.account_key or place is None or plan.effort == "off" or not is_simple or context.is_stale:
        return
    stamp = stamps.stamp_of(problem, options)
    if stamp is None or identity.backend_name(options.compiler) != "c":
        return
    flags = ASKED if is_asked else 0
    if not isinstance(schedule, SuperSchedule):
        flags |= NOTHING_FASTER
    else:
        with suppress(BuildError):
            found = context.loaded(schedule)
            flags |= NEEDS_SORTED if isinstance(found, _native.CompiledKernel) and found.needs_sorted else 0
    known = ledger.read(place[1], context.account_key)
    old = known.plan if known is not None else None
    made = PlanNote(
        plan=bytes.fromhex(key_of(context).stable_hash()), stamp=stamp, default_s=plan.default_s or 0.0,
        measured_s=(plan.measured_s or 0.0) if not is_default else 0.0,
        flags=flags | ASKED if old is not None and old.is_asked else flags,
    )  # fmt: skip
    process, now = ledger.token(), time.time()
    rows = [plan_row(context.account_key, made, process=process, now=now)] if old != made else []
    kernel = None
    if isinstance(schedule, SuperSchedule) and schedule.format.is_sliced and problem.n_dense_cols == 1:
        from autosparse.tuning.memory import kernel_notes

        with suppress(OSError, RecordError):  # the kernel's file is unreadable
            kernel = kernel_notes.made(context, made, schedule, effort=plan.effort)
    if kernel is not None and (rows or known is None or known.kernel != kernel):
        rows.append(kernel_row(context.account_key, kernel, process=process, now=now))
    if rows:
        ledger.append(place[0], rows)


def note_next_step(context: TuningContext, price_s: float) -> None:
    """Write the price of the next step of an unfinished search into the problem's account."""
    place = accounts.place_of(context.options)
    if context.account_key and place is not None and not context.is_stale:
        ledger.append(place[0], [search_row(context.account_key, price_s, process=ledger.token(), now=time.time())])
