"""Samples of GPU kernels for learned cost models: (pattern, product, device schedule) -> seconds on one device.

The tables of `benchmarks/gpu.py --hybrid` (archive `gpu`) name a candidate by its rank and family. The schedule is found
again by ranking the candidates as that run did, from the counts of the matrix in `gpu_patterns.json` of the same archive.
`benchmarks/gpu.py --collect` writes samples with their whole schedules instead.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
import torch
from autosparse.tuner.gpu import model, space
from autosparse.tuner.gpu.facts import DevicePattern, TileCounts, facts_of
from autosparse.tuner.research.generators.coordinates import Coordinates
from numpy.typing import NDArray
from peerlib.archives import members

from autosparse.gpu.schedule import MATMUL, SDDMM, DeviceSchedule
from autosparse.gpu.target import DeviceTarget, target_of

TABLES: Final = ("h100/hybrid.jsonl", "h200/hybrid.jsonl")
PATTERNS: Final = "gpu_patterns.json"
OPERATIONS: Final = {"spmm": MATMUL, "sddmm": SDDMM}
MIN_CANDIDATES: Final = 3
"""Minimum number of candidates of a product; fewer rank nothing."""
SINGLES: Final = 6
"""Number of the analytic model's favourites that the tables measured, before one of each missing family."""
FAMILIES: Final = (("windows", "blocks"), ("ell",), ("segments", "entries"))
"""Layouts of the families of which the tables measured at least one (`gpulib.hybrid`)."""


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
        arrays = (torch.from_numpy(one.astype(np.int64)) for one in (A.indptr, A.indices))
        where = Coordinates.of(A.shape, [np.repeat(np.arange(A.shape[0]), np.diff(A.indptr)), A.indices])
        return cls(name, group, facts_of(*arrays, A.shape[1]), where.vector())

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

    device: str  # name of the target: h100, h200
    operation: str  # key of OPERATIONS
    pattern: GpuPattern
    columns: int
    dtype: str
    schedules: Sequence[DeviceSchedule] = field(repr=False)
    seconds: NDArray[np.float64] = field(repr=False)

    @property
    def sizes(self) -> model.ProductSizes:
        """Columns and dtype as the analytic model needs them."""
        return model.ProductSizes(n_dense_cols=self.columns, dtype=self.dtype)


def patterns() -> dict[str, GpuPattern]:
    """Return the patterns of the tables by name."""
    records = json.loads(members("gpu")[PATTERNS])
    return {one["name"]: GpuPattern.of_record(one) for one in records}


def products_of_tables() -> Iterator[GpuProduct]:
    """Yield every product of the tables of both devices."""
    known = patterns()
    for table in TABLES:
        for line in members("gpu")[table].decode().splitlines():
            made = _product(json.loads(line), known)
            if made is not None:
                yield made


def products_of_samples(lines: Iterable[str]) -> Iterator[GpuProduct]:
    """Yield the products of a file that `benchmarks/gpu.py --collect` wrote."""
    known: dict[str, GpuPattern] = {}
    for line in map(json.loads, lines):
        if "facts" in line:
            known[line["name"]] = GpuPattern.of_record(line)
        elif len(line["seconds"]) >= MIN_CANDIDATES:
            yield GpuProduct(
                target_of(line["device"]).name, line["operation"], known[line["matrix"]], line["columns"],
                line["dtype"], [DeviceSchedule.from_json(text) for text in line["seconds"]],
                np.array(list(line["seconds"].values())),
            )  # fmt: skip


def _product(line: Mapping[str, Any], known: Mapping[str, GpuPattern]) -> GpuProduct | None:
    """Return the product of one line of a table, or None if too few single layouts were measured."""
    what, columns, dtype = line["case"].removeprefix("hybrid ").rsplit(" ", 2)
    operation, _, name = what.partition(" ")
    pattern, target = known[name], target_of(line["device"])
    offered = measured_candidates(pattern.facts, OPERATIONS[operation], int(columns), dtype, target)
    names = {f"{rank} {family}, tile {one.tile}": one for rank, (family, one) in enumerate(offered)}
    times = {one: seconds for one, seconds in line["times_s"].items() if one != "torch" and " by " not in one}
    if not names.keys() >= times.keys():
        raise ValueError(f"{line['case']}: the candidates or the analytic model have changed since: {sorted(times)}")
    if len(times) < MIN_CANDIDATES:
        return None
    schedules = [names[one] for one in times]
    return GpuProduct(target.name, operation, pattern, int(columns), dtype, schedules, np.array(list(times.values())))


def measured_candidates(
    facts: DevicePattern, operation: str, columns: int, dtype: str, target: DeviceTarget
) -> list[tuple[str, DeviceSchedule]]:
    """Return (family, schedule) of the single layouts that `gpu.py --hybrid` measures, best predicted first."""
    sizes = model.ProductSizes(n_dense_cols=columns, dtype=dtype)
    asked = space.GpuSetting(
        operation=operation, n_dense_cols=columns, dtype=dtype, vector=space.vector_of(dtype, columns), target=target,
        used_bytes=facts.used_cols * sizes.row_bytes,
    )  # fmt: skip
    offered = [one for one in space.offered(asked) if one[1].is_deterministic]
    offered.sort(key=lambda one: (bool(one[1].panel), model.predicted_s(facts, one[1], sizes, target)))
    taken = offered[:SINGLES]
    for layouts in FAMILIES:
        taken += [one for one in offered if _is_of(one[1], layouts) and one not in taken][:1]
    return taken


def _is_of(schedule: DeviceSchedule, layouts: tuple[str, ...]) -> bool:
    """Return whether the first part has one of these layouts, and no part one of another family."""
    own = [part.layout for part in schedule.parts if part.layout != "fill"]
    return own[0] in layouts and set(own) <= {*layouts, *(("segments", "rows") if "ell" in layouts else ())}
