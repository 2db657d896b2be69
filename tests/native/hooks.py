"""Access to the test hooks of the runtime (`_native/runtime/hooks.h`): forced choices and counters."""

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
    """Return a function of hooks.h; skip the test where the runtime was built without hooks, as in a wheel."""
    if not hasattr(runtime_api.lib, name):
        pytest.skip(MISSING)
    found: Callable[..., Any] = getattr(runtime_api.lib, name)
    return found


def hash64(array: Any) -> int:
    """Return the low half of `hash128`, which the runtime uses for chunks of arrays."""
    return int(runtime_api.lib.asp_xxh3_low(runtime_api.pointer(array), array.nbytes))


@contextmanager
def forced_choice(choice: str, value: int) -> Iterator[None]:
    """Set `asp_force_<choice>` of hooks.h to `value` for the block; afterwards the runtime chooses again."""
    force = hook(f"asp_force_{choice}")
    force(value)
    try:
        yield
    finally:
        force(-1)


@contextmanager
def on_several_threads() -> Iterator[None]:
    """Use several threads for small jobs and on a busy machine, where the runtime has this hook."""
    if not hasattr(runtime_api.lib, "asp_force_helpers"):
        yield
        return
    with forced_choice("helpers", 1):
        yield


def counted(name: str) -> list[int]:
    """Return the three counters that a function of hooks.h fills in."""
    counters = runtime_api.ffi.new("int64_t[3]")
    hook(name)(counters)
    return list(counters)


def kept_pages() -> dict[str, int]:
    """Return bytes and blocks of freed results that are kept now, and how often one was reused."""
    return dict(zip(("kept_bytes", "n_kept", "n_reused"), counted("asp_output_counters"), strict=True))


def shared_jobs() -> int:
    """Return the number of jobs that ran with helpers since the start."""
    return counted("asp_pool_counters")[0]
