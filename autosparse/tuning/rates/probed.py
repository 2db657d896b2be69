"""Rates of a machine with those that only `probing` measures: of one thread, and of the start of threads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Final

from autosparse.core.values import dataclass
from autosparse.tuner.features.setting import MachineRates

RATES: Final = tuple(one.name for one in fields(MachineRates))
"""Names of the rates that every record has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedRates(MachineRates):
    """Measured rates of a machine. The fields of this class are 0 where they were not measured."""

    core_l3: float = 0.0  # as `l3` and `memory`, one thread alone
    core_memory: float = 0.0
    start_s: float = 0.0  # seconds by which a short product exceeds its share of one thread's time
    wake_s: float = 0.0  # seconds by which a product after a pause exceeds the same product in a loop

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> ProbedRates:
        """Build the rates from `to_data`'s result; raise ValueError, TypeError or KeyError for anything else."""
        names = [one.name for one in fields(cls) if one.name in RATES or one.name in data]
        found = cls(**{name: float(data[name]) for name in names})
        for name, rate in asdict(found).items():
            if not math.isfinite(rate) or rate < 0 or (name in RATES and not rate):
                raise ValueError(f"rates must be positive: {asdict(found)}")
        return found


@dataclass(frozen=True, slots=True)
class RatesInUse:
    """Rates that models use, their number of threads, their source in words, and whether tuning is to measure them."""

    rates: ProbedRates | None  # None: the shipped rates
    threads: int
    source: str
    is_wanted: bool = False
    measured_at: float | None = None  # seconds since 1970, UTC
