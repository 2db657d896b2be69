"""Data that a pickled block carries: the hashes of its structure, and the cached plans of its pattern.

Plans are sent as wisdom (`autosparse.cache.wisdom`): data only, checked on arrival. Their keys name the machine, so
another kind of machine does not use them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from autosparse import cache
from autosparse.cache import wisdom
from autosparse.cache.keys import pattern_prefix_of
from autosparse.errors import CacheError
from autosparse.log import event
from autosparse.operands.csr import Operand

PickledPlans = tuple[tuple[int, int], Any] | None  # `structure_hashes`; Any: a wisdom document, or None

MAX_PLANS: Final = 16
"""Maximum number of plans in a pickle, the newest first; a pattern rarely has more widths and operations."""
_unpacked: Final[set[str]] = set()
"""Checksums of the plans that this process has received in pickles."""


def pickled_plans_of(operand: Operand) -> PickledPlans:
    """Return hashes and plans of `operand`; None where its hash was never computed, so that it has no plans."""
    if operand.known_hashes is None:
        return None
    operand.refresh()
    known: tuple[int, int] | None = getattr(operand, "known_hashes")  # noqa: B009  # None if written since
    if known is None:
        return None
    store = cache.open_store()
    names = store.keys_with_prefix("plan", pattern_prefix_of(operand.pattern.sparsity_hash))[:MAX_PLANS]
    found = [envelope for name in names if (envelope := store.envelope("plan", name)) is not None]
    return known, wisdom.document_of(found) if found else None


def unpack(operand: Operand, pickled_plans: PickledPlans) -> None:
    """Set the hashes of `operand`, and merge the plans into this process's cache."""
    if pickled_plans is None:
        return
    known, document = pickled_plans
    operand.pattern_with((known[0], known[1]))
    if document is None:
        return
    marks = {entry["checksum"] for entry in document["entries"]}
    if marks <= _unpacked:
        return
    _unpacked.update(marks)
    try:
        n_kept = wisdom.merge(cache.open_store(), document, name="a pickled block")
    except CacheError as err:  # a record of another release
        event("fallback", f"plans of a pickled block are not used: {err}")
        return
    event("cache", "plans came with a pickled block", kept=n_kept)


def owned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return `array`, or a copy where it does not own its memory.

    An array received over a network lies in a buffer that other code may write. A tuned product would have to compare
    all its values before each call.
    """
    return array if array.base is None and array.flags.writeable else np.array(array)
