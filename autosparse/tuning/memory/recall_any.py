"""Use a remembered plan of any kernel: formats, schedules and the trials of a search are imported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from autosparse._native.kernels.kernel import CompiledKernel
from autosparse.cache.accounts.rows import NEEDS_SORTED, PlanNote
from autosparse.cache.folder import Folder
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import choice_of
from autosparse.dispatch.accounts import ProblemAccount
from autosparse.dispatch.state import DispatchState
from autosparse.notices import FallbackWarning, warn_once
from autosparse.tuning.memory import stamps
from autosparse.tuning.memory.light_bench import LightBench
from autosparse.tuning.trials.kernel_trial import KernelTrial
from autosparse.tuning.trials.service import Service
from autosparse.tuning.trials.specs import spec_of

if TYPE_CHECKING:
    from autosparse.operands.unfolding import AnyOperand


class RecallBench(LightBench):
    """Context of the trial of a remembered plan."""

    def __init__(self, state: DispatchState, operand: AnyOperand, account: ProblemAccount) -> None:
        super().__init__(state, operand)
        self._account = account

    def note_wrong(self, trial: KernelTrial, difference: str) -> None:
        """Set `failed` because the kernel's result is wrong, and remove the plan from the account."""
        trial.failed = f"the kernel computes something else than the default kernel: {difference}"
        self._account.forget_plan()
        warn_once(FallbackWarning, "wrong kernel", FallbackWarning.wrong_kernel("remembered", difference))


def ready(
    state: DispatchState, operand: AnyOperand, account: ProblemAccount, known: tuple[Folder, Mapping[str, Any]]
) -> KernelTrial | None:
    """Return the trial of the plan that `account` names, ready to serve; None if a check fails.

    `known`: the cache, and the plan's record, whose key is that of the problem.
    """
    note, (folder, record) = account.plan, known
    assert note is not None
    bench = RecallBench(state, operand, account)
    schedule = SuperSchedule.from_json(json.dumps(record["schedule"]))
    trial = KernelTrial(choice_of(schedule), bench)
    if schedule.format.values not in ("", bench.problem.storage) or not trial.fits():
        return None
    trial.kernel = _kernel(bench, folder, schedule, note, record["key"])
    if trial.kernel is None:
        return None
    trial.pack()  # compares its result with the default kernel's
    if not trial.ready:
        return None
    if not trial.reads_live:
        Service.of(trial, None, state, operand, note.default_s - note.measured_s if note.measured_s else None)
    return trial


def _kernel(
    bench: RecallBench, folder: Folder, schedule: SuperSchedule, note: PlanNote, key: Mapping[str, Any]
) -> CompiledKernel | None:
    """Return the kernel of `schedule` if it exists (in the runtime, shipped, or compiled earlier), else None."""
    spec: Any = spec_of(bench.problem, schedule)  # Any: a KernelSpec, since the schedule is no composite
    if folder.read_record("failure", spec.key()) is not None:
        return None
    if schedule.is_precompiled:
        from autosparse._native.kernels.precompiled import ready_kernel

        return ready_kernel(spec)
    from autosparse._native.kernels.shipped import shipped_kernel

    if (shipped := shipped_kernel(spec, bench.options.compiler)) is not None:
        return shipped
    path = stamps.compiled(folder, spec.key(), key, spec.isa)
    return None if path is None else CompiledKernel.load(spec, path, needs_sorted=bool(note.flags & NEEDS_SORTED))
