"""Use a remembered plan without importing what only a search needs.

The account of the problem states where the plan's record lies (`notes`). The checks are those of a normal look-up: the
record's checksum and owner, every field of its key (some replaced by a stamp), digests of the compiled kernel's files,
remembered failures, and the kernel's result beside the default kernel's. If any check fails, the problem is tuned
normally. Kernels on slices, which most plans of products with a vector are, serve without formats, schedules and the
record (`kernel_notes`). Other kernels, and those without such a note, serve by `recall_any`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from autosparse._native import runtime_api
from autosparse._native.ir import key_of
from autosparse._native.kernels.slice_names import MAX_EXTENT, Slices
from autosparse.cache.accounts.rows import NEEDS_SORTED, NOTHING_FASTER, PlanNote
from autosparse.cache.folder import Folder
from autosparse.config import Effort
from autosparse.core.problem import Problem, columns_bucket
from autosparse.dispatch.accounts import ProblemAccount
from autosparse.dispatch.state import DispatchState
from autosparse.errors import TUNING_FAILURES, RecordError
from autosparse.log import event
from autosparse.operands.csr import Operand, expected_look_s
from autosparse.scalar import DICTIONARY
from autosparse.tuning.memory import stamps
from autosparse.tuning.problems import problem_of

if TYPE_CHECKING:
    from autosparse.operands.unfolding import AnyOperand
    from autosparse.tuning.memory.slice_trial import SliceTrial
    from autosparse.tuning.trials.kernel_trial import KernelTrial

FIELDS: Final = {
    "operation", "format", "loop_order", "dense_splits", "parallel", "partition", "chunk", "threads", "unroll",
    "prefetch", "version",
}  # fmt: skip
"""Fields of the record of a generated kernel's schedule."""
AT_RUN_TIME: Final = ("partition", "chunk", "threads", "version")
"""Fields on which generated code does not depend (`schedule.RUN_TIME`), and the version of the record's text."""
SCHEDULE_VERSION: Final = 1
"""Version of the schedule's text that this module reads (`schedule.SCHEDULE_VERSION`)."""


def serve(state: DispatchState, operand: AnyOperand, account: ProblemAccount) -> None:
    """Set the plan that `account` names as the kernel of the next products of `state`, if it passes all checks."""
    note = account.plan
    assert note is not None
    try:
        found = _ready(state, operand, account, note)
    except (RecordError, *TUNING_FAILURES) as err:
        event("fallback", f"a remembered plan is not used: {type(err).__name__}: {err}")
        return
    if found is not None:
        state.serving = state.recalled = found
        account.is_served = True
        event("plan", "remembered", schedule=found.schedule.to_json())


def _ready(state: DispatchState, operand: AnyOperand, account: ProblemAccount, note: PlanNote) -> KernelTrial | None:
    """Return the ready trial of the plan; None if a check fails."""
    if state.options.vendor or stamps.has_registered_solvers():
        return None  # its key names solvers that are loaded with the rest of tuning
    problem, folder = problem_of(operand, state), Folder(account.root)
    record = _record(state, problem, folder, note)
    if record is None:
        return None
    account.is_finished = Effort(record.get("effort", "off")).rank >= state.options.effort.rank
    if note.flags & NOTHING_FASTER or record.get("schedule") is None:
        return None
    from autosparse.tuning.memory import recall_any

    return recall_any.ready(state, operand, account, (folder, record))


def _record(state: DispatchState, problem: Problem, folder: Folder, note: PlanNote) -> Mapping[str, Any] | None:
    """Return the record of the noted plan; None if it is absent, or not of this problem on this machine."""
    if stamps.stamp_of(problem, state.options) != note.stamp:
        return None
    found = folder.read_record("plan", note.plan.hex())
    return found.record if found is not None and _is_same_problem(problem, found.record.get("key")) else None


def recorded_schedule(
    state: DispatchState, operand: Operand, account: ProblemAccount, note: PlanNote, light: SliceTrial
) -> str | None:
    """Return the JSON of the schedule of `light`, from the record of the noted plan.

    None if the record is gone or damaged, or if another process has replaced it by that of another kernel.
    """
    problem, folder = problem_of(operand, state), Folder(account.root)
    try:
        record = _record(state, problem, folder, note)
        schedule: Any = None if record is None else record.get("schedule")  # Any: a value of JSON
        slices = slices_of(problem, operand, note, schedule, is_looked_at=True)
        if record is None or slices is None or not isinstance(light.slices, Slices):
            return None
        if slices.text() != light.slices.text():
            return None
        key, isa = kernel_key(problem, schedule, slices), problem.target.isa
        is_shipped = light.library is None and light.kernel_name == key
        is_compiled = light.library is not None and light.library == stamps.compiled(folder, key, record["key"], isa)
    except (RecordError, *TUNING_FAILURES) as err:
        event("fallback", f"a remembered plan is not used: {type(err).__name__}: {err}")
        return None
    return _text(schedule) if is_shipped or is_compiled else None


def _text(schedule: Mapping[str, Any]) -> str:
    return json.dumps(schedule, sort_keys=True, separators=(",", ":"))


def _is_same_problem(problem: Problem, key: object) -> bool:
    """Return whether `key`, the key of a plan's record, belongs to this problem."""
    wanted = {
        "pattern": problem.pattern.sparsity_hash, "operation": problem.name, "transposed": problem.transposed,
        "columns_bucket": columns_bucket(problem.n_dense_cols), "dtype": problem.dtype,
        "index_dtype": problem.pattern.index_dtype, "threads": problem.threads,
        "deterministic": problem.deterministic, "target": problem.target.key(), "solvers": "",
    }  # fmt: skip
    return isinstance(key, dict) and all(key.get(name) == value for name, value in wanted.items())


def slices_of(
    problem: Problem, operand: AnyOperand, note: PlanNote, schedule: object, *, is_looked_at: bool = False
) -> Slices | None:
    """Return the slices of a plan that `SliceTrial` can use, None for other plans.

    A matrix whose arrays other code can write is checked for writes, which such a trial cannot do. `is_looked_at`:
    another trial does that.
    """
    if not isinstance(schedule, dict) or set(schedule) != FIELDS or schedule["version"] != SCHEDULE_VERSION:
        return None
    numbers = schedule["chunk"], schedule["threads"]
    slices = Slices.of(schedule["format"]) if all(isinstance(one, int) and one >= 0 for one in numbers) else None
    if slices is None:
        return None
    is_product = schedule["operation"] == problem.operation and problem.n_dense_cols == 1 and not problem.transposed
    is_simple = schedule["parallel"] == "i1" and not schedule["dense_splits"] and not note.flags & NEEDS_SORTED
    is_encoded_here = not slices.is_encoded or problem.storage == DICTIONARY
    is_own = isinstance(operand, Operand) and operand.dtype == problem.dtype
    is_own = is_own and (is_looked_at or expected_look_s(operand) == 0.0)
    is_held = is_own and max(problem.pattern.shape) <= MAX_EXTENT
    return slices if is_product and is_simple and is_encoded_here and is_held else None


def kernel_key(problem: Problem, schedule: Mapping[str, Any], slices: Slices) -> str:
    """Return the key of the generated kernel of a schedule on slices, as `KernelSpec.key` does."""
    code = {name: value for name, value in schedule.items() if name not in AT_RUN_TIME}
    more = () if runtime_api.gathers() else ("loads",)
    types = problem.dtype, problem.pattern.index_dtype, problem.target.isa
    return key_of(problem.operation, code | {"format": slices.text(is_compiled=True)}, types, *more)


def chunk_of(schedule: Mapping[str, Any]) -> int:
    """Return the slices of one task; 0 if threads have equal shares."""
    return int(schedule["chunk"]) if schedule["partition"] == "dynamic" else 0
