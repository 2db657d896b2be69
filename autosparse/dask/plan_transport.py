"""What a pickled block takes along: the hashes of its structure, and the plans that are remembered of its pattern.

Plans travel as wisdom does (`autosparse.cache.wisdom`): data only, checked where they arrive, and useless on another
kind of machine, which their keys name.
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

PickledPlans = tuple[tuple[int, int], Any] | None  # `structure_hashes`; Any: a document of wisdom, or None

MAX_PLANS: Final = 16
"""Of one pattern that a pickle takes along, the newest first: widths and operations differ, rarely more."""
_unpacked: Final[set[str]] = set()
"""Checksums of the plans that pickles have brought to this process."""


def pickled_plans_of(operand: Operand) -> PickledPlans:
    """Hashes and plans of `operand`; None where nobody has asked for its hash yet, as there can be no plans then."""
    if operand.known_hashes is None:
        return None
    operand.refresh()
    known: tuple[int, int] | None = getattr(operand, "known_hashes")  # noqa: B009  # None where it was written since
    if known is None:
        return None
    store = cache.open_store()
    names = store.keys_with_prefix("plan", pattern_prefix_of(operand.pattern.sparsity_hash))[:MAX_PLANS]
    found = [envelope for name in names if (envelope := store.envelope("plan", name)) is not None]
    return known, wisdom.document_of(found) if found else None


def unpack(operand: Operand, pickled_plans: PickledPlans) -> None:
    """Let `operand` know its hashes, and this process its plans."""
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
    except CacheError as err:  # of another release
        event("fallback", f"plans of a pickled block are not used: {err}")
        return
    event("cache", "plans came with a pickled block", kept=n_kept)


def owned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """`array`, or a copy that owns its memory.

    What arrives over a network lies in a buffer that others may write, as far as a tuned product can know: it would
    read all values before each product to see whether they did.
    """
    return array if array.base is None and array.flags.writeable else np.array(array)
