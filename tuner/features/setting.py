"""Inputs of a cost model besides the pattern: machine, measured rates, dtype, number of columns and threads."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowReal
from autosparse.core.problem import Problem
from autosparse.core.target import Target
from autosparse.core.values import dataclass
from autosparse.scalar import SINGLE

KNOWN: Final = Path(__file__).with_name("machines.json")
"""File with the machines that the repository's measurements come from, and their rates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRates:
    """Measured rates of a machine, all threads together: bytes, gathered values and operations per second."""

    l1: float  # bytes read per second when each core's operands fit into its L1 cache
    l2: float
    l3: float
    memory: float
    gathers: float  # float32 values per second read by index from half of a core's L2 cache
    flops: float  # float32 operations per second of a wide SpMM; a multiply-add counts twice

    def to_data(self) -> dict[str, float]:
        """Return the rates as JSON-ready data; `of_data` inverts it."""
        return asdict(self)

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> MachineRates:
        """Build the rates from `to_data`'s result; raise ValueError, TypeError or KeyError for anything else."""
        found = cls(**{one.name: float(data[one.name]) for one in fields(cls)})
        if not all(math.isfinite(rate) and rate > 0 for rate in asdict(found).values()):
            raise ValueError(f"rates must be positive: {asdict(found)}")
        return found

    @classmethod
    def typical(cls, target: Target) -> MachineRates:
        """Return the rates of the known machine most similar to `target`, for use where nothing was measured."""
        return min(_known(), key=lambda row: _distance(row[0], target))[1]


@lru_cache(maxsize=1)
def _known() -> list[tuple[Mapping[str, Any], MachineRates]]:
    return [(row["target"], MachineRates.of_data(row["rates"])) for row in json.loads(KNOWN.read_text("utf-8"))]


def _distance(row: Mapping[str, Any], target: Target) -> float:
    names = ("l1_bytes", "l2_bytes", "l3_bytes")
    caches = (abs(math.log2(row[name] / max(1, getattr(target, name)))) for name in names)
    differs = bool(row["fills_last_cache_late"] != target.fills_last_cache_late)
    return float(sum(caches)) + 4.0 * differs


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetting:
    """Circumstances of a product: machine, dtype, width, threads. `rates` None: those of the most similar machine."""

    target: Target
    dtype: str
    n_dense_cols: int
    threads: int
    rates: MachineRates | None = None

    @classmethod
    def of(cls, problem: Problem, rates: MachineRates | None = None) -> RunSetting:
        """Return the setting of a problem."""
        return cls(
            target=problem.target, dtype=problem.dtype, n_dense_cols=problem.n_dense_cols, threads=problem.threads,
            rates=rates,
        )  # fmt: skip

    @classmethod
    def of_measurements(cls, facts: Mapping[str, Any], target: Target, *, n_dense_cols: int) -> RunSetting:
        """Return the setting that `facts` of measurements record; by default `n_dense_cols`, float32 on all cores."""
        rates = facts["machine"].get("rates")
        return cls(
            target=target,
            dtype=str(facts.get("dtype", SINGLE.name)),
            threads=int(facts.get("threads", target.n_cores)),
            n_dense_cols=int(facts.get("n_dense_cols", n_dense_cols)),
            rates=MachineRates.of_data(rates) if rates else None,
        )  # fmt: skip

    def numbers(self) -> NDArray[NarrowReal]:
        """Return the setting as N_SETTING features near 0: sizes and rates of the machine, dtype, threads, width."""
        target, itemsize = self.target, np.dtype(self.dtype).itemsize
        rates = self.rates or MachineRates.typical(target)
        return np.array(
            [
                math.log2(max(1, target.l1_bytes) / 2**15),
                math.log2(max(1, target.l2_bytes) / 2**20),
                math.log2(max(1, target.l3_bytes) / 2**25),
                float(target.fills_last_cache_late),
                math.log2(max(1, target.vector_bytes // itemsize)),
                math.log2(itemsize / 4),
                math.log2(max(1, self.threads)),
                math.log2(max(1, self.n_dense_cols)),
                math.log2(rates.l2 / rates.memory),
                math.log2(rates.l3 / rates.memory),
                math.log2(rates.gathers * 4 / rates.l2),
                math.log2(rates.flops / rates.memory),
            ],
            NarrowReal,
        )


N_SETTING: Final = 12
"""Length of the result of `RunSetting.numbers`."""
