"""Load of other processes on the machine, so that times are taken or accepted only while it is quiet."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROC_STAT: Final = Path("/proc/stat")
LOOK_S: Final = 0.3
"""Seconds that a load measurement takes, since the kernel counts in hundredths of a second."""


@dataclass(frozen=True, slots=True)
class Load:
    """Counters of one moment, in seconds: wall clock, busy time of all processors, busy time of this process."""

    wall_s: float
    busy_s: float
    own_s: float

    @classmethod
    def now(cls) -> Load | None:
        """Return the counters now; None where the system does not provide them."""
        try:
            words = PROC_STAT.read_text(encoding="ascii").split("\n", 1)[0].split()
            ticks = os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, AttributeError):
            return None
        # Fields: user nice system idle iowait irq softirq steal. All but idle and iowait are busy.
        counts = [int(word) for word in words[1:9]]
        times = os.times()
        return cls(time.monotonic(), (sum(counts) - counts[3] - counts[4]) / ticks, times.user + times.system)

    def others_since(self, before: Load) -> float:
        """Return the average number of processors that other processes kept busy since the counters `before`."""
        wall_s = max(1e-9, self.wall_s - before.wall_s)
        return max(0.0, (self.busy_s - before.busy_s) - (self.own_s - before.own_s)) / wall_s


def others_load(before: Load | None) -> float:
    """Return the average number of processors that other processes kept busy since `before`; nan if unknown."""
    now = Load.now()
    return float("nan") if before is None or now is None else now.others_since(before)


def seen_load(look_s: float) -> float:
    """Return the average number of processors that other processes keep busy in `look_s` seconds; nan if unknown."""
    before = Load.now()
    if before is not None:
        time.sleep(look_s)
    return others_load(before)


def wait_for_quiet(
    *, most_load: float, until_s: float, clock: Callable[[], float] = time.monotonic, look_s: float = LOOK_S
) -> bool:
    """Sleep until others keep fewer than `most_load` processors busy; return False if `until_s` is reached first."""
    while clock() < until_s:
        if not seen_load(look_s) >= most_load:  # nan: the load is unknown
            return True
    return False
