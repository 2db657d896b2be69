"""Simulated machines for the tests, and a clock with random intervals.

`pytest --chaos SEED` replaces the target by one of the machines in `tests/machines`, multiplies every interval of
Python's performance counter by a random factor, and scales the clocks of Python and of the extension module as a whole.
A test that fails only then depends on the processor or on measured times. A machine is recorded as a
`core.target.Target`, so tests of decisions can also use it directly: `machine("epyc-64")`.
"""

from __future__ import annotations

import contextlib
import ctypes
import dis
import functools
import importlib
import inspect
import json
import math
import os
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from autosparse.core.target import Target

FOLDER: Final = Path(__file__).resolve().parent / "machines"
NAMES: Final = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))
MIN_FACTOR, MAX_FACTOR = 0.3, 3.0
"""Bounds of the factors of single intervals, which are drawn log-uniformly."""
SCALES: Final = (10.0, 1.0, 0.1)
"""Factors of all intervals: on a slower or faster machine, prices that are not measured have another share."""


def machine(name: str) -> Target:
    """Return the target described by `tests/machines/NAME.json`."""
    from autosparse.core.target import Target

    return Target(**json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["target"])


class ChaoticClock:
    """Performance counter whose intervals are the real ones times random factors and `scale`; it never goes back."""

    def __init__(self, seed: int, clock: Callable[[], int] = time.perf_counter_ns, *, scale: float = 1.0) -> None:
        self._random, self._clock, self._lock = random.Random(seed), clock, threading.Lock()
        self._scale = scale
        self._real_ns = clock()
        self._shown_ns = float(self._real_ns)

    def ns(self) -> int:
        """Return the nanoseconds since an arbitrary moment."""
        with self._lock:
            now_ns = self._clock()
            factor = self._scale * math.exp(self._random.uniform(math.log(MIN_FACTOR), math.log(MAX_FACTOR)))
            self._shown_ns += (now_ns - self._real_ns) * factor
            self._real_ns = now_ns
            return int(self._shown_ns)

    def s(self) -> float:
        """Return the seconds since an arbitrary moment."""
        return self.ns() * 1e-9


def _globals_of(code: CodeType) -> Iterator[str]:
    """Yield the global names that a function reads, those of the functions inside it included."""
    yield from (one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_of(constant)


@functools.cache
def starts_processes(test: Callable[..., object] | None) -> bool:
    """Return whether a test, or a function of `tests` that it calls, starts a new process.

    Another machine is simulated in the process of the tests only, so such a test finds nothing more under chaos. A
    forked process is no new one.
    """
    functions = [inspect.unwrap(test)] if test else []
    for function in functions:  # the list grows meanwhile
        if isinstance(function, FunctionType):
            used = [function.__globals__.get(name) for name in _globals_of(function.__code__)]
            if any(one is subprocess for one in used):  # arrays among them have no truth value
                return True
            ours = [one for one in used if isinstance(one, FunctionType) and one.__module__.startswith("tests.")]
            functions += [one for one in ours if one not in functions]
    return False


def begin(seed: int) -> str:
    """Install the machine and the clocks of `seed`, and return the name of the machine and the scale.

    Call it before anything imports autosparse.
    """
    name, scale = NAMES[seed % len(NAMES)], SCALES[seed // len(NAMES) % len(SCALES)]
    facts: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["target"]
    os.environ["OMP_NUM_THREADS"] = str(facts["n_cores"])
    clock = ChaoticClock(seed, scale=scale)
    time.perf_counter, time.perf_counter_ns = clock.s, clock.ns
    from autosparse.core.target import Target
    from autosparse.isa import ISAS

    host = Target.host()
    isa = min(facts["isa"], host.isa, key=lambda name: ISAS[name].level)
    pretended = replace(machine(name), isa=isa, machine=host.machine)
    Target.host = staticmethod(lambda: pretended)  # type: ignore[assignment, method-assign]
    scale_native_clock(scale)
    return f"{name}, times {scale:g}"


def scale_native_clock(scale: float) -> None:
    """Multiply the intervals that the extension module measures; without effect in a build without hooks for tests."""
    with contextlib.suppress(ImportError, ValueError):
        module = importlib.import_module("autosparse._native._extension")
        ctypes.c_double.in_dll(ctypes.PyDLL(module.__file__), "asp_clock_scale").value = scale
