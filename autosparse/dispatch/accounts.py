"""Accounts of problems over processes: looked up before tuning is thought of, written when the process ends.

A short program earns too little time to pay for tuning, and a second run of it used to begin from nothing. So what a
process spends on a problem is added to a file in the cache (`cache.accounts`), and the next process counts it as its
own. The same row says where the problem's plan lies: `tuning.memory.recall` lets that plan serve without the modules
that search for plans.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from autosparse import forking
from autosparse._native import runtime_api
from autosparse.cache import stores, trust
from autosparse.cache.accounts.rows import ACCOUNTS, MAX_BYTES, PlanNote, Spent
from autosparse.dispatch import state as states
from autosparse.errors import TUNING_FAILURES

if TYPE_CHECKING:
    from autosparse.config import Options
    from autosparse.dispatch.state import DispatchState
    from autosparse.operands.unfolding import AnyOperand

RUN_SHARE: Final = 0.08
"""Fraction of the lifetime of earlier processes that one process may spend on tuning that these have earned."""
REINVEST_SHARE: Final = 0.5
"""Fraction of the time saved in earlier processes that may be spent on tuning (`tuning.amortization` has the same)."""
RECALL_S: Final = 5e-3
"""Price of letting a remembered plan serve, seconds: imports, reading its record, loading its kernel."""
RECALL_ENTRY_S: Final = 3e-8
"""... and for each entry of the matrix: hashing, packing, comparing the kernel's result."""
LONG_RECALL_S: Final = 0.05
"""Price from which on a plan that `tune` found also waits until it pays."""
UNKNOWN_GAIN: Final = 0.2
"""Fraction of a product's time that a plan is expected to save where its gain was never measured."""
MAX_WRITTEN: Final = 256
"""Problems whose accounts one process writes: those that took longest."""


class ProblemAccount:
    """The account of one problem: what earlier processes spent, and what of this one's is not written yet."""

    __slots__ = ("_told_calls", "_told_ns", "_told_saved_s", "_told_tuning_s", "folder", "is_settled", "key", "plan",
                 "recall_s", "root", "spent")  # fmt: skip

    def __init__(self, folder: Path, root: Path, key: bytes) -> None:
        self.folder, self.root, self.key = folder, root, key
        self.spent: Spent = Spent()
        self.plan: PlanNote | None = None
        self.recall_s = 0.0  # spent in this process on letting a remembered plan serve
        self.is_settled = False  # a plan of the effort that is asked for serves, or says that none is faster
        self._told_calls = self._told_ns = 0
        self._told_tuning_s = self._told_saved_s = 0.0

    def limit_s(self) -> float:
        """Seconds that this process may spend on tuning paid by earlier ones, beside what it saves itself."""
        return RUN_SHARE * self.spent.mean_life_s

    def earned_s(self, overhead: float) -> float:
        """Seconds of tuning that earlier processes have earned and not spent."""
        spent = self.spent
        return overhead * spent.product_s + REINVEST_SHARE * spent.saved_s - spent.tuning_s

    def collect(self, state: DispatchState) -> None:
        """Put aside what `state` has spent since the last call, to be written at exit."""
        state.settle()
        tuner, plan = state.live_tuner, self.plan
        if tuner is not None:
            tuning_s, saved_s = tuner.spent_and_saved_s()
        else:
            tuning_s, saved_s = 0.0, 0.0
            if plan is not None and plan.measured_s and plan.default_s:
                saved_s = state.tuned_ns * 1e-9 * max(0.0, plan.default_s / plan.measured_s - 1.0)
        tuning_s += self.recall_s
        is_new = self._told_calls == 0
        more = Spent(
            n_calls=max(0, state.n_calls - self._told_calls), n_objects=int(is_new),
            product_s=max(0, state.product_ns - self._told_ns) * 1e-9,
            tuning_s=max(0.0, tuning_s - self._told_tuning_s), saved_s=max(0.0, saved_s - self._told_saved_s),
        )  # fmt: skip
        self.tell(state, tuning_s, saved_s)
        name = self.folder, self.key
        _pending[name] = _pending.get(name, _NOTHING) + more

    def tell(self, state: DispatchState, tuning_s: float = 0.0, saved_s: float = 0.0) -> None:
        """Take for written what `state` has spent so far."""
        self._told_calls, self._told_ns = state.n_calls, state.product_ns
        self._told_tuning_s, self._told_saved_s = tuning_s, saved_s


_NOTHING: Final = Spent()
_pending: dict[tuple[Path, bytes], Spent] = {}
_known: set[tuple[Path, bytes]] = set()
"""Problems of which this process has written something: it counts as a process once."""
_roots: dict[Path, Path | None] = {}
_is_registered: list[bool] = []


def key_of(
    operand: AnyOperand, options: Options, *, operation: str, transposed: bool, columns: int, dtype: str
) -> bytes:
    """Return the name of a problem in the file of accounts, from samples of the structure: microseconds."""
    facts = (
        operation, getattr(operand, "mode", 0), transposed, max(0, columns - 1).bit_length(), dtype,
        options.threads or runtime_api.max_threads(), options.isa, options.storage, options.hybrid, options.compiler,
    )  # fmt: skip
    digest = hashlib.blake2b(operand.structure_sample(), digest_size=16)
    digest.update(repr(facts).encode())
    return digest.digest()


def place_of(options: Options) -> tuple[Path, Path] | None:
    """Return the cache folder and the root below it; None where options keep nothing, or the folder is not trusted."""
    folder = stores.folder_of(options) if options.cache_max_bytes >= 4 * MAX_BYTES else None
    if folder is None:
        return None
    if folder not in _roots:
        try:
            _roots[folder] = trust.root_of(folder)
        except OSError:
            _roots[folder] = None
    root = _roots[folder]
    return None if root is None else (folder, root)


def first_look(state: DispatchState, operand: AnyOperand) -> bool:
    """Look up what earlier processes know of the problem; return whether tuning need not be thought of yet."""
    state.is_known = True
    account = state.account = _opened(state, operand)
    if account is not None and account.plan is not None and state.serving is None and state.live_tuner is None:
        _recall(state, operand, account)
    look_ns = tuning_look_ns(state)
    if state.product_ns >= look_ns:
        return False
    state.next_look_ns = look_ns
    state.settle()
    return True


def _opened(state: DispatchState, operand: AnyOperand) -> ProblemAccount | None:
    place = place_of(state.options)
    if place is None:
        return None
    key = key_of(
        operand, state.options, operation=state.operation, transposed=state.transposed, columns=state.n_dense_cols,
        dtype=state.dtype.name,
    )  # fmt: skip
    account = ProblemAccount(*place, key)
    if not _is_registered:
        _is_registered.append(True)
        atexit.register(write)
    if (account.root / ACCOUNTS).exists():
        from autosparse.cache.accounts import ledger

        found = ledger.read(account.root, key)
        if found is not None:
            account.spent, account.plan = found.spent, found.plan
    return account


def _recall(state: DispatchState, operand: AnyOperand, account: ProblemAccount) -> None:
    """Let the remembered plan serve where that is expected to pay."""
    assert account.plan is not None
    if not _pays(state, operand, account, account.plan):
        return
    from autosparse.tuning.memory import recall

    start_s = time.perf_counter()
    recall.serve(state, operand, account)
    account.recall_s += time.perf_counter() - start_s


def _pays(state: DispatchState, operand: AnyOperand, account: ProblemAccount, plan: PlanNote) -> bool:
    """Whether the products that are expected would save more than recalling the plan costs."""
    price_s = RECALL_S + RECALL_ENTRY_S * operand.nnz
    if plan.is_asked and price_s < LONG_RECALL_S:
        return True
    gain = 1.0 - plan.measured_s / plan.default_s if plan.default_s and plan.measured_s else UNKNOWN_GAIN
    runs = state.options.runs
    expected_s = runs * state.product_ns * 1e-9 / max(1, state.n_calls) if runs else account.spent.mean_product_s
    return gain * max(expected_s, state.product_ns * 1e-9) > price_s


def tuning_look_ns(state: DispatchState) -> float:
    """Return the product time of this process after which the modules of tuning may be imported."""
    options, account = state.options, state.account
    own_ns = states.tuning_look_ns(options, state.operation, state.n_dense_cols)
    if account is None or account.is_settled:
        return own_ns
    purse_s = min(account.earned_s(options.overhead), account.limit_s() - account.recall_s)
    return 0.0 if purse_s >= states.FIRST_IMPORT_S else own_ns


def write() -> None:
    """Add to the file what this process has spent: at exit. What fails is left out."""
    with contextlib.suppress(*TUNING_FAILURES):
        _write()


def _write() -> None:
    for dispatcher in list(states.DISPATCHERS):
        for state in list(dispatcher.states.values()):
            if state.account is not None:
                state.account.collect(state)
    if not any(spent.n_calls for spent in _pending.values()):
        return
    from autosparse.cache.accounts import ledger

    life_s, now = _life_s(), time.time()
    longest = sorted(_pending.items(), key=lambda item: -item[1].product_s)[:MAX_WRITTEN]
    _pending.clear()
    rows: dict[Path, list[bytes]] = {}
    for (folder, key), spent in longest:
        is_first = (folder, key) not in _known
        _known.add((folder, key))
        whole = spent + Spent(n_processes=int(is_first), life_s=max(life_s, spent.product_s) if is_first else 0.0)
        rows.setdefault(folder, []).append(ledger.spent_row(key, whole, process=ledger.token(), now=now))
    for folder, own in rows.items():
        ledger.append(folder, own)


def _life_s() -> float:
    """Return how long this process has lived; 0 where the system does not tell."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0


@forking.in_child
def _forget_counts() -> None:
    """In a forked child: what the parent spent, the parent writes."""
    _pending.clear()
    _known.clear()
    for dispatcher in list(states.DISPATCHERS):
        for state in list(dispatcher.states.values()):
            account: Any = state.account
            if account is not None:
                tuner = state.live_tuner
                account.recall_s = 0.0
                account.tell(state, *(tuner.spent_and_saved_s() if tuner is not None else ()))
