"""Note the kernel of a plan on slices in the problem's account, so that it serves before the plan's record is read.

Reading a record, and computing the key of its plan, takes a third of the time until a remembered plan serves. A note
holds the name of the kernel, the digest of its file, its slices, and a stamp of everything that the plan depends on.
The record must exist, but is read only before a search, or where values change.
"""

from __future__ import annotations

import hashlib
import json
import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from autosparse import forking
from autosparse._native import runtime_api
from autosparse._native.kernels import slice_kernel
from autosparse._native.kernels.slice_names import MAX_EXTENT, Slices
from autosparse._native.storage.dictionary import has_few_kinds
from autosparse._version import __version__
from autosparse.cache import trust
from autosparse.config import Effort
from autosparse.core.target import Target
from autosparse.errors import TUNING_FAILURES, RecordError
from autosparse.log import event
from autosparse.notices import FallbackWarning, warn_once
from autosparse.operands.csr import Operand, expected_look_s
from autosparse.tuning.memory import stamps
from autosparse.tuning.memory.slice_trial import SliceTrial, expanded

if TYPE_CHECKING:
    from autosparse.cache.accounts.rows import KernelNote, PlanNote
    from autosparse.core.schedule import SuperSchedule
    from autosparse.dispatch.accounts import ProblemAccount
    from autosparse.dispatch.state import DispatchState
    from autosparse.operands.unfolding import AnyOperand
    from autosparse.tuning.trials.context import TuningContext

VERSION: Final = 1
"""Version of these notes; increase it if their meaning changes."""
FIELDS: Final = (("rows", 8), ("sigma", 21), ("chunk", 16), ("threads", 12), ("effort", 3), ("is_encoded", 1),
                 ("has_diagonals", 1), ("is_wide", 1))  # fmt: skip
"""Numbers of a note in one integer of 64 bits, each with its bits, the last one lowest."""
SHIPPED: Final = bytes(16)
"""Digest of a kernel that has no file of its own."""
MAX_FILE_BYTES: Final = 256 << 20
"""Maximum size of a kernel's file, in bytes (`cache.artefacts.MAX_FILE_BYTES`)."""
COMPILERS: Final = ("cc", "gcc", "clang")
"""Commands of compilers that are looked for (`c.build.COMPILERS`)."""


def packed(numbers: dict[str, int]) -> int | None:
    """Return the numbers of a note as one integer; None if one of them is too large."""
    word = 0
    for name, bits in FIELDS:
        if numbers[name] >> bits:
            return None
        word = word << bits | numbers[name]
    return word


def unpacked(word: int) -> dict[str, int]:
    """Invert `packed`."""
    found = {}
    for name, bits in reversed(FIELDS):
        found[name], word = word & (1 << bits) - 1, word >> bits
    return found


# -- written by a process that tunes ---------------------------------------------------------------------------------


def made(context: TuningContext, plan: PlanNote, schedule: SuperSchedule, *, effort: str) -> KernelNote | None:
    """Return the note of the kernel of a plan; None if it does not read slices, or the note cannot hold it."""
    from autosparse.cache.folder import Folder
    from autosparse.dispatch import accounts
    from autosparse.tuning.memory import plan_lookup, recall

    operand, problem, place = context.operand(), context.problem, accounts.place_of(context.options)
    fields = json.loads(schedule.to_json())
    slices = recall.slices_of(problem, operand, plan, fields) if operand is not None else None
    if slices is None or place is None or not isinstance(operand, Operand):
        return None
    numbers = {
        "rows": slices.rows, "sigma": slices.sigma, "chunk": recall.chunk_of(fields), "threads": fields["threads"],
        "effort": Effort(effort).rank, "is_encoded": int(slices.is_encoded),
        "has_diagonals": int(slices.has_diagonals), "is_wide": int(slices.bits != Slices(2).bits),
    }  # fmt: skip
    word, stamp, name = (
        packed(numbers),
        _stamp(context.options, operand, plan),
        recall.kernel_key(problem, fields, slices),
    )
    if word is None or stamp is None:
        return None
    is_shipped = slice_kernel.may_serve(context.options.compiler)
    if is_shipped and runtime_api.lib.asp_shipped_kernel(name.encode()):
        return bytes.fromhex(name), SHIPPED, stamp, word
    key = plan_lookup.key_of(context).to_json()
    file = stamps.compiled(Folder(place[1]), name, key, problem.target.isa)
    if file is None:
        return None
    return bytes.fromhex(file.parent.name), _digest(file.read_bytes()), stamp, word


# -- read by a process that has not tuned ----------------------------------------------------------------------------


def serve(state: DispatchState, operand: AnyOperand, account: ProblemAccount) -> bool:
    """Let the noted kernel compute the next products; return False if the plan's record must be read for that."""
    try:
        found = _trial(state, operand, account)
        if found is None:
            return False
        trial, address, numbers = found
        kernel = slice_kernel.SliceKernel(address, chunk=numbers["chunk"], max_threads=numbers["threads"])
        assert isinstance(operand, Operand)
        trial.pack(operand, kernel)  # compares its result with the default kernel's
    except (RecordError, *TUNING_FAILURES) as err:
        event("fallback", f"a noted kernel is not used: {type(err).__name__}: {err}")
        return False
    account.is_finished = numbers["effort"] >= state.options.effort.rank
    if trial.is_wrong:
        account.forget_plan()
        warn_once(FallbackWarning, "wrong kernel", FallbackWarning.wrong_kernel("remembered", str(trial.failed)))
    if trial.ready:
        trial.expand = _Expansion(state, operand, account)
        state.serving = state.recalled = trial
        account.is_served = True
        event("plan", "remembered", slices=trial.slices)
    return True


def _trial(
    state: DispatchState, operand: AnyOperand, account: ProblemAccount
) -> tuple[SliceTrial, int, dict[str, int]] | None:
    """Return a trial that is not packed yet, the address of its kernel, and the note's numbers; None: a check fails."""
    plan, note = account.plan, account.kernel
    if plan is None or note is None or not isinstance(operand, Operand) or operand.dtype != state.dtype:
        return None
    is_here = expected_look_s(operand) == 0.0 and not state.options.vendor and not stamps.has_registered_solvers()
    if not is_here or max(operand.n_major, operand.n_minor) > MAX_EXTENT:
        return None
    name, digest, stamp, word = note
    if not _exists(account.root, "plan", plan.plan.hex()) or _stamp(state.options, operand, plan) != stamp:
        return None
    numbers = unpacked(word)
    slices = Slices(
        numbers["rows"], numbers["sigma"], is_encoded=bool(numbers["is_encoded"]),
        has_diagonals=bool(numbers["has_diagonals"]), bits=32 if numbers["is_wide"] else 16,
    )  # fmt: skip
    if slices.is_encoded and not has_few_kinds(operand.data[: operand.nnz]):
        return None
    trial = SliceTrial(slices, state, operand)
    if digest == SHIPPED:
        is_used = slice_kernel.may_serve(state.options.compiler) and not _exists(account.root, "failure", name.hex())
        address = int(runtime_api.lib.asp_shipped_kernel(name.hex().encode())) if is_used else 0
        trial.kernel_name = name.hex()
    else:
        trial.library = account.root / "kernels" / name.hex()[:2] / name.hex() / "kernel.so"
        address = _loaded(account.root, trial.library, digest)
    return (trial, address, numbers) if address else None


def _exists(root: Path, kind: str, name: str) -> bool:
    return (root / "records" / f"{kind}-{trust.SCHEMAS[kind]}" / name[:2] / f"{name}.json").exists()


def _loaded(root: Path, path: Path, digest: bytes) -> int:
    """Return the address of the kernel in a shared object with this digest, which is never unloaded; 0: it differs."""
    is_known = _digest(trust.read_trusted(root, path, max_bytes=MAX_FILE_BYTES)) == digest
    return slice_kernel.loaded(path) if is_known else 0


def _stamp(options: Any, operand: Operand, plan: PlanNote) -> bytes | None:
    """Return a digest of what a note depends on beside the key of its account; None if kernels are not compiled from C.

    It is not `stamps.stamp_of`, which needs the pattern, the problem and the module that runs compilers.
    """
    if options.dump_dir is not None or options.deterministic:
        return None
    indices = operand.indices[: operand.nnz]
    hashes = operand.known_hashes or runtime_api.structure_hashes(operand.indptr, indices)
    pattern = runtime_api.sparsity_hash((operand.n_major, operand.n_minor), operand.indptr, indices, hashes)
    facts = (
        VERSION, __version__, plan.plan, plan.stamp, pattern, runtime_api.ffi.string(runtime_api.lib.asp_identity()),
        operand.dtype.name, operand.indptr.dtype.name, runtime_api.gathers(),
        options.threads or runtime_api.max_threads(), Target.host().held_to(options.isa).key(),
        _compiler(options.compiler), stamps.sources(),
    )  # fmt: skip
    return hashlib.blake2b(repr(facts).encode(), digest_size=16).digest()


def _compiler(wanted: str | None) -> tuple[object, ...]:
    """Return facts that change where another compiler is found: its place, its file's identity, size and date."""
    folders = os.get_exec_path()
    for name in COMPILERS if wanted is None else (wanted,):
        for folder in folders:
            try:
                known = Path(folder, name).stat()
            except OSError:
                continue
            return name, folder, known.st_dev, known.st_ino, known.st_size, known.st_mtime_ns
    return wanted, folders


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


class _Expansion:
    """Function that lets a `KernelTrial` serve in place of a light trial, once the plan's record is read.

    `Dispatcher.__del__` ends the cycle of state, trial and function; the function does not keep the operand alive.
    """

    def __init__(self, state: DispatchState, operand: Operand, account: ProblemAccount) -> None:
        self._state, self._operand, self._lock = state, weakref.ref(operand), forking.lock()
        self._account, self._plan = account, account.plan

    def __call__(self) -> Any:  # Any: a KernelTrial, or None
        from autosparse.tuning.memory import recall

        state, operand, plan = self._state, self._operand(), self._plan
        with self._lock:
            light = state.recalled
            if operand is None or plan is None or not isinstance(light, SliceTrial):
                return light  # another thread has expanded it
            with forking.loading():
                text = recall.recorded_schedule(state, operand, self._account, plan, light)
                gain_s = plan.default_s - plan.measured_s if plan.measured_s else None
                if text is None:
                    light.drop()
                    full = None
                else:
                    light.schedule_text = text
                    full = expanded(light, state, operand, gain_s)
            state.serving, state.recalled = full if state.serving is light else state.serving, full
            return full
