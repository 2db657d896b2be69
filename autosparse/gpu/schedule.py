"""DeviceSchedule: how one operation is computed on a GPU, as a value from which Triton source is emitted.

A schedule is a list of parts. Each part takes entries of A that no earlier part has taken, stores them in its layout
and computes them with its own block shape; all parts are one launch (STile §4: horizontal fusion). The axes beside
the layouts are those of DASH, Table 1: warps, stages, vector width, column tile, and how rows that several programs
share are summed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from autosparse import ops
from autosparse.errors import ScheduleError
from autosparse.ops.base import ProductKind

KINDS: Final[Mapping[str, ProductKind]] = {one.name: one.kind for row in ops.OPS.values() for one in row.device}
"""Operation of a schedule -> what its kernels compute, as the rows of `OPS` say."""
SPMV, MATMUL = (one.name for one in ops.MATMUL.device)
(SDDMM,) = (one.name for one in ops.SDDMM.device)
(MTTKRP,) = (one.name for one in ops.MTTKRP.device)
REDUCTIONS: Final = ("two_phase", "atomic")
"""Sums of rows that several programs share: partial rows and a second kernel (one order, always), or atomic adds."""
PRECISIONS: Final = ("ieee", "tf32")
"""Of float32 products in Tensor Cores: none (exact), or TF32 (10 bits of mantissa), which has to be asked for."""
VERSION: Final = 1
"""Raise when the meaning of a field changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a part stores entries: which kernels it has code for, and which of a part's axes mean something."""

    kinds: tuple[ProductKind, ...]
    axes: tuple[str, ...]
    summary: str


LAYOUTS: Final[Mapping[str, Layout]] = {
    "rows": Layout(
        kinds=("vector", "columns", "sampled"), axes=("rows", "step", "at_most", "split"),
        summary="CSR: `rows` rows of similar length in one program; rows over `split` entries are cut",
    ),
    "ell": Layout(
        kinds=("vector", "columns"), axes=("rows", "step", "at_most"),
        summary="rows of at most `at_most` entries, padded to it: a bucket of hyb",
    ),
    "segments": Layout(
        kinds=("vector", "columns"), axes=("step", "split"),
        summary="runs of about `split` entries, whatever rows they are of: equal work for every program",
    ),
    "entries": Layout(
        kinds=("sampled",), axes=("rows",), summary="`rows` entries in one program, whatever rows they are of",
    ),
    "windows": Layout(
        kinds=("columns", "sampled"), axes=("rows", "step", "at_least"),
        summary="windows of `rows` rows without their empty columns, `step` columns in one Tensor Core product",
    ),
    "blocks": Layout(
        kinds=("columns", "sampled"), axes=("rows", "step", "at_least"),
        summary="BSR: aligned blocks of `rows` by `step`, one Tensor Core product each",
    ),
    "fibers": Layout(
        kinds=("fibers",), axes=("step", "split"),
        summary="CSF: `split` fibers of a root in one program",
    ),
    "fill": Layout(
        kinds=("vector", "columns", "fibers"), axes=("rows",), summary="rows of the result that have no entries",
    ),
}  # fmt: skip
"""Layout -> what there is code for. To add one: a row here, a body in `_native/triton` and a packer."""

DOT_LAYOUTS: Final = ("windows", "blocks")
"""Layouts that hold zeros in holes and are multiplied by ``tl.dot``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Entries in one layout. Axes that the layout does not have keep their default."""

    layout: str
    rows: int = 1  # rows (or entries) that one program computes at once: a power of 2
    step: int = 8  # entries of each row, or columns of a window or block, in one iteration: a power of 2
    at_most: int = 0  # longest row that it takes (0: any)
    split: int = 0  # most entries (fibers) of a row in one program (0: any)
    at_least: int = 1  # fewest entries of a column of a window, or of a block, that it takes

    def reason_illegal(self, operation: str) -> str | None:
        """Why there is no such part, or None."""
        row = LAYOUTS.get(self.layout)
        if row is None:
            return f"layout must be one of {', '.join(LAYOUTS)}, not {self.layout!r}"
        if KINDS[operation] not in row.kinds:
            computed = ", ".join(name for name, kind in KINDS.items() if kind in row.kinds)
            return f"layout {self.layout} computes {computed}, not {operation}"
        for field in dataclasses.fields(self):
            if field.name not in ("layout", *row.axes) and getattr(self, field.name) != field.default:
                return f"layout {self.layout} has no axis {field.name}"
        if not (_is_power_of_2(self.rows, 256) and _is_power_of_2(self.step, 256)):
            return f"rows={self.rows} and step={self.step} must be powers of 2 up to 256"
        if min(self.at_most, self.split, self.at_least - 1) < 0:
            return f"at_most={self.at_most} and split={self.split} must be >= 0, at_least={self.at_least} >= 1"
        return self._reason_unfit()

    def _reason_unfit(self) -> str | None:
        """Axes that must fit together."""
        if self.layout == "ell" and not (_is_power_of_2(self.at_most, 1024) and self.at_most >= self.step):
            return f"ell pads to at_most={self.at_most}, a power of 2 from step={self.step} to 1024"
        if self.layout in ("segments", "fibers") and self.split == 0:
            return f"{self.layout} needs split"
        if self.layout in DOT_LAYOUTS and not (self.rows in (8, 16, 32, 64, 128) and self.step >= 16):
            return f"{self.layout} has rows of 8 to 128 and step of 16 or more, not {self.rows} and {self.step}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSchedule:
    """Parts, and what they have in common. `tile` counts columns of the result (k for sddmm; 0 for spmv)."""

    operation: str
    parts: tuple[Part, ...]
    tile: int = 64
    warps: int = 4
    stages: int = 3
    registers: int = 64  # most registers of a thread: with 64 half of the threads that there may be are resident
    vector: int = 1  # elements of B loaded by one instruction; promises that B's rows are so aligned
    reduction: str = "two_phase"
    panel: int = 0  # column tiles that run together before the next ones (0: all): B's panel fits into L2
    precision: str = "ieee"

    def __post_init__(self) -> None:
        reason = self.reason_illegal()
        if reason:
            raise ScheduleError.illegal(self.to_json(), reason)

    def reason_illegal(self) -> str | None:
        """Why this is no schedule, or None."""
        if self.operation not in KINDS or self.reduction not in REDUCTIONS or self.precision not in PRECISIONS:
            return f"operation {self.operation}, reduction {self.reduction} or precision {self.precision} is not known"
        if not 1 <= len(self.parts) <= 12:
            return f"{len(self.parts)} parts: from 1 to 12 are fused"
        for part in self.parts:
            if (reason := part.reason_illegal(self.operation)) is not None:
                return reason
        if self.is_vector and (self.tile or self.panel):
            return f"{self.operation} has no columns: tile={self.tile} and panel={self.panel} must be 0"
        if not self.is_vector and not (_is_power_of_2(self.tile, 512) and self.panel >= 0):
            return f"tile={self.tile} must be a power of 2 up to 512, panel={self.panel} at least 0"
        if self.registers not in (32, 64, 96, 128, 168, 255):
            return f"registers={self.registers} must be one of 32, 64, 96, 128, 168, 255"
        if self.warps not in (1, 2, 4, 8, 16) or not 1 <= self.stages <= 8 or self.vector not in (1, 2, 4, 8):
            return f"warps={self.warps}, stages={self.stages}, vector={self.vector} are out of range"
        return self._reason_incomplete()

    def _reason_incomplete(self) -> str | None:
        """Some part must take whatever the others leave, and rows without entries are written too."""
        layouts = [part.layout for part in self.parts]
        if ("fill" in layouts[:-1]) or (layouts[-1] == "fill") is self.is_sampled:
            return "products end with one part fill, for rows without entries; sddmm has none"
        if "entries" in layouts and any(name not in DOT_LAYOUTS for name in layouts[:-1]):
            return "entries are listed whole: only windows and blocks may take some before"
        last = [part for part in self.parts if part.layout != "fill"][-1:]
        if not last or last[0].at_most or last[0].at_least > 1:
            return "the last part must take every entry that is left: no at_most, no at_least"
        if self.tile and self.vector > self.tile:
            return f"vector={self.vector} exceeds tile={self.tile}"
        return None

    @property
    def kind(self) -> ProductKind:
        """What the kernel computes."""
        return KINDS[self.operation]

    @property
    def is_vector(self) -> bool:
        """Whether B and the result are vectors, so that there are no column tiles."""
        return self.kind == "vector"

    @property
    def is_sampled(self) -> bool:
        """Whether results are at the entries of A."""
        return self.kind == "sampled"

    @property
    def shares_rows(self) -> bool:
        """Whether several programs may add to one row of the result."""
        if self.is_sampled:
            return False
        return any(part.split for part in self.parts) or any(self.follows_dots(n) for n in range(len(self.parts)))

    @property
    def is_deterministic(self) -> bool:
        """Whether sums have one order, whatever the device does."""
        return self.reduction == "two_phase" or not self.shares_rows

    @property
    def has_dots(self) -> bool:
        """Whether a part multiplies in Tensor Cores (with dtypes that they take)."""
        return any(part.layout in DOT_LAYOUTS for part in self.parts)

    def follows_dots(self, n: int) -> bool:
        """Whether part `n` gets rows that an earlier part may have taken entries from."""
        return any(part.layout in DOT_LAYOUTS for part in self.parts[:n])

    def to_json(self) -> str:
        """Canonical text; `from_json` inverts it."""
        return json.dumps({"version": VERSION, **dataclasses.asdict(self)}, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> DeviceSchedule:
        """Read `to_json` text; ScheduleError when it is no schedule of this version."""
        try:
            values: dict[str, Any] = json.loads(text)  # Any: JSON
            if values.pop("version") != VERSION:
                raise ScheduleError.unparsable(text, expected=f"a device schedule of version {VERSION}")
            parts = tuple(Part(**part) for part in values.pop("parts"))
            return cls(parts=parts, **values)
        except (ValueError, LookupError, TypeError, AttributeError) as err:
            if isinstance(err, ScheduleError):
                raise
            raise ScheduleError.unparsable(text, expected=f"a device schedule as JSON ({err})") from err

    def stable_hash(self) -> str:
        """16 hex digits that name this schedule in keys."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=8).hexdigest()

    def __str__(self) -> str:
        parts = " + ".join(
            part.layout + "(" + ", ".join(f"{name}={getattr(part, name)}" for name in LAYOUTS[part.layout].axes) + ")"
            for part in self.parts
        )
        return f"{parts}; tile={self.tile}, warps={self.warps}, stages={self.stages}, vector={self.vector}"


def _is_power_of_2(number: int, most: int) -> bool:
    return 1 <= number <= most and number & (number - 1) == 0
