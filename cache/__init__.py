"""Cache of plans and compiled kernels on disk, shared by processes. Import it as `autosparse.cache` only.

One folder holds records (plans, cost estimates, failures) under keys that include everything they depend on.
It also holds compiled kernels by schedule and target, and one file of accounts (`accounts.ledger`). No failure of the
cache makes a product fail (see `store`). Names are imported on first use, so that a process that only reads accounts
imports nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from autosparse.cache.envelope import Envelope as Envelope
    from autosparse.cache.folder import Entry as Entry
    from autosparse.cache.keys import PlanKey as PlanKey
    from autosparse.cache.records import KINDS as KINDS
    from autosparse.cache.records import Failure as Failure
    from autosparse.cache.records import plan_from_record as plan_from_record
    from autosparse.cache.records import plan_key_of as plan_key_of
    from autosparse.cache.records import plan_to_record as plan_to_record
    from autosparse.cache.stats import Stats as Stats
    from autosparse.cache.store import Store as Store
    from autosparse.cache.stores import close_stores as close_stores
    from autosparse.cache.stores import open_store as open_store
    from autosparse.cache.stores import stored_plan as stored_plan
    from autosparse.cache.wisdom import wisdom_export as wisdom_export
    from autosparse.cache.wisdom import wisdom_forget as wisdom_forget
    from autosparse.cache.wisdom import wisdom_import as wisdom_import

_HOMES: Final = {
    "envelope": ("Envelope",),
    "folder": ("Entry",),
    "keys": ("PlanKey",),
    "records": ("KINDS", "Failure", "plan_from_record", "plan_key_of", "plan_to_record"),
    "stats": ("Stats",),
    "store": ("Store",),
    "stores": ("close_stores", "open_store", "stored_plan"),
    "wisdom": ("wisdom_export", "wisdom_forget", "wisdom_import"),
}
_HOME_OF: Final = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:  # type of the requested name
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return value
