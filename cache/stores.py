"""Stores of this process: one per cache folder, opened on first use."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from autosparse import forking
from autosparse.config import Options, get_options
from autosparse.configured import xdg_cache_home
from autosparse.errors import RecordError
from autosparse.log import event
from autosparse.notices import CacheWarning, warn_once

if TYPE_CHECKING:
    from autosparse.cache.keys import PlanKey
    from autosparse.cache.store import Store

    from autosparse.core.plan import Plan

_stores: dict[str | None, Store] = {}
_stores_mutex = forking.lock()


def open_store(options: Options | None = None) -> Store:
    """Return the store of the folder that `options` (default: the current ones) name; one per folder and process.

    Never raises. A folder that is unusable or not trusted gives one CacheWarning, and the store then keeps entries for
    this process only. Options ``cache=False`` and ``cache_max_bytes=0`` request that as well.
    """
    options = options or get_options()
    name = _folder_option(options)
    store = _stores.get(name)
    if store is None:
        from autosparse.cache.store import Store

        with _stores_mutex:
            store = _stores.get(name)
            if store is None:
                store = _stores[name] = Store(folder_of(options), max_bytes=options.cache_max_bytes)
    store.max_bytes = options.cache_max_bytes
    return store


def folder_of(options: Options) -> Path | None:
    """Return the cache folder that `options` determine, or None if nothing is stored on disk."""
    name = _folder_option(options)
    return None if name is None else Path(name) if name else _default_folder()


def close_stores() -> None:
    """Drop all stores of this process, so that the next `open_store` examines the folders again (for tests)."""
    with _stores_mutex:
        for store in _stores.values():
            store.flush()
        _stores.clear()


def _folder_option(options: Options) -> str | None:
    """Return the name of the cache folder in `options`: "" for the default folder, None to store nothing on disk."""
    if not options.cache or options.cache_max_bytes == 0:
        return None
    return "" if options.cache_dir is None else str(options.cache_dir)


def _default_folder() -> Path | None:
    """Return autosparse's folder in the user's cache folder (XDG_CACHE_HOME, ~/Library/Caches, LocalAppData).

    Warn and return None if that path is not absolute, as for a user without a home folder.
    """
    if sys.platform == "linux":
        path = Path(xdg_cache_home(), "autosparse")
    else:
        import platformdirs  # takes 3 ms, which Linux avoids

        path = platformdirs.user_cache_path("autosparse", appauthor=False)
    if path.is_absolute():
        return path
    message = CacheWarning.unusable(path, reason="this user has no home folder", readable=False)
    warn_once(CacheWarning, str(path), message)
    return None


@forking.in_child
def _reset_after_fork() -> None:
    for store in _stores.values():
        store.reset_after_fork()


def stored_plan(store: Store, key: PlanKey) -> Plan | None:
    """Return the plan that `store` has under `key`, with `remembered` set; None if there is no valid one."""
    from autosparse.cache.records import plan_from_record

    record = store.load("plan", key.stable_hash())
    try:
        return None if record is None else plan_from_record(record)
    except RecordError as err:
        event("fallback", f"a remembered plan is not used: {err}")
        return None
