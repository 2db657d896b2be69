"""The rates that models use: a given record, this machine's stored record, shipped ones; and their measurement.

A record belongs to one processor, instruction set and number of cores (`Target.key`), to the maker of the machine,
which tells hypervisors apart, and to the number of threads, which CPU quotas of control groups bound. It is stored
beside the plans. The option `rates` names another record, or turns records off.
"""

from __future__ import annotations

import functools
import json
import os
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from autosparse import cache
from autosparse._native import runtime_api
from autosparse.config import Options
from autosparse.core.target import Target
from autosparse.log import event
from autosparse.notices import CacheWarning, warn_once
from autosparse.tuner.features.setting import MachineRates
from autosparse.tuning.rates.probed import ProbedRates, RatesInUse

KIND: Final = "rates"
"""Kind of the record in the cache, and of the tuning step that measures."""
OFF: Final = Path("off")
"""Value of the option `rates`: use the shipped rates, and measure nothing."""
MEASURE: Final = Path("measure")
"""Value of the option `rates`: measure once per process, although a record exists."""

Record = dict[str, Any]  # Any: JSON values

_measured_now: Final[weakref.WeakKeyDictionary[cache.Store, set[str]]] = weakref.WeakKeyDictionary()
"""Keys of the records that this process has measured, by store."""


def rates_in_use(options: Options, target: Target, store: cache.Store | None = None) -> RatesInUse:
    """Return the rates for `target` under `options`; a stored record is read once per process."""
    threads = machine_threads()
    if options.rates == OFF:
        return RatesInUse(None, threads, "shipped (AUTOSPARSE_RATES=off)")
    if options.rates not in (None, MEASURE):
        return _given(options.rates, target, threads)
    store = store or cache.open_store(options)
    key = key_of(target, threads)
    known = _known(store, key, target)
    is_again = options.rates == MEASURE and not _is_new(store, key)
    if known is not None and not is_again:
        return known
    if known is None and _is_shipped(target) and not is_again:
        return RatesInUse(None, threads, "shipped for this processor")
    return RatesInUse(None, threads, "shipped, of the most similar processor; tuning measures this one", True)


@functools.cache
def machine_threads() -> int:
    """Return the number of threads of a record: all that the process may use, whatever the option `threads` says."""
    return runtime_api.max_threads() if runtime_api.available else 1


def key_of(target: Target, threads: int) -> str:
    """Return the key of the record of `target` and `threads` in the cache."""
    return f"{target.key()}|{threads}|{maker()}"


@functools.cache
def maker() -> str:
    """Return the maker of this machine, of a virtual one its hypervisor's; "" where the system does not tell."""
    try:
        return Path("/sys/class/dmi/id/sys_vendor").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _given(path: Path, target: Target, threads: int) -> RatesInUse:
    """Return the rates of the file `path`; the shipped ones, with a warning, if it holds no record."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        rates, threads = ProbedRates.of_data(content), int(content.get("threads", threads))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        warn_once(CacheWarning, f"rates {path}", CacheWarning.unreadable_rates(path, reason=reason))
        return RatesInUse(None, threads, f"shipped: AUTOSPARSE_RATES={path} is not a record ({reason})")
    return RatesInUse(_rounded(rates, target), max(1, threads), f"the record {path} (AUTOSPARSE_RATES)")


def _known(store: cache.Store, key: str, target: Target) -> RatesInUse | None:
    record = store.load(KIND, key)
    try:
        rates, threads, measured_at = _read(record or {})
    except (ValueError, KeyError, TypeError):
        return None
    when = time.strftime("%Y-%m-%d", time.gmtime(measured_at))
    is_new = _is_new(store, key)
    source = "measured now, by this process" if is_new else f"measured on {when}, kept in the cache"
    return RatesInUse(_rounded(rates, target), threads, source, measured_at=measured_at)


def _is_new(store: cache.Store, key: str) -> bool:
    """Return whether this process has measured the record."""
    return key in _measured_now.get(store, ())


def _read(record: dict[str, Any]) -> tuple[ProbedRates, int, float]:
    return ProbedRates.of_data(record), max(1, int(record["threads"])), float(record["measured_at"])


@functools.lru_cache(maxsize=16)
def _is_shipped(target: Target) -> bool:
    from autosparse.tuning.rates.scaling import is_known

    return is_known(target)


@functools.lru_cache(maxsize=16)
def _rounded(rates: ProbedRates, target: Target) -> ProbedRates:
    from autosparse.tuning.rates.scaling import comparable, rounded

    return rounded(comparable(rates), MachineRates.typical(target))


def measure_if_wanted(
    options: Options, target: Target, store: cache.Store, *, clock: Callable[[], float] = time.time
) -> RatesInUse:
    """Measure and store this machine's rates if there are none, and return the rates in use.

    Two processes at once would each measure half of the machine. So the process that holds the record's lock measures,
    and the other one goes on without. A measurement beside other busy programs is dropped; a later tuning repeats it.
    """
    found = rates_in_use(options, target, store)
    if not found.is_wanted or not runtime_api.available:
        return found
    key = key_of(target, found.threads)
    with store.exclusive(KIND, key) as is_held:
        if not is_held:
            return found
        if options.rates == MEASURE or store.load(KIND, key, fresh=True) is None:
            measure(target, store, clock=clock)
    return rates_in_use(options, target, store)


def measure(
    target: Target, store: cache.Store, *, limit_s: float | None = None, clock: Callable[[], float] = time.time
) -> Record | None:
    """Measure this machine's rates, store and return the record; None if other programs used the cores meanwhile."""
    from autosparse.tuning.rates import probing

    threads = machine_threads()
    found = probing.measured_rates(target, threads, limit_s=limit_s or probing.LIMIT_S)
    if found.is_disturbed:
        event("fallback", "the rates of the machine are not measured: other programs use its cores")
        return None
    _measured_now.setdefault(store, set()).add(key_of(target, threads))
    record: Record = {**found.rates.to_data(), "threads": threads, "measured_at": clock()}
    store.save(KIND, key_of(target, threads), record)
    event("tune", "measured the rates of this machine", memory=found.rates.memory, gathers=found.rates.gathers)
    return record


def stored(target: Target, store: cache.Store) -> Record | None:
    """Return the valid record of this machine in `store`, or None."""
    record = store.load(KIND, key_of(target, machine_threads()))
    return record if record is not None and _known(store, key_of(target, machine_threads()), target) else None


def forget(target: Target, store: cache.Store) -> None:
    """Remove the record of this machine from `store`."""
    store.remove(KIND, key_of(target, machine_threads()))
    _measured_now.pop(store, None)


def keep_file(record: Record, path: Path) -> None:
    """Write a record to `path` atomically, in the form that the setting `rates` reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    staged.write_text(json.dumps(record), encoding="utf-8")
    staged.replace(path)
