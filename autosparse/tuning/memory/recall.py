"""Use a remembered plan without importing what only a search needs.

The account of the problem states where the plan's record lies (`notes`). The checks are those of a normal look-up: the
record's checksum and owner, every field of its key (some replaced by a stamp), digests of the compiled kernel's files,
remembered failures, and the kernel's result beside the default kernel's. If any check fails, the problem is tuned
normally.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from autosparse._native.c.build import FLAGS, ISA_FLAGS
from autosparse._native.kernels.kernel import CompiledKernel
from autosparse.cache.accounts.rows import NEEDS_SORTED, NOTHING_FASTER, PlanNote, plan_row
from autosparse.cache.folder import Folder
from autosparse.config import Effort
from autosparse.core.problem import Problem, columns_bucket
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import choice_of
from autosparse.dispatch.accounts import ProblemAccount
from autosparse.dispatch.state import DispatchState
from autosparse.errors import TUNING_FAILURES, RecordError
from autosparse.log import event
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
        _forget(self._account)
        warn_once(FallbackWarning, "wrong kernel", FallbackWarning.wrong_kernel("remembered", difference))


def serve(state: DispatchState, operand: AnyOperand, account: ProblemAccount) -> None:
    """Set the plan that `account` names as the kernel of the next products of `state`, if it passes all checks."""
    note = account.plan
    assert note is not None
    try:
        trial = _ready(state, operand, account, note)
    except (RecordError, *TUNING_FAILURES) as err:
        event("fallback", f"a remembered plan is not used: {type(err).__name__}: {err}")
        return
    if trial is not None:
        state.serving = state.recalled = trial
        account.is_served = True
        event("plan", "remembered", schedule=trial.schedule.to_json())


def _has_registered_solvers() -> bool:
    """Return whether this process has registered solvers, whose registry it has then imported."""
    registry = sys.modules.get("autosparse.ops.registry")
    return registry is not None and bool(registry.registered_solvers(load=False))


def _ready(state: DispatchState, operand: AnyOperand, account: ProblemAccount, note: PlanNote) -> KernelTrial | None:
    if state.options.vendor or _has_registered_solvers():
        return None  # its key names solvers that are loaded with the rest of tuning
    bench = RecallBench(state, operand, account)
    if stamps.stamp_of(bench.problem, state.options) != note.stamp:
        return None
    folder = Folder(account.root)
    found = folder.read_record("plan", note.plan.hex())
    if found is None or not _is_same_problem(bench.problem, found.record.get("key")):
        return None
    account.is_finished = Effort(found.record.get("effort", "off")).rank >= state.options.effort.rank
    if note.flags & NOTHING_FASTER or found.record.get("schedule") is None:
        return None
    schedule = SuperSchedule.from_json(json.dumps(found.record["schedule"]))
    trial = KernelTrial(choice_of(schedule), bench)
    if schedule.format.values not in ("", bench.problem.storage) or not trial.fits():
        return None
    trial.kernel = _kernel(bench, folder, schedule, note, found.record["key"])
    if trial.kernel is None:
        return None
    trial.pack()  # compares its result with the default kernel's
    if not trial.ready:
        return None
    if not trial.reads_live:
        Service.of(trial, None, state, operand, note.default_s - note.measured_s if note.measured_s else None)
    return trial


def _is_same_problem(problem: Problem, key: object) -> bool:
    """Return whether `key`, the key of a plan's record, belongs to this problem."""
    wanted = {
        "pattern": problem.pattern.sparsity_hash, "operation": problem.name, "transposed": problem.transposed,
        "columns_bucket": columns_bucket(problem.n_dense_cols), "dtype": problem.dtype,
        "index_dtype": problem.pattern.index_dtype, "threads": problem.threads,
        "deterministic": problem.deterministic, "target": problem.target.key(), "solvers": "",
    }  # fmt: skip
    return isinstance(key, dict) and all(key.get(name) == value for name, value in wanted.items())


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
    from autosparse.cache import artefacts

    facts = [spec.key(), str(key["emitter"]), str(key["compiler"]), " ".join((*FLAGS, *ISA_FLAGS[spec.isa])), ""]
    name = hashlib.blake2b("\n".join(facts).encode(), digest_size=16).hexdigest()
    place = artefacts.find(folder, name)
    if place is None:
        return None
    return CompiledKernel.load(spec, place / "kernel.so", needs_sorted=bool(note.flags & NEEDS_SORTED))


def _forget(account: ProblemAccount) -> None:
    from autosparse.cache.accounts import ledger

    account.plan = None
    ledger.append(account.folder, [plan_row(account.key, None, process=ledger.token(), now=time.time())])
