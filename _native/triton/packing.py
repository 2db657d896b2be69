"""Packed operands: entries of A in the layouts of a schedule's parts, the block table, and who writes which row.

Everything is computed by torch where the matrix is, once per structure. Values are not copied: parts say where in the
user's own array they lie, so a kernel reads whatever stands there at the moment of the product.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Final

import torch
from autosparse._native.triton.spec import SHARED, DeviceSpec, part_arrays

NOWHERE: Final = -1
"""Destination of padding."""
FIRST_SLOT: Final = -2
"""Destination of slot 0; slot s is FIRST_SLOT - s."""

INDEX_TYPES: Final = {"int32": torch.int32, "int64": torch.int64}


@dataclass(slots=True)
class Entries:
    """Entries that are still to be packed: row i has those from `starts[i]` to `ends[i]` of `cols` and `positions`.

    `positions` is None where entry e has value e. Of a tensor in CSF, rows are roots and have fibers.
    """

    starts: torch.Tensor
    ends: torch.Tensor
    cols: torch.Tensor
    positions: torch.Tensor | None
    n_cols: int
    fiber_ends: torch.Tensor | None = None  # CSF: (fibers + 1,) first entry of each fiber
    fiber_cols: torch.Tensor | None = None  # CSF: (fibers,) index of each fiber
    grid: torch.Tensor | None = None  # rows, ascending, that blocks and windows are cut from (None: all)

    @property
    def n_rows(self) -> int:
        """Rows of the result."""
        return self.starts.shape[0]

    @property
    def lengths(self) -> torch.Tensor:
        """Entries (fibers) of each row that are left."""
        return self.ends - self.starts

    @property
    def nnz(self) -> int:
        """Entries that are left; the host waits for the device."""
        return int(self.lengths.sum())

    def grid_lengths(self) -> torch.Tensor:
        """Entries of each row of the grid."""
        return self.lengths if self.grid is None else self.lengths[self.grid]

    def number(self, rows: torch.Tensor) -> torch.Tensor:
        """Number of each of `rows` in the grid."""
        return rows if self.grid is None else torch.searchsorted(self.grid, rows)

    def row_of(self, numbers: torch.Tensor) -> torch.Tensor:
        """Row of each number in the grid; NOWHERE beyond its end."""
        n_rows = self.n_rows if self.grid is None else self.grid.shape[0]
        known = torch.arange(n_rows, device=numbers.device) if self.grid is None else self.grid
        return torch.where(numbers < n_rows, padded(known, n_rows + 1, NOWHERE)[numbers.clamp(max=n_rows)], NOWHERE)

    def listed(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Row of each entry that is left, and where it stands in the arrays."""
        lengths = self.lengths
        rows = torch.repeat_interleave(torch.arange(self.n_rows, device=lengths.device), lengths)
        before = torch.cumsum(lengths, 0) - lengths
        return rows, torch.arange(rows.shape[0], device=rows.device) + (self.starts - before)[rows]

    def places(self) -> torch.Tensor:
        """Where the value of each entry of the arrays lies."""
        if self.positions is not None:
            return self.positions
        return torch.arange(self.cols.shape[0], device=self.cols.device)

    def only(self, rows: torch.Tensor, at: torch.Tensor) -> Entries:
        """The entries at `at`, of `rows`, both in the order of rows, in arrays of their own."""
        counts = torch.bincount(rows, minlength=self.n_rows)
        ends = torch.cumsum(counts, 0)
        return Entries(ends - counts, ends, self.cols[at], self.places()[at], self.n_cols, grid=self.grid)


@dataclass(slots=True)
class PackedPart:
    """Arrays of one part by name; `rows` (units,) is the row that each unit adds to (-1: padding)."""

    arrays: dict[str, torch.Tensor]
    rows: torch.Tensor
    units_per_task: int
    n_tasks: int


@dataclass(slots=True)
class Packed:
    """What a launch hands over beside values and dense operands."""

    spec: DeviceSpec
    n_rows: int
    n_cols: int
    nnz: int
    table: torch.Tensor  # (tasks, 2): part and first unit
    arrays: tuple[torch.Tensor, ...]  # in the order of the kernel's parameters
    shared_rows: torch.Tensor  # rows that several units add to
    slots: torch.Tensor  # (shared + 1,): first slot of each of them
    n_slots: int
    n_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        own = (self.table, *self.arrays, self.shared_rows, self.slots)
        self.n_bytes = sum(one.numel() * one.element_size() for one in own)

    @property
    def n_tasks(self) -> int:
        """Programs for one column tile."""
        return self.table.shape[0]


def pack(spec: DeviceSpec, entries: Entries, *, nnz: int) -> Packed:
    """The entries as `spec` says; the host waits for the device several times."""
    from autosparse._native.triton import selections
    from autosparse._native.triton.packers import PACKERS

    index = INDEX_TYPES[spec.index_dtype]
    left, parts, schedule = entries, [], spec.schedule
    for n, part in enumerate(schedule.parts):
        if part.layout != "fill":
            given, others = selections.select(part.select, left)
            if spec.reads_positions(n) and given.positions is None:
                given = dataclasses.replace(given, positions=given.places())
            packed, refused = PACKERS[part.layout](part, given)
            left = selections.rejoin(refused, others)
            parts.append(packed)
    if schedule.parts[-1].layout == "fill":
        parts.append(_fill(parts, entries.n_rows, schedule.parts[-1].rows))
    shared, slots, n_slots = _destinations(spec, parts, entries.n_rows)
    named = _shared_arrays(spec, entries)
    for n, made in enumerate(parts):
        named |= {f"p{n}_{name}": made.arrays[name] for name in part_arrays(spec, n)}
    order = [*SHARED[schedule.kind], *(f"p{n}_{name}" for n in range(len(parts)) for name in part_arrays(spec, n))]
    arrays = tuple(_filled(named[name].to(index).contiguous()) for name in order)
    return Packed(spec, entries.n_rows, entries.n_cols, nnz, _table(parts), arrays, shared, slots, n_slots)


def _filled(array: torch.Tensor) -> torch.Tensor:
    """An array of one element instead of none: a kernel may take its address."""
    return array if array.numel() else array.new_zeros(1)


def _shared_arrays(spec: DeviceSpec, entries: Entries) -> dict[str, torch.Tensor]:
    if spec.schedule.kind == "fibers":
        assert entries.fiber_ends is not None
        assert entries.fiber_cols is not None
        return {"fiber_ends": entries.fiber_ends, "fiber_cols": entries.fiber_cols, "leaf_cols": entries.cols}
    return {"cols": entries.cols}


def _fill(parts: list[PackedPart], n_rows: int, rows: int) -> PackedPart:
    """Rows that no part writes."""
    written = torch.zeros(n_rows, dtype=torch.bool, device=parts[0].rows.device)
    for part in parts:
        written[part.rows[part.rows >= 0]] = True
    ids = padded((~written).nonzero().squeeze(1), rows, NOWHERE)
    return PackedPart({}, ids, rows, ids.shape[0] // rows)


def _destinations(spec: DeviceSpec, parts: list[PackedPart], n_rows: int) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Set each part's `dest`: the row where one unit writes it, else its slot; for atomic adds the row's own code."""
    everything = torch.cat([part.rows for part in parts])
    real = everything[everything >= 0]
    counts = torch.bincount(real, minlength=n_rows)
    shared = (counts > 1).nonzero().squeeze(1)
    if spec.schedule.is_sampled or not shared.numel():
        for part in parts:
            part.arrays.setdefault("dest", part.rows)
        return shared[:0], shared.new_zeros(1), 0
    is_shared = (everything >= 0) & (counts[everything.clamp(min=0)] > 1)
    dest = everything.clone()
    if spec.schedule.reduction == "atomic":
        dest[is_shared] = FIRST_SLOT - everything[is_shared]
        slots, n_slots = shared.new_zeros(1), 0
    else:
        units = is_shared.nonzero().squeeze(1)
        order = torch.sort(everything[units], stable=True).indices
        dest[units[order]] = FIRST_SLOT - torch.arange(units.shape[0], device=dest.device)
        slots = torch.cat([counts.new_zeros(1), torch.cumsum(counts[shared], 0)])
        n_slots = units.shape[0]
    for part, own in zip(parts, torch.split(dest, [part.rows.shape[0] for part in parts]), strict=True):
        part.arrays["dest"] = own
    return shared, slots, n_slots


def _table(parts: list[PackedPart]) -> torch.Tensor:
    """(part, first unit) of each task, in the order of the parts."""
    rows = []
    for n, part in enumerate(parts):
        units = torch.arange(part.n_tasks, device=part.rows.device, dtype=torch.int32) * part.units_per_task
        rows.append(torch.stack([torch.full_like(units, n), units], dim=1))
    return torch.cat(rows).contiguous()


def padded(array: torch.Tensor, multiple: int, value: int) -> torch.Tensor:
    """`array` with `value` appended until its length is a multiple of `multiple`."""
    return torch.nn.functional.pad(array, (0, -array.shape[0] % multiple), value=value)


def entries_of_csr(crow: torch.Tensor, col: torch.Tensor, n_cols: int) -> Entries:
    """The entries of compressed rows; value e belongs to entry e."""
    crow = crow.long()
    return Entries(crow[:-1], crow[1:], col, None, n_cols)


def entries_of_transpose(crow: torch.Tensor, col: torch.Tensor, n_cols: int) -> Entries:
    """The entries of the transpose of compressed rows, sorted by its rows; values stay where they are."""
    rows = torch.repeat_interleave(torch.arange(crow.shape[0] - 1, device=col.device), crow.long().diff())
    order = torch.sort(col, stable=True).indices
    ends = torch.cumsum(torch.bincount(col, minlength=n_cols), 0)
    starts = torch.cat([ends.new_zeros(1), ends[:-1]]) if n_cols else ends
    return Entries(starts, ends, rows[order], order, crow.shape[0] - 1)


def entries_of_csf(
    root_ends: torch.Tensor, fiber_cols: torch.Tensor, fiber_ends: torch.Tensor, leaf_cols: torch.Tensor
) -> Entries:
    """The entries of a tensor of order 3: fibers of each root (n + 1,), entries of each fiber (fibers + 1,)."""
    root_ends = root_ends.long()
    return Entries(root_ends[:-1], root_ends[1:], leaf_cols, None, 0, fiber_ends, fiber_cols)
