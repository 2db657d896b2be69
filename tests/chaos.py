"""Machines that the tests may pretend to run on, and a clock whose intervals are random.

`pytest --chaos SEED` replaces the target by one of `MACHINES` and multiplies every interval that Python's performance
counter measures by a random factor. A test that fails then depends on the processor or on measured times. Machines are
recorded in the form in which a real one is described (`core.target.Target`), so that tests of decisions can use them
directly: `machine("epyc-64")`.
"""

from __future__ import annotations

import json
import math
import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from autosparse.core.target import Target

FOLDER: Final = Path(__file__).resolve().parent / "machines"
NAMES: Final = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))
IN_ONE_PROCESS: Final = "chaos: another machine is pretended in this process, not in those that it starts"
"""Reason for which tests of several processes are skipped."""
_begun: Final[list[str]] = []  # names of the machines that this process pretends to be
LEAST, MOST = 0.3, 3.0
"""Factors of measured intervals, drawn log-uniformly."""


def machine(name: str) -> Target:
    """The target that `tests/machines/NAME.json` describes."""
    from autosparse.core.target import Target

    return Target(**json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["target"])


class ChaoticClock:
    """Performance counter in seconds whose intervals are real ones times random factors; it never goes back."""

    def __init__(self, seed: int, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._random, self._clock, self._lock = random.Random(seed), clock, threading.Lock()
        self._real_ns = clock()
        self._shown_ns = float(self._real_ns)

    def ns(self) -> int:
        """Nanoseconds since an arbitrary moment."""
        with self._lock:
            now_ns = self._clock()
            factor = math.exp(self._random.uniform(math.log(LEAST), math.log(MOST)))
            self._shown_ns += (now_ns - self._real_ns) * factor
            self._real_ns = now_ns
            return int(self._shown_ns)

    def s(self) -> float:
        """Seconds since an arbitrary moment."""
        return self.ns() * 1e-9


def is_on() -> bool:
    """Return whether this process pretends to be another machine."""
    return bool(_begun)


def begin(seed: int) -> str:
    """Put the machine and the clock of `seed` in place, before anything imports autosparse; the machine's name."""
    name = NAMES[seed % len(NAMES)]
    facts: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["target"]
    _begun.append(name)
    os.environ["OMP_NUM_THREADS"] = str(facts["n_cores"])
    clock = ChaoticClock(seed)
    time.perf_counter, time.perf_counter_ns = clock.s, clock.ns
    from autosparse.core.target import VECTOR_BYTES, Target

    host = Target.host()
    isa = min(facts["isa"], host.isa, key=VECTOR_BYTES.__getitem__)
    pretended = replace(machine(name), isa=isa, machine=host.machine)
    Target.host = staticmethod(lambda: pretended)  # type: ignore[assignment, method-assign]
    return name
