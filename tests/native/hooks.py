"""What the runtime has for tests alone (`_native/runtime/hooks.h`): choices forced, counters read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from autosparse._native import runtime_api

MISSING = "this build of the runtime has no hooks for tests"
needs_hooks = pytest.mark.skipif(
    runtime_api.available and not hasattr(runtime_api.lib, "asp_force_helpers"), reason=MISSING
)


def hook(name: str) -> Callable[..., Any]:
    """A function of hooks.h; the test is skipped where the runtime has none, as in a wheel."""
    if not hasattr(runtime_api.lib, name):
        pytest.skip(MISSING)
    found: Callable[..., Any] = getattr(runtime_api.lib, name)
    return found


@contextmanager
def forced_choice(choice: str, value: int) -> Iterator[None]:
    """`asp_force_<choice>` of hooks.h is `value`; afterwards the runtime chooses itself again."""
    force = hook(f"asp_force_{choice}")
    force(value)
    try:
        yield
    finally:
        force(-1)


@contextmanager
def on_several_threads() -> Iterator[None]:
    """Several threads also on a busy machine and for little work, where the runtime can be told so."""
    if not hasattr(runtime_api.lib, "asp_force_helpers"):
        yield
        return
    with forced_choice("helpers", 1):
        yield


def counted(name: str) -> list[int]:
    """The three counters that a function of hooks.h fills in."""
    counters = runtime_api.ffi.new("int64_t[3]")
    hook(name)(counters)
    return list(counters)


def kept_pages() -> dict[str, int]:
    """Bytes and blocks of freed results that are kept now, and how often one was used again."""
    return dict(zip(("kept_bytes", "n_kept", "n_reused"), counted("asp_output_counters"), strict=True))


def shared_jobs() -> int:
    """How many jobs ran with helpers since the start."""
    return counted("asp_pool_counters")[0]
