"""Packed operands: entries of A in the layouts of a schedule's parts, the task table, and the destinations of rows.

Packing runs in torch on the matrix's device, once per structure. Values are not copied: parts store their positions in
the user's array, so a kernel reads the values present at the time of the product.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Final

import torch
from autosparse._native.triton.entries import NOWHERE, DeviceEntries, DevicePart, padded, rejoin, select
from autosparse._native.triton.packers import PACKERS
from autosparse._native.triton.spec import SHARED, DeviceSpec, part_arrays

from autosparse.scalar import INDICES, SCALARS
from autosparse.scalar.tensors import narrow_index

FIRST_SLOT: Final = -2
"""Destination that stands for slot 0; slot s is FIRST_SLOT - s."""

INDEX_TYPES: Final = {name: SCALARS[name].torch for name in INDICES}
"""Torch's index dtypes by name."""


@dataclass(slots=True)
class Packed:
    """Arguments of a launch beside values and dense operands."""

    spec: DeviceSpec
    n_rows: int
    n_cols: int
    nnz: int
    table: torch.Tensor  # (tasks, 2): part and first unit
    arrays: tuple[torch.Tensor, ...]  # in the order of the kernel's parameters
    shared_rows: torch.Tensor  # rows to which several units add
    slots: torch.Tensor  # (shared + 1,): first slot of each shared row
    n_slots: int
    n_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        own = (self.table, *self.arrays, self.shared_rows, self.slots)
        self.n_bytes = sum(one.numel() * one.element_size() for one in own)

    @property
    def n_tasks(self) -> int:
        """Number of programs for one column tile."""
        return self.table.shape[0]


def pack(spec: DeviceSpec, entries: DeviceEntries, *, nnz: int) -> Packed:
    """Pack the entries as `spec` requires; synchronises with the device several times."""
    index = INDEX_TYPES[spec.index_dtype]
    left, parts, schedule = entries, [], spec.schedule
    for n, part in enumerate(schedule.parts):
        if part.layout != "fill":
            given, others = select(part.select, left)
            if spec.reads_positions(n) and given.positions is None:
                given = dataclasses.replace(given, positions=given.places())
            packed, refused = PACKERS[part.layout](part, given)
            left = rejoin(refused, others)
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
    """Return `array`, or one element for an empty array, whose address a kernel can take."""
    return array if array.numel() else array.new_zeros(1)


def _shared_arrays(spec: DeviceSpec, entries: DeviceEntries) -> dict[str, torch.Tensor]:
    if spec.schedule.kind == "fibers":
        assert entries.fiber_ends is not None
        assert entries.fiber_cols is not None
        return {"fiber_ends": entries.fiber_ends, "fiber_cols": entries.fiber_cols, "leaf_cols": entries.cols}
    return {"cols": entries.cols}


def _fill(parts: list[DevicePart], n_rows: int, rows: int) -> DevicePart:
    """Return the part of the rows that no other part writes."""
    written = torch.zeros(n_rows, dtype=torch.bool, device=parts[0].rows.device)
    for part in parts:
        written[part.rows[part.rows >= 0]] = True
    ids = padded((~written).nonzero().squeeze(1), rows, NOWHERE)
    return DevicePart({}, ids, rows, ids.shape[0] // rows)


def _destinations(spec: DeviceSpec, parts: list[DevicePart], n_rows: int) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Set `dest` of each part: the row where one unit writes it, else its slot.

    Returns the shared rows, the first slot of each, and the number of slots.
    """
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
    units = is_shared.nonzero().squeeze(1)
    order = torch.sort(everything[units], stable=True).indices
    dest[units[order]] = FIRST_SLOT - torch.arange(units.shape[0], device=dest.device)
    slots = torch.cat([counts.new_zeros(1), torch.cumsum(counts[shared], 0)])
    for part, own in zip(parts, torch.split(dest, [part.rows.shape[0] for part in parts]), strict=True):
        part.arrays["dest"] = own
    return shared, slots, units.shape[0]


def _table(parts: list[DevicePart]) -> torch.Tensor:
    """Return (part, first unit) of each task, in the order of the parts."""
    rows = []
    for n, part in enumerate(parts):
        units = torch.arange(part.n_tasks, device=part.rows.device, dtype=narrow_index) * part.units_per_task
        rows.append(torch.stack([torch.full_like(units, n), units], dim=1))
    return torch.cat(rows).contiguous()
