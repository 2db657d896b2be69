"""Schedule of an operation on a GPU, as a value from which Triton source is generated.

A schedule is a list of parts. Each part takes entries of A that no earlier part has taken, stores them in its layout
and computes them with its own block shape; all parts are one launch (STile §4: horizontal fusion). The other axes are
those of DASH, Table 1: warps, stages, vector width and column tile. A second kernel sums the partial rows that several
programs share, in one order. Parts with a rule (`GpuPart.select`) make it a composite; the rules are those of
`core.composite`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from autosparse import ops
from autosparse.core.composite import REST, Blocks, Selection, selection_of
from autosparse.errors import ScheduleError
from autosparse.ops.base import ProductKind


def kinds() -> Mapping[str, ProductKind]:
    """Return a mapping from the name of each GPU operation to its kind of product, from the rows of `OPS`."""
    return {one.name: one.kind for row in ops.OPS.values() for one in row.device}


SPMV, MATMUL = (one.name for one in ops.MATMUL.device)
(SDDMM,) = (one.name for one in ops.SDDMM.device)
(MTTKRP,) = (one.name for one in ops.MTTKRP.device)
PRECISIONS: Final = ("ieee", "tf32")
"""Precisions of float32 products: without Tensor Cores (exact), or in TF32 (10-bit mantissa), which is optional."""
SUMMATION: Final = "two_phase"
"""Value of the field `reduction` in texts from when atomic adds were a choice."""
VERSION: Final = 1
"""Version of the JSON format; raise it when the meaning of a field changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartLayout:
    """Storage layout of a part: the kinds of product with code for it, and the axes of a part that it uses."""

    kinds: tuple[ProductKind, ...]
    axes: tuple[str, ...]


LAYOUTS: Final[Mapping[str, PartLayout]] = {
    # CSR: `rows` rows of similar length in one program; rows over `split` entries are cut
    "rows": PartLayout(kinds=("vector", "columns", "sampled"), axes=("rows", "step", "at_most", "split")),
    # CSR: `step` entries of each of `rows` rows, one after another: lanes have columns, none shares a sum
    "unrolled": PartLayout(kinds=("columns", "sampled"), axes=("rows", "step", "at_most", "split")),
    # rows of at most `at_most` entries, padded to it: a bucket of hyb
    "ell": PartLayout(kinds=("vector", "columns"), axes=("rows", "step", "at_most")),
    # runs of about `split` entries, whatever rows they are of: equal work for every program
    "segments": PartLayout(kinds=("vector", "columns"), axes=("step", "split")),
    # `rows` entries in one program, whatever rows they are of
    "entries": PartLayout(kinds=("sampled",), axes=("rows",)),
    # windows of `rows` rows without their empty columns, `step` columns in one dense product
    "windows": PartLayout(kinds=("columns", "sampled"), axes=("rows", "step", "at_least", "split")),
    # BSR: aligned blocks of `rows` by `step`, one dense product each
    "blocks": PartLayout(kinds=("columns", "sampled"), axes=("rows", "step", "at_least", "split")),
    # CSF: `split` fibers of a root in one program
    "fibers": PartLayout(kinds=("fibers",), axes=("step", "split")),
    # rows of the result that have no entries
    "fill": PartLayout(kinds=("vector", "columns", "fibers"), axes=("rows",)),
}
"""Layouts by name. To add one: a row here, a body in `_native/triton` and a packer."""

DOT_LAYOUTS: Final = ("windows", "blocks")
"""Layouts that store zeros for missing entries and are multiplied by ``tl.dot``."""
WHOLE_LAYOUTS: Final = ("fibers", "fill")
"""Layouts that cannot have a rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPart:
    """Part of a schedule: the entries that one layout computes. Axes unused by the layout keep their default."""

    layout: str
    rows: int = 1  # rows (or entries) that one program computes at once: a power of 2
    step: int = 8  # entries of each row, or columns of a window or block, in one iteration: a power of 2
    at_most: int = 0  # longest row that the part takes (0: any)
    split: int = 0  # most entries (fibers) of a row, or columns of a window, in one program (0: any)
    at_least: int = 1  # fewest entries of a window's column, or of a block, that the part takes
    select: Selection = REST  # rule that selects entries among those left by earlier parts

    @property
    def takes_rows(self) -> bool:
        """Return whether the part takes whole rows, so that no other part has entries of its rows."""
        return self.layout not in DOT_LAYOUTS and not isinstance(self.select, Blocks)

    def reason_illegal(self, operation: str) -> str | None:
        """Return why the part is illegal, or None."""
        row, known = LAYOUTS.get(self.layout), kinds()
        if row is None:
            return f"layout must be one of {', '.join(LAYOUTS)}, not {self.layout!r}"
        if known[operation] not in row.kinds:
            computed = ", ".join(name for name, kind in known.items() if kind in row.kinds)
            return f"layout {self.layout} computes {computed}, not {operation}"
        if self.layout in WHOLE_LAYOUTS and self.select != REST:
            return f"layout {self.layout} cannot have a rule (given: {self.select})"
        for field in dataclasses.fields(self):
            if field.name not in ("layout", "select", *row.axes) and getattr(self, field.name) != field.default:
                return f"layout {self.layout} has no axis {field.name}"
        if not (_is_power_of_2(self.rows, 256) and _is_power_of_2(self.step, 256)):
            return f"rows={self.rows} and step={self.step} must be powers of 2 up to 256"
        if min(self.at_most, self.split, self.at_least - 1) < 0:
            return f"at_most={self.at_most} and split={self.split} must be >= 0, at_least={self.at_least} >= 1"
        return self._reason_unfit()

    def _reason_unfit(self) -> str | None:
        """Return why the values of this part's axes contradict each other, or None if they do not."""
        if self.layout == "ell" and not (_is_power_of_2(self.at_most, 1024) and self.at_most >= self.step):
            return f"ell pads to at_most={self.at_most}, a power of 2 from step={self.step} to 1024"
        if self.layout in ("segments", "fibers") and self.split == 0:
            return f"{self.layout} needs split"
        if self.layout in DOT_LAYOUTS and not (self.rows in (8, 16, 32, 64, 128) and self.step >= 16):
            return f"{self.layout} has rows of 8 to 128 and step of 16 or more, not {self.rows} and {self.step}"
        if self.layout in DOT_LAYOUTS and self.split % self.step:
            return f"{self.layout} is cut between groups: split={self.split} must be a multiple of step={self.step}"
        return None

    def values(self) -> dict[str, Any]:
        """Return the fields for JSON, without a rule that selects everything."""
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del found["select"]
        return found if self.select == REST else found | {"select": str(self.select)}

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> GpuPart:
        """Return the part from the fields that `values` wrote."""
        return cls(**{**values, "select": selection_of(values.get("select", str(REST)))})

    def __str__(self) -> str:
        axes = ", ".join(f"{name}={getattr(self, name)}" for name in LAYOUTS[self.layout].axes)
        return f"{self.select}: " * (self.select != REST) + f"{self.layout}({axes})"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSchedule:
    """Schedule of a GPU kernel: parts and their common parameters.

    `tile`: columns of the result that a program computes at once (k for sddmm; 0 for spmv).
    """

    operation: str
    parts: tuple[GpuPart, ...]
    tile: int = 64
    warps: int = 4
    stages: int = 3
    registers: int = 64  # maximum registers of a thread; 64 allow half of the maximum resident threads
    vector: int = 1  # elements of B per load instruction; B's rows must be aligned to them
    panel: int = 0  # column tiles computed together before the next ones (0: all), so that B's panel fits into L2
    precision: str = "ieee"

    def __post_init__(self) -> None:
        reason = self.reason_illegal()
        if reason:
            raise ScheduleError.illegal(self.to_json(), reason)

    def reason_illegal(self) -> str | None:
        """Return why the schedule is illegal, or None."""
        if self.operation not in kinds() or self.precision not in PRECISIONS:
            return f"operation {self.operation} or precision {self.precision} is not known"
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
        """Return why the parts do not cover all entries and empty rows (or why `vector` is too wide), or None."""
        layouts = [part.layout for part in self.parts]
        if ("fill" in layouts[:-1]) or (layouts[-1] == "fill") is self.is_sampled:
            return "products end with one part fill, for rows without entries; sddmm has none"
        last = [part for part in self.parts if part.layout != "fill"][-1:]
        if not last or last[0].at_most or last[0].at_least > 1 or last[0].select != REST:
            return "the last part must take every entry that is left: no at_most, no at_least, no rule"
        if self.tile and self.vector > self.tile:
            return f"vector={self.vector} exceeds tile={self.tile}"
        return None

    @property
    def kind(self) -> ProductKind:
        """Kind of product that the kernel computes."""
        return kinds()[self.operation]

    @property
    def is_vector(self) -> bool:
        """Return whether B and the result are vectors, so that there are no column tiles."""
        return self.kind == "vector"

    @property
    def is_sampled(self) -> bool:
        """Return whether results are at the entries of A."""
        return self.kind == "sampled"

    @property
    def shares_rows(self) -> bool:
        """Return whether several programs may add to the same row of the result: parts are split or share rows."""
        if self.is_sampled:
            return False
        real = [n for n, part in enumerate(self.parts) if part.layout != "fill"]
        return any(self.parts[n].split or self.follows_cut(n) for n in real)

    @property
    def selections(self) -> tuple[Selection, ...]:
        """Rules by which the parts select entries, in order and each once; (REST,) for a schedule without rules."""
        return tuple(dict.fromkeys(part.select for part in self.parts if part.layout != "fill"))

    def layouts_of(self, rule: Selection) -> tuple[str, ...]:
        """Return the layouts, in order, of the parts whose entries `rule` selects."""
        return tuple(part.layout for part in self.parts if part.select == rule and part.layout != "fill")

    @property
    def is_composite(self) -> bool:
        """Return whether rules select the entries of the parts."""
        return self.selections != (REST,)

    def follows_cut(self, n: int) -> bool:
        """Return whether a part before part `n` takes single entries, so that rows of part `n` may be incomplete."""
        return any(not part.takes_rows for part in self.parts[:n])

    def is_listed(self, n: int) -> bool:
        """Return whether part `n` needs a list of its entries, because they are not contiguous in the matrix."""
        part = self.parts[n]
        return self.follows_cut(n) or not part.takes_rows or (part.layout == "entries" and n > 0)

    def to_json(self) -> str:
        """Return canonical JSON, the inverse of `from_json`."""
        own = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        values = {"version": VERSION, **own, "parts": [part.values() for part in self.parts]}
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> DeviceSchedule:
        """Return the schedule of a `to_json` text. Raises ScheduleError for other texts or versions."""
        try:
            values: dict[str, Any] = json.loads(text)  # Any: JSON
            if values.pop("version") != VERSION:
                raise ScheduleError.unparsable(text, expected=f"a device schedule of version {VERSION}")
            if values.pop("reduction", SUMMATION) != SUMMATION:
                raise ScheduleError.unparsable(text, expected="a device schedule without atomic adds")
            parts = tuple(map(GpuPart.of_values, values.pop("parts")))
            return cls(parts=parts, **values)
        except (ValueError, LookupError, TypeError, AttributeError) as err:
            if isinstance(err, ScheduleError):
                raise
            raise ScheduleError.unparsable(text, expected=f"a device schedule as JSON ({err})") from err

    def stable_hash(self) -> str:
        """Return 16 hex digits that identify this schedule in keys."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=8).hexdigest()

    def __str__(self) -> str:
        axes = ", ".join(f"{name}={getattr(self, name)}" for name in ("tile", "warps", "stages", "vector"))
        return f"{' + '.join(map(str, self.parts))}; {axes}"


def _is_power_of_2(number: int, most: int) -> bool:
    return 1 <= number <= most and number & (number - 1) == 0
