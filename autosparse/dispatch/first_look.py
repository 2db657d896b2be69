"""First look at a problem, before tuning is considered: its account across processes, and its remembered plan.

Reading the account costs a process 1.5 ms where earlier processes left one, else one file lookup. A plan that the
account names serves at once, by `tuning.memory.recall`, without importing the modules that search for plans.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from autosparse import forking
from autosparse._native import runtime_api
from autosparse.configured import MAX_BYTES, accounts_content
from autosparse.containment import contained
from autosparse.dispatch import accounts, number
from autosparse.dispatch import state as states
from autosparse.dispatch.accounts import ADVANCE, MAX_ADVANCE, PENDING, ProblemAccount, place_of
from autosparse.isa import ISAS
from autosparse.operands.csr import Operand, expected_look_s
from autosparse.ops import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from autosparse.cache.accounts.rows import PlanNote
    from autosparse.dispatch.accounts import Amounts
    from autosparse.dispatch.protocols import FirstRace
    from autosparse.dispatch.state import DispatchState
    from autosparse.operands.unfolding import AnyOperand

RECALL_S: Final = number("first look", "recall s")
"""Cost in seconds of recalling a remembered plan: imports, reading its record, loading its kernel."""
RECALL_ENTRY_S: Final = number("first look", "recall s per entry")
"""Additional cost in seconds per entry of the matrix: hashing, packing, comparing the kernel's result."""
FIRST_SEARCH_S: Final = number("first look", "first search s")
"""Cost in seconds of a search up to its first candidate, including loading the modules of tuning.

Earlier processes must have earned all of it: a process that only loads the modules leaves nothing for the next one.
"""
LATER_SEARCH_S: Final = number("first look", "later search s")
"""Cost in seconds of a whole search after an early race: modules, space, ranking, packing and samples."""
SETUP_S: Final = number("first look", "set-up s")
"""Part of FIRST_SEARCH_S before the first candidate, in seconds, which one process must be allowed to spend."""
LONG_RECALL_S: Final = number("first look", "long recall s")
"""Recall cost in seconds from which on even a plan that `tune` found must be expected to pay."""
EARLY_S: Final = number("first look", "early race s")
"""Cost in seconds of the first early race of a process, including its modules; LATER_EARLY_S of each later one."""
LATER_EARLY_S: Final = number("first look", "later early race s")
EARLY_ENTRY_S: Final = number("first look", "early race s per entry")
EARLY_ROW_S: Final = number("first look", "early race s per row")
"""Additional costs in seconds, per entry (packing, comparing the kernel's result) and per row (sorting, comparing)."""
EARLY_FEW: Final = number("first look", "early race of few values")
"""Fraction of both costs above if values are dictionary-encoded: a table has 16 (`dictionary.TABLE`)."""
COLUMNS_ENTRY_S: Final = number("first look", "early race of columns s per entry")
"""Additional cost in seconds per entry of a race of products with several columns."""
EARLY_ENTRIES: Final = (10_000, 1 << 22)
"""Numbers of entries from and up to which an early race pays.

Smaller matrices stay in a core's own cache. The price of packing larger ones in new memory is not known before.
"""
ENCODED_ENTRIES: Final = 1 << 24
"""The same upper limit for dictionary-encoded values: a packed copy takes a tenth of the matrix."""
MIN_COLUMNS: Final = 5
"""Minimum number of columns that fill more than half of the narrowest tile of a shipped kernel (`WIDE`)."""
GAIN_LEFT: Final = number("first look", "gain left")
"""Fraction of a product's time that a search is expected to save after an early race was won.

With RUNS_TO_COME further products for each one so far, it decides when the modules of tuning are loaded.
"""
RUNS_TO_COME: Final = number("amortisation", "runs to come")
UNKNOWN_GAIN: Final = number("first look", "unknown gain")
"""Fraction of a product's time that a plan is expected to save where its gain was never measured."""
_written: Final[set[tuple[Path, bytes]]] = set()
"""Problems that this process has written an account of; it counts itself as a process once per problem."""
_registered: Final[list[bool]] = []


def is_enough(
    state: DispatchState, operand: AnyOperand, trial: object = None, took_s: float = 0.0, n_vecs: int = 0
) -> bool:
    """Use the plan of earlier processes if that pays; return whether tuning the problem need not be considered yet.

    `trial`: the kernel that computed the last product (None: the default kernel), in `took_s`, of `n_vecs` columns (0:
    those of the state's first product).
    """
    if not state.is_known and state.options.overhead > 0:  # with overhead 0 nothing is recalled unless asked
        due_ns, state.next_look_ns, state.is_known = state.next_look_ns, states.FOREVER_NS, True  # blocks other threads
        try:
            account = state.account = _opened(state, operand)
            if account is not None and account.plan is not None and state.serving is None:
                _recall(state, operand, account, account.plan)
        except BaseException:  # Ctrl-C: the next product looks again
            state.next_look_ns, state.is_known = due_ns, False
            raise
    # A sample of another width says nothing about this one's.
    served_by = trial if not n_vecs or n_vecs == state.n_dense_cols else ANOTHER_WIDTH
    if _is_racing(state, operand, served_by, took_s):
        return True
    look_ns, race_ns = _tuning_look_ns(state), early_look_ns(state, operand)
    if race_ns < states.FOREVER_NS and operand.nnz >= EARLY_ENTRIES[1]:
        look_ns = states.FOREVER_NS  # a search costs less to begin than the race, but more until it has a candidate
    check_ns = state.early.check_ns if state.early is not None else states.FOREVER_NS
    state.next_look_ns = min(look_ns, race_ns, check_ns)
    if state.recalled is not None and state.recalled.service is not None:
        state.recalled.service.steer(state.recalled, operand)
    state.commit()
    return state.product_ns < look_ns


def early_look_ns(state: DispatchState, operand: AnyOperand) -> float:
    """Return the product time (ns) of this process after which a shipped kernel races; inf: it does not.

    It pays on the whole advance, so that the total of any number of products is at most (1 + (1 + MAX_ADVANCE) *
    overhead) times the untuned total. Solves allow no advance: their whole time so far pays, and what is certain.
    """
    options, account = state.options, state.account
    is_served = state.early is not None or state.live_tuner is not None or state.recalled is not None
    is_served = is_served or not state.may_race
    plan = None if account is None else account.plan
    is_planned = account is not None and ((plan is not None and not plan.is_early) or account.is_finished)
    if is_served or is_planned or options.overhead <= 0 or options.runs is not None or options.vendor:
        return states.FOREVER_NS
    is_product = state.operation == names.MATMUL and (not state.transposed or _rows_of_transpose(state, operand))
    if not is_product or operand.nnz < EARLY_ENTRIES[0] or expected_look_s(operand) > 0.0:
        return states.FOREVER_NS
    if operand.nnz >= EARLY_ENTRIES[1] and not (
        state.n_dense_cols == 1 and operand.nnz < ENCODED_ENTRIES and _is_encoded(state, operand)
    ):
        return states.FOREVER_NS
    share = options.overhead * (1.0 + (0.0 if is_of_solver(state) else MAX_ADVANCE))
    due_ns = early_price_s(state, operand) / share * 1e9
    certain_ns = state.expected.certain_ns(state.n_calls, state.product_ns) if state.expected is not None else 0.0
    return 0.0 if certain_ns >= due_ns else due_ns - (state.solver_ns or 0)


def is_of_solver(state: DispatchState) -> bool:
    """Return whether a solver runs or has run products of the problem."""
    return state.expected is not None or state.solver_ns is not None


_EARLY: Final = "autosparse.tuning.memory.early"
_TUNING: Final = "autosparse.tuning.setup"
ANOTHER_WIDTH: Final = object()  # kernel of a product whose width is not that of the race


def early_price_s(state: DispatchState, operand: AnyOperand) -> float:
    """Return the cost in seconds of an early race, with its modules and those of the first look before it."""
    first_s = LATER_EARLY_S if _EARLY in sys.modules else EARLY_S
    if state.n_dense_cols > 1:
        return first_s + COLUMNS_ENTRY_S * operand.nnz
    rows_s = EARLY_ROW_S * getattr(operand, "n_minor" if state.transposed else "n_major", 0)
    return first_s + (EARLY_FEW if _is_encoded(state, operand) else 1.0) * (EARLY_ENTRY_S * operand.nnz + rows_s)


def _is_encoded(state: DispatchState, operand: AnyOperand) -> bool:
    """Return whether the race seems to be one with dictionary-encoded values, by a sample of 64 of them."""
    is_sorted = state.early_shape is not None and state.early_shape[1] != 1
    if is_sorted or state.dtype.kind != "f" or not isinstance(operand, Operand):
        return False
    sample = operand.data[: operand.nnz : max(1, operand.nnz // 64)].tolist()
    return len(set(sample)) < 16 and ISAS[state.options.isa or runtime_api.best_isa()].has_table_permutation


def _is_racing(state: DispatchState, operand: AnyOperand, trial: object, took_s: float) -> bool:
    """Begin or continue the race with a shipped kernel where it is due; return whether the next product is part."""
    if state.early is None and state.product_ns >= early_look_ns(state, operand):
        state.next_look_ns, start_s = states.FOREVER_NS, time.perf_counter()  # blocks other threads
        if isinstance(operand, Operand) and not (state.is_looked_at and operand.is_untouched):
            if state.is_looked_at:  # written, or handed out, since the product before
                state.may_race = False
                return False
            operand.refresh()
            state.is_looked_at = True
            return False  # the race may begin after the next product
        if (shape := state.early_shape or _shape(state, operand)) is None:
            state.may_race = False
            return False
        state.early_shape = shape
        if state.product_ns < early_look_ns(state, operand):
            return False
        with forking.loading():
            from autosparse.tuning.memory import early

        state.early = race = early.EarlyRace(shape=shape, only_encoded=operand.nnz >= EARLY_ENTRIES[1])
        race.begin(state, operand, start_s)
    elif state.early is not None and state.early.is_racing:
        state.early.look(state, operand, trial, took_s)
    elif state.early is not None:
        state.early.check(state, operand)
    return state.early is not None and state.early.is_racing


def _shape(state: DispatchState, operand: AnyOperand) -> tuple[int, int] | None:
    """Return rows of a slice and sigma of a shipped kernel that suits the operand's rows, before the race is loaded.

    For several columns, these are the rows of a block, if rows have the same columns. Few different values are stored
    in slices even where blocks suit the rows.
    """
    if state.n_dense_cols > 1:
        return _shared(state, operand)
    from autosparse.tuning.memory import row_padding

    isa = ISAS[state.options.isa or runtime_api.best_isa()]
    if not isinstance(operand, Operand) or not isa.is_shipped:
        return None
    arrays = _rows_of_transpose(state, operand) if state.transposed else (operand.indptr, operand.indices)
    if arrays is None:
        return None
    value_bytes, n_columns = state.dtype.itemsize, operand.n_major if state.transposed else operand.n_minor
    lanes = isa.vector_bytes // value_bytes
    is_open = state.dtype.kind == "f" and operand.nnz < EARLY_ENTRIES[1]
    fits_blocks = is_open and row_padding.fits_blocks(arrays, n_columns, value_bytes, lanes)
    shape = None if fits_blocks and not _is_encoded(state, operand) else row_padding.slices(arrays[0], lanes)
    return (lanes, row_padding.IN_BLOCKS) if fits_blocks and (shape is None or shape[1] > 1) else shape


def _rows_of_transpose(state: DispatchState, operand: AnyOperand) -> tuple[Any, ...] | None:
    """Return the arrays of the rows of Mᵀ from which the default kernel computes products with a vector, if any."""
    if state.turning is None or state.n_dense_cols > 1 or not isinstance(operand, Operand):
        return None
    return state.turning.arrays(operand)


def _shared(state: DispatchState, operand: AnyOperand) -> tuple[int, int] | None:
    isa = ISAS[state.options.isa or runtime_api.best_isa()]
    is_wide = state.n_dense_cols >= MIN_COLUMNS and state.dtype.kind in "fc" and isa.is_shipped
    if not is_wide or not isinstance(operand, Operand) or operand.dtype != state.dtype:
        return None
    return (3, 1) if runtime_api.has_identical_rows(operand.indptr, operand.indices[: operand.nnz]) else None


def _opened(state: DispatchState, operand: AnyOperand) -> ProblemAccount | None:
    options = state.options
    if not options.cache or options.cache_max_bytes < MAX_BYTES:
        return None
    if not _registered:
        _registered.append(True)
        atexit.register(write)
    key, folder = states.key_of(operand, state), states.cache_folder(options)
    if folder is not None and key not in accounts_content(folder):
        return ProblemAccount(folder, None, key)
    with forking.loading():
        from autosparse.cache.accounts import ledger

        place = place_of(options)
    if place is None:
        return None
    found = ledger.read(place[1], key)
    if found is None:
        return ProblemAccount(*place, key)
    account = ProblemAccount(*place, key, spent=found.spent, plan=found.plan, next_step_s=found.next_step_s)
    account.kernel = found.kernel
    return account


def _recall(state: DispatchState, operand: AnyOperand, account: ProblemAccount, plan: PlanNote) -> None:
    """Load the plan of earlier processes and let it serve, if it is expected to save more than loading it costs."""
    if not _pays(state, operand, account, plan):
        return
    if plan.is_early:
        with forking.loading():
            from autosparse.tuning.memory import early

        start_s = time.perf_counter()
        state.early = early.resumed(state, operand, plan)
    else:
        start_s = time.perf_counter()
        if account.kernel is None or not _by_kernel_note(state, operand, account):
            with forking.loading():
                from autosparse.tuning.memory import recall

            recall.serve(state, operand, account)
    account.recall_s += time.perf_counter() - start_s


def _by_kernel_note(state: DispatchState, operand: AnyOperand, account: ProblemAccount) -> bool:
    with forking.loading():
        from autosparse.tuning.memory import kernel_notes

    return kernel_notes.serve(state, operand, account)


def _pays(state: DispatchState, operand: AnyOperand, account: ProblemAccount, plan: PlanNote) -> bool:
    """Return whether products will save more time than recalling the plan costs, or it was requested and loads fast."""
    price_s = RECALL_S + RECALL_ENTRY_S * operand.nnz
    if plan.is_asked and price_s < LONG_RECALL_S:
        return True
    gain = 1.0 - plan.measured_s / plan.default_s if plan.default_s and plan.measured_s else UNKNOWN_GAIN
    runs, product_s = state.options.runs, state.product_ns * 1e-9 / max(1, state.n_calls)
    gain -= expected_look_s(operand) / product_s if product_s else 0.0
    expected_s = runs * product_s if runs else account.spent.mean_product_s
    solver_s = state.expected.n_calls * product_s if state.expected is not None else 0.0
    return gain * max(expected_s, solver_s, state.product_ns * 1e-9) > price_s


def _tuning_look_ns(state: DispatchState) -> float:
    """Return the product time (ns) of this process after which the modules of tuning may be imported."""
    options, account = state.options, state.account
    if options.overhead <= 0:
        return max(states.FIRST_IMPORT_S * 1e9, 2.0 * state.product_ns)  # other options may be in force by then
    own_ns = states.tuning_look_ns(options, state.operation, state.n_dense_cols)
    if is_of_solver(state) and _TUNING not in sys.modules:
        own_ns = max(own_ns, FIRST_SEARCH_S / options.overhead * 1e9 - (state.solver_ns or 0))
    if state.early is not None and state.early.has_candidate and state.n_dense_cols > 1 and not state.early.is_won:
        # One kernel that lost says little about the others: the advance pays for both.
        price_s = FIRST_SEARCH_S + state.early.spent_s
        own_ns = max(own_ns, price_s / (options.overhead * (1.0 + MAX_ADVANCE)) * 1e9)
    elif state.early is not None and state.early.has_candidate:
        own_ns = max(own_ns, _search_look_ns(state, state.early))
    if state.expected is not None:
        certain_ns = state.expected.certain_ns(state.n_calls, state.product_ns)
        own_ns = 0.0 if options.overhead * certain_ns >= FIRST_SEARCH_S * 1e9 else own_ns
    if account is None or account.is_finished:
        return own_ns
    # A process that cannot afford the next step of an unfinished search does not load the modules for it.
    next_s = SETUP_S + account.next_step_s if account.next_step_s else 0.0
    if account.is_served:  # earlier products are as good a reason as those of this process: `_search_look_ns`
        earned_s, price_s = RUNS_TO_COME * GAIN_LEFT * account.spent.product_s, LATER_SEARCH_S
        earned_s -= account.spent.tuning_s
    else:  # on an advance, like every step up to a first candidate that needs no compiler
        earned_s = account.earned_s(options.overhead * (1.0 + ADVANCE * UNKNOWN_GAIN))
        price_s = FIRST_SEARCH_S
    limit_s = account.limit_s(options.overhead) - account.recall_s
    return 0.0 if earned_s >= max(price_s, next_s) and limit_s >= max(SETUP_S, next_s) else own_ns


def _search_look_ns(state: DispatchState, early: FirstRace) -> float:
    """Return the product time (ns) after which a search pays that follows an early race.

    What a won race saves pays for race and search, so that products that have paid for the race stay ahead.
    """
    product_s, price_s = state.product_ns * 1e-9, LATER_SEARCH_S + early.spent_s
    if early.is_won:
        missing_s, rate = price_s - early.saved_s(state.tuned_ns), max(early.ratio - 1.0, 1e-3)
    else:
        missing_s, rate = price_s - state.options.overhead * product_s, state.options.overhead
    by_budget_s = product_s + max(0.0, missing_s) / rate
    return 1e9 * max(by_budget_s, LATER_SEARCH_S / (RUNS_TO_COME * GAIN_LEFT))


def write() -> None:
    """Add the calls and times of this process to the file of accounts, at exit; what fails is left out."""
    with contextlib.suppress(*contained()):
        for state, account in _open_accounts():
            if state.early is not None:
                state.early.finish(state)
            account.collect(state)
        found = {name: amounts for name, amounts in PENDING.items() if amounts[0]}
        PENDING.clear()
        if found:
            _write(found)


def _write(found: dict[tuple[Path, bytes], Amounts]) -> None:
    from autosparse.cache.accounts import ledger
    from autosparse.cache.accounts.rows import Spent, spent_row

    life_s, now, rows = accounts.process_age_s(), time.time(), dict[Path, list[bytes]]()
    for name, (n_calls, n_objects, product_s, tuning_s, saved_s) in accounts.longest(found).items():
        is_new = name not in _written
        _written.add(name)
        spent = Spent(
            n_calls=int(n_calls), n_objects=int(n_objects), n_processes=int(is_new), product_s=product_s,
            tuning_s=tuning_s, saved_s=saved_s, life_s=max(life_s, product_s) if is_new else 0.0,
        )  # fmt: skip
        rows.setdefault(name[0], []).append(spent_row(name[1], spent, process=ledger.token(), now=now))
    for folder, own in rows.items():
        ledger.append(folder, own)


def _open_accounts() -> Iterator[tuple[DispatchState, ProblemAccount]]:
    for dispatcher in list(states.DISPATCHERS):
        for state in list(dispatcher.states.values()):
            if state.account is not None:
                yield state, state.account


@forking.in_child
def _forget_counts() -> None:
    """Discard the parent's counts in a forked child, because the parent writes them."""
    PENDING.clear()
    _written.clear()
    for state, account in _open_accounts():
        account.tell(state)
