"""Stores of this process: one per cache folder, opened when first asked for."""

from __future__ import annotations

from pathlib import Path

from autosparse.cache.store import Store

from autosparse import forking
from autosparse.config import Options, get_options
from autosparse.notices import CacheWarning, warn_once

_stores: dict[str | None, Store] = {}
_stores_mutex = forking.lock()


def open_store(options: Options | None = None) -> Store:
    """The store of the folder that `options` (default: those in force) name; one per folder and process.

    Never raises: a folder that cannot be used, or must not be trusted, costs one CacheWarning, and the store then
    remembers for this process only. Options ``cache=False`` and ``cache_max_bytes=0`` ask for that.
    """
    options = options or get_options()
    name = _folder_option(options)
    store = _stores.get(name)
    if store is None:
        with _stores_mutex:
            store = _stores.get(name)
            if store is None:
                folder = None if name is None else Path(name) if name else _default_folder()
                store = _stores[name] = Store(folder, max_bytes=options.cache_max_bytes)
    store.max_bytes = options.cache_max_bytes
    return store


def close_stores() -> None:
    """Forget all stores of this process; the next `open_store` looks at the folders anew (tests)."""
    with _stores_mutex:
        for store in _stores.values():
            store.settle()
        _stores.clear()


def _folder_option(options: Options) -> str | None:
    """What of `options` decides where the cache is: None for memory only, "" for the user's own cache folder."""
    if not options.cache or options.cache_max_bytes == 0:
        return None
    return "" if options.cache_dir is None else str(options.cache_dir)


def _default_folder() -> Path | None:
    """The user's cache folder as the system names it (XDG_CACHE_HOME, ~/Library/Caches, LocalAppData)."""
    import platformdirs

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
