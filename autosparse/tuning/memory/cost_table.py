"""Costs of primitives measured on one machine, by width and location of the dense operand; stored as JSON.

Source: Fang et al., "STile" (PACMMOD 2(1), 2024), Section 3.2, which measures a table per tile shape and a line per
family on each machine. Here every family has a line, whose three rates are fitted to the timed shapes.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from autosparse.targets.priors import number
from autosparse.tuner.hybrid.costs import PrimitiveCosts, Rate

COSTS: Final = "primitives.json"
"""File name of the record, in the folder of the machine's rates."""
VERSION: Final = 1
"""Version of the record; increase it if a field changes its meaning. Other versions are not read."""
FAMILIES: Final = ("csr", "block", "ell", "panel")
"""Families of primitives with measured costs."""
WIDTHS: Final = (1, 32, 256)
"""Numbers of dense columns for which costs are measured."""
STREAMING: Final = 16
"""Size of a streamed B as a multiple of the L2 cache."""
MAX_STREAMING_BYTES: Final = 1 << 26
"""Maximum size in bytes of a streamed B."""
MAX_NS: Final = number("records", "maximum primitive ns")
"""Maximum cost in nanoseconds of a tile, row or value; larger values mean a damaged record."""
RATE_FIELDS: Final = ("tile", "read", "multiply")
"""Fitted rates of each family."""


@dataclass(frozen=True, slots=True, order=True)
class CostClass:
    """Class of products by width `n_dense_cols`, and by whether B exceeds a core's L2 cache (`is_streaming`)."""

    n_dense_cols: int
    is_streaming: bool

    def __str__(self) -> str:
        plural = "" if self.n_dense_cols == 1 else "s"
        return f"{self.n_dense_cols} column{plural}, B {'beyond' if self.is_streaming else 'in'} the second cache"


CLASSES: Final = tuple(CostClass(width, is_streaming) for width in WIDTHS for is_streaming in (False, True))
"""Classes for which costs are measured: each width with B in and beyond the L2 cache."""


@dataclass(frozen=True, slots=True)
class CostTable:
    """Measured primitive costs, in ns, by CostClass; classes may be missing."""

    costs: Mapping[CostClass, PrimitiveCosts] = field(default_factory=dict)

    def of(self, n_dense_cols: int, *, far: float) -> PrimitiveCosts | None:
        """Return costs for width `n_dense_cols`, with B in L2 (`far` = 0), streamed (1) or between; see `farness`.

        The measured class with the nearest width by ratio is used; None if nothing was measured.
        """
        if not self.costs:
            return None

        def nearest(is_streaming: bool) -> CostClass:
            distance = {one: abs(math.log(one.n_dense_cols / n_dense_cols)) for one in self.costs}
            return min(self.costs, key=lambda one: (one.is_streaming != is_streaming, distance[one]))

        near, beyond = nearest(False), nearest(True)
        if far in {0.0, 1.0} or near.n_dense_cols != beyond.n_dense_cols:
            return self.costs[beyond if far >= 0.5 else near]
        return _between(self.costs[near], self.costs[beyond], far)

    def missing(self) -> list[CostClass]:
        """Return the classes that are not measured yet."""
        return [one for one in CLASSES if one not in self.costs]

    def with_class(self, measured: CostClass, costs: PrimitiveCosts) -> CostTable:
        """Return the table with one more class; raise ValueError if `of_data` would reject the costs."""
        return CostTable.of_data(CostTable({**self.costs, measured: costs}).to_data())

    def to_data(self) -> dict[str, Any]:
        """Return JSON-compatible data; `of_data` inverts it."""
        classes = [
            {
                "columns": one.n_dense_cols,
                "far": one.is_streaming,
                "rates": {
                    family: {name: getattr(rate, name) for name in RATE_FIELDS} for family, rate in costs.rates.items()
                },
                "first_row": costs.first_row,
                "further_row": costs.further_row,
            }
            for one, costs in self.costs.items()
        ]
        return {"version": VERSION, "unit": "ns", "classes": classes}

    @classmethod
    def of_data(cls, data: Any) -> CostTable:  # Any: contents of a file
        """Read the data of `to_data`; raise ValueError, TypeError or KeyError if they are invalid."""
        if data["version"] != VERSION or data["unit"] != "ns":
            raise ValueError(f"a record of costs of version {data['version']!r} in {data['unit']!r}")
        return cls(dict(map(_class_of_data, data["classes"])))


def streaming_bytes(l2_bytes: int) -> int:
    """Return the size in bytes of the B of benchmarks that are to exceed an L2 cache of `l2_bytes`."""
    return min(MAX_STREAMING_BYTES, STREAMING * l2_bytes)


def farness(n_bytes: int, l2_bytes: int) -> float:
    """Return how far a B of `n_bytes` exceeds the L2 cache: 0 if it fits, 1 if it is streamed, logarithmic between.

    A B slightly larger than the L2 cache is read partly from L2 and partly from L3.
    """
    ratio = streaming_bytes(l2_bytes) / l2_bytes
    return min(1.0, max(0.0, math.log(max(1, n_bytes) / l2_bytes) / math.log(ratio))) if ratio > 1.0 else 1.0


def _between(near: PrimitiveCosts, beyond: PrimitiveCosts, far: float) -> PrimitiveCosts:
    def mixed(a: float, b: float) -> float:
        return (1.0 - far) * a + far * b

    rates = {
        family: Rate(*(mixed(getattr(rate, name), getattr(beyond.rates[family], name)) for name in RATE_FIELDS))
        for family, rate in near.rates.items()
    }
    return PrimitiveCosts(
        rates, mixed(near.first_row, beyond.first_row), mixed(near.further_row, beyond.further_row)
    )  # fmt: skip


def _class_of_data(data: Mapping[str, Any]) -> tuple[CostClass, PrimitiveCosts]:
    columns, is_streaming = data["columns"], data["far"]
    if type(columns) is not int or type(is_streaming) is not bool or columns not in WIDTHS:
        raise ValueError(f"no class of costs: {columns!r} columns, far {is_streaming!r}")
    if set(data["rates"]) != set(FAMILIES):
        raise ValueError(f"families {sorted(data['rates'])}, expected {sorted(FAMILIES)}")
    rates = {family: Rate(*(_nanoseconds(data["rates"][family][name]) for name in RATE_FIELDS)) for family in FAMILIES}
    if not all(rate.of(1.0, 1.0, 1.0) > 0.0 for rate in rates.values()):
        raise ValueError("a family has zero cost per tile")
    return CostClass(columns, is_streaming), PrimitiveCosts(
        rates, _nanoseconds(data["first_row"]), _nanoseconds(data["further_row"])
    )


def _nanoseconds(value: Any) -> float:
    if type(value) not in {int, float} or not 0.0 <= value <= MAX_NS:
        raise ValueError(f"a cost must be a number of nanoseconds in 0..{MAX_NS:g}, not {value!r}")
    return float(value)


def known_costs(folder: Path | None) -> CostTable:
    """Return this machine's costs as `calibrate` measured them; an empty table if there is no valid record."""
    try:
        text = (folder / COSTS).read_text(encoding="utf-8") if folder is not None else ""
        return CostTable.of_data(json.loads(text)) if text else CostTable()
    except (OSError, ValueError, KeyError, TypeError, RecursionError, AttributeError):
        return CostTable()


def keep_costs(table: CostTable, folder: Path) -> None:
    """Write `table` atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    staged = folder / f".{COSTS}.{os.getpid()}"
    staged.write_text(json.dumps(table.to_data()), encoding="utf-8")
    staged.replace(folder / COSTS)
