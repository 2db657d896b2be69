"""Duty: how busy other processes keep the machine, so that times are taken, or believed, only while it is quiet."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROC_STAT: Final = Path("/proc/stat")
LOOK_S: Final = 0.3
"""A look at the load takes so long: the kernel counts in hundredths of a second."""


@dataclass(frozen=True, slots=True)
class Load:
    """Counters at one moment, seconds: of the wall clock, busy on all processors, and busy for this process."""

    wall_s: float
    busy_s: float
    own_s: float

    @classmethod
    def now(cls) -> Load | None:
        """The counters now; None where the system does not tell them."""
        try:
            words = PROC_STAT.read_text(encoding="ascii").split("\n", 1)[0].split()
            ticks = os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, AttributeError):
            return None
        # user nice system idle iowait irq softirq steal: what is neither idle nor waiting is busy.
        counts = [int(word) for word in words[1:9]]
        times = os.times()
        return cls(time.monotonic(), (sum(counts) - counts[3] - counts[4]) / ticks, times.user + times.system)

    def others_since(self, before: Load) -> float:
        """Processors that other processes kept busy on average since `before`."""
        wall_s = max(1e-9, self.wall_s - before.wall_s)
        return max(0.0, (self.busy_s - before.busy_s) - (self.own_s - before.own_s)) / wall_s


def others_load(before: Load | None) -> float:
    """Processors that others kept busy since `before`; nan when unknown."""
    now = Load.now()
    return float("nan") if before is None or now is None else now.others_since(before)


def seen_load(look_s: float) -> float:
    """Processors that others keep busy while one looks for so long; nan when unknown."""
    before = Load.now()
    if before is not None:
        time.sleep(look_s)
    return others_load(before)


def wait_for_quiet(
    *, most_load: float, until_s: float, clock: Callable[[], float] = time.monotonic, look_s: float = LOOK_S
) -> bool:
    """Sleep until others keep fewer than `most_load` processors busy; False when `clock` reached `until_s` before."""
    while clock() < until_s:
        if not seen_load(look_s) >= most_load:  # nan: nobody knows
            return True
    return False
