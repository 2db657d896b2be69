"""Explain why no plan was remembered: the fields in which the key differs from the nearest remembered plan's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from autosparse import cache
from autosparse.tuning.memory.plan_lookup import key_of
from autosparse.tuning.trials.context import TuningContext

MAX_COMPARED: Final = 32
"""Maximum number of remembered plans of one pattern that are compared, newest first."""
MAX_CHARACTERS: Final = 60
"""Maximum number of characters shown of a field's value; a record may contain anything."""
WORDS: Final[Mapping[str, str]] = {
    "pattern": "the sparsity pattern",
    "operation": "the operation",
    "transposed": "whether A is transposed",
    "columns_bucket": "the number of columns of the dense operand (rounded)",
    "dtype": "the dtype",
    "index_dtype": "the index dtype",
    "threads": "the number of threads",
    "deterministic": "the option deterministic",
    "target": "the machine",
    "space": "the space of schedules",
    "implementation": "what generates kernels",
    "compiler": "the compiler",
    "emitter": "the version of the code generator",
    "runtime": "the version of the precompiled kernels",
    "solvers": "the registered solvers and vendors' libraries",
    "schema": "the layout of records",
}
"""Description of each field of PlanKey in explanations."""
DIGESTS: Final = frozenset({"pattern", "target", "space", "emitter", "runtime"})
"""Fields whose values are digests and are not shown."""


def why_not_remembered(context: TuningContext) -> str:
    """Return a text on how this problem differs from the nearest remembered plan's; "" if its plan is remembered.

    It reads cache records, so it is called only for users' requests.
    """
    if not context.options.cache:
        return "plans are not kept between processes (option cache)"
    wanted, store = key_of(context), context.store
    best: tuple[tuple[str, ...], Mapping[str, Any]] | None = None
    for name in store.keys_with_prefix("plan", wanted.pattern_prefix)[:MAX_COMPARED]:
        if name == wanted.stable_hash():
            return ""
        fields = cache.plan_key_of(store.load("plan", name) or {})
        different = wanted.differences(fields)
        if fields and (best is None or len(different) < len(best[0])):
            best = different, fields
    if best is None:
        return "no plan of a matrix with this pattern is remembered"
    told = [_told(name, best[1].get(name), getattr(wanted, name)) for name in best[0]]
    return f"the nearest remembered plan differs in {', '.join(told)}"


def _told(name: str, then: object, now: object) -> str:
    """Return a text on a field that differs: its name, and the values `then` and `now` unless they are digests."""
    return WORDS[name] if name in DIGESTS else f"{WORDS[name]} ({_short(then)} then, {_short(now)} now)"


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."
