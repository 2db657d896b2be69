"""Cache: plans and kernels that outlive the process. Imported as `autosparse.cache` only.

Two caches in one folder: records (plans, histories, prices, failures) under keys that name all they depend on, and
compiled kernels under schedule and target. Neither can fail a product: see `store`.
"""

from __future__ import annotations

from autosparse.cache.envelope import Envelope as Envelope
from autosparse.cache.folder import Entry as Entry
from autosparse.cache.keys import PlanKey as PlanKey
from autosparse.cache.records import KINDS as KINDS
from autosparse.cache.records import Failure as Failure
from autosparse.cache.records import History as History
from autosparse.cache.records import plan_from_record as plan_from_record
from autosparse.cache.records import plan_key_of as plan_key_of
from autosparse.cache.records import plan_to_record as plan_to_record
from autosparse.cache.stats import Stats as Stats
from autosparse.cache.store import Store as Store
from autosparse.cache.stores import close_stores as close_stores
from autosparse.cache.stores import open_store as open_store
from autosparse.cache.wisdom import wisdom_export as wisdom_export
from autosparse.cache.wisdom import wisdom_forget as wisdom_forget
from autosparse.cache.wisdom import wisdom_import as wisdom_import
