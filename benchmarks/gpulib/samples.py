"""Samples of GPU kernels for learned cost models: (pattern, product, device schedule) -> seconds on one device.

A file of samples has three kinds of JSON lines: patterns (counts and statistics, no entries), numbered schedules, and
products with the seconds of numbered schedules. `benchmarks/gpu.py --collect` appends to such a file. The archive `gpu`
has one with the single layouts that `benchmarks/gpu.py --hybrid` measured on two devices.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
import torch
from autosparse.tuner.gpu import model
from autosparse.tuner.gpu.facts import DevicePattern, TileCounts, facts_of
from autosparse.tuner.research.generators.coordinates import Coordinates
from numpy.typing import NDArray
from peerlib.archives import members

from autosparse.gpu.schedule import DeviceSchedule
from autosparse.gpu.target import DeviceTarget, target_of, targets

ARCHIVED: Final = "gpu_samples.jsonl"
MIN_CANDIDATES: Final = 3
"""Minimum number of candidates of a product; fewer rank nothing."""


@dataclass(frozen=True, eq=False)
class GpuPattern:
    """Pattern of samples: its name, group, counts for the analytic model, and statistics for networks."""

    name: str
    group: str
    facts: DevicePattern = field(repr=False)
    vector: NDArray[np.float32] = field(repr=False)

    @classmethod
    def of(cls, name: str, group: str, A: Any) -> GpuPattern:
        """Count a SciPy matrix."""
        A = sps.csr_array(A)
        A.sort_indices()
        starts, columns = (torch.from_numpy(one.astype(np.int64)) for one in (A.indptr, A.indices))
        where = Coordinates.of(A.shape, [np.repeat(np.arange(A.shape[0]), np.diff(A.indptr)), A.indices])
        return cls(name, group, facts_of(starts, columns, A.shape[1]), where.vector())

    def to_record(self) -> dict[str, Any]:
        """Return the pattern for JSON."""
        vector = [float(f"{one:.5g}") for one in self.vector]
        return {"name": self.name, "group": self.group, "facts": dataclasses.asdict(self.facts), "vector": vector}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> GpuPattern:
        """Return the pattern that `to_record` wrote."""
        facts = dict(record["facts"])
        facts["windows"] = tuple((tuple(key), TileCounts(**one)) for key, one in facts["windows"])
        facts["blocks"] = tuple((side, TileCounts(**one)) for side, one in facts["blocks"])
        facts |= {name: tuple(facts[name]) for name in ("rows_by_length", "entries_by_length")}
        return cls(record["name"], record["group"], DevicePattern(**facts), np.array(record["vector"], np.float32))


@dataclass(frozen=True, eq=False)
class GpuProduct:
    """One product of one pattern on one device, with the measured candidates."""

    device: str  # name of the target
    operation: str  # spmm, sddmm
    pattern: GpuPattern
    columns: int
    dtype: str
    schedules: Sequence[DeviceSchedule] = field(repr=False)
    seconds: NDArray[np.float64] = field(repr=False)

    @property
    def target(self) -> DeviceTarget:
        """The device."""
        return targets()[self.device]

    @property
    def sizes(self) -> model.ProductSizes:
        """Columns and dtype as the analytic model needs them."""
        return model.ProductSizes(n_dense_cols=self.columns, dtype=self.dtype)


def archived() -> list[GpuProduct]:
    """Return the products of the archive."""
    return list(products(members("gpu")[ARCHIVED].decode().splitlines()))


def products(lines: Iterable[str]) -> Iterator[GpuProduct]:
    """Yield the products of a file of samples with MIN_CANDIDATES or more."""
    known: dict[str, GpuPattern] = {}
    numbered: dict[str, DeviceSchedule] = {}
    for line in map(json.loads, lines):
        if "facts" in line:
            known[line["name"]] = GpuPattern.of_record(line)
        elif "schedule" in line:
            numbered[str(line["number"])] = DeviceSchedule.from_json(line["schedule"])
        elif len(line["seconds"]) >= MIN_CANDIDATES:
            yield GpuProduct(
                target_of(line["device"]).name, line["operation"], known[line["matrix"]], line["columns"],
                line["dtype"], [numbered[number] for number in line["seconds"]],
                np.array(list(line["seconds"].values()), np.float64),
            )  # fmt: skip


class SampleFile:
    """A file of samples to which patterns, schedules and products are appended; an interrupted run can continue."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        self._patterns = {line["name"] for line in lines if "facts" in line}
        self._numbers = {line["schedule"]: line["number"] for line in lines if "schedule" in line}
        self._products = {_key(line) for line in lines if "seconds" in line}

    def has(self, product: Mapping[str, Any]) -> bool:
        """Return whether the file has a product with these facts: device, operation, matrix, columns, dtype."""
        return _key(product) in self._products

    def has_pattern(self, name: str) -> bool:
        """Return whether the file has the pattern."""
        return name in self._patterns

    def add_pattern(self, pattern: GpuPattern) -> None:
        """Append a pattern."""
        self._patterns.add(pattern.name)
        self._append(pattern.to_record())

    def add(self, product: Mapping[str, Any], seconds: Mapping[DeviceSchedule, float]) -> None:
        """Append a product with the seconds of its candidates, and the schedules that the file lacks."""
        found = {}
        for schedule, took_s in seconds.items():
            text = schedule.to_json()
            if text not in self._numbers:
                self._numbers[text] = len(self._numbers)
                self._append({"number": self._numbers[text], "schedule": text})
            found[str(self._numbers[text])] = float(f"{took_s:.5g}")
        self._products.add(_key(product))
        self._append({**product, "seconds": found})

    def _append(self, line: Mapping[str, Any]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line, separators=(",", ":")) + "\n")


def _key(line: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(line[name] for name in ("device", "operation", "matrix", "columns", "dtype"))
