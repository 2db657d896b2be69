"""Note the winner of an early race in the problem's account, and let it serve in the next process at once.

A note holds the slices of the winner, the hash of the pattern, and a stamp of everything else that the winner depends
on. There is no record of a plan: a search has not begun, so that the next process tunes further as this one does. The
winner's result is compared with the default kernel's, and it races once more, as in the process that found it.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Final

from autosparse._native import runtime_api
from autosparse._native.kernels import slice_kernel
from autosparse._native.kernels.slice_kernel import SliceKernel
from autosparse._native.kernels.slice_names import MAX_EXTENT, Blocks, Slices
from autosparse._native.storage.dictionary import has_few_kinds
from autosparse._version import __version__
from autosparse.cache.accounts.rows import EARLY, PlanNote, plan_row
from autosparse.core.target import Target
from autosparse.errors import TUNING_FAILURES, RecordError
from autosparse.log import event
from autosparse.operands.csr import Operand, expected_look_s
from autosparse.tuning.memory.row_padding import BLOCK_BITS, IN_BLOCKS
from autosparse.tuning.memory.slice_trial import SliceTrial

if TYPE_CHECKING:
    from autosparse.dispatch.state import DispatchState
    from autosparse.operands.unfolding import AnyOperand

VERSION: Final = 1
"""Version of these notes; increase it if their meaning changes."""
ROWS_AT: Final = 8
"""First bit of the rows of a slice in the flags of a note; they take eight bits, and SIGMA_AT those of the window."""
SIGMA_AT: Final = 16
ENCODED: Final = 1 << 40
"""Flag of a note whose winner reads dictionary-encoded values."""


def flags_of(slices: Slices | Blocks) -> int:
    """Return the flags of a note that state the slices of a winner."""
    sigma = slices.sigma if isinstance(slices, Slices) else IN_BLOCKS
    return EARLY | slices.rows << ROWS_AT | sigma << SIGMA_AT | (ENCODED if slices.is_encoded else 0)


def slices_of(flags: int) -> Slices | Blocks:
    """Invert `flags_of`."""
    rows, sigma = flags >> ROWS_AT & 0xFF, flags >> SIGMA_AT & 0xFFFFFF
    return Blocks(rows, 0, BLOCK_BITS) if sigma == IN_BLOCKS else Slices(rows, sigma, is_encoded=bool(flags & ENCODED))


def write(state: DispatchState, operand: AnyOperand, slices: Slices | Blocks, times_s: tuple[float, float]) -> None:
    """Note a winner whose account names no plan; `times_s`: seconds of the default kernel, and of the winner."""
    from autosparse.cache.accounts import ledger

    account = state.account
    if account is None or not isinstance(operand, Operand):
        return
    try:
        known, (default_s, measured_s) = ledger.read(account.root, account.key), times_s
    except OSError:  # the folder is not trusted
        return
    note = PlanNote(
        plan=bytes.fromhex(operand.pattern.sparsity_hash), stamp=_stamp(state, operand), default_s=default_s,
        measured_s=measured_s, flags=flags_of(slices),
    )  # fmt: skip
    old = known.plan if known is not None else None
    if old is not None and (
        not old.is_early or (old.plan, old.stamp, old.flags) == (note.plan, note.stamp, note.flags)
    ):
        return  # a search has found a plan, or an earlier process noted the same winner
    row = plan_row(account.key, note, process=ledger.token(), now=time.time())
    if ledger.append(account.folder, [row]):
        account.plan = note


def forget(state: DispatchState) -> None:
    """Remove the note of a winner that has lost, if the account names it."""
    account = state.account
    if account is not None and account.plan is not None and account.plan.is_early:
        account.forget_plan()


def recalled(state: DispatchState, operand: AnyOperand, note: PlanNote) -> SliceTrial | None:
    """Return the trial of the noted winner, ready to serve; None if a check fails."""
    try:
        return _ready(state, operand, note)
    except (RecordError, *TUNING_FAILURES) as err:
        event("fallback", f"a noted kernel is not used: {type(err).__name__}: {err}")
        return None


def _ready(state: DispatchState, operand: AnyOperand, note: PlanNote) -> SliceTrial | None:
    if not isinstance(operand, Operand) or operand.dtype != state.dtype or state.options.vendor:
        return None
    is_here = expected_look_s(operand) == 0.0 and slice_kernel.may_serve(state.options.compiler)
    if not is_here or max(operand.n_major, operand.n_minor) > MAX_EXTENT or _stamp(state, operand) != note.stamp:
        return None
    slices, names = slices_of(note.flags), (state.dtype.name, operand.indptr.dtype.name)
    address = slice_kernel.address_of(slices, *names, slice_kernel.isa_of(state.options.isa).name)
    if not address or bytes.fromhex(operand.pattern.sparsity_hash) != note.plan:
        return None
    if slices.is_encoded and not has_few_kinds(operand.data[: operand.nnz]):
        return None
    trial = SliceTrial(slices, state, operand)
    trial.pack(operand, SliceKernel.shipped(slices, address))  # compares its result with the default kernel's
    if trial.is_wrong:
        forget(state)
    return trial if trial.ready else None


def _stamp(state: DispatchState, operand: Operand) -> bytes:
    """Return a digest of what decides whether the winner of another process still exists and wins here."""
    options = state.options
    facts = (
        VERSION, __version__, runtime_api.ffi.string(runtime_api.lib.asp_identity()), state.dtype.name,
        operand.indptr.dtype.name, slice_kernel.isa_of(options.isa).name, runtime_api.gathers(),
        options.threads or runtime_api.max_threads(), Target.host().held_to(options.isa).key(),
    )  # fmt: skip
    return hashlib.blake2b(repr(facts).encode(), digest_size=16).digest()
