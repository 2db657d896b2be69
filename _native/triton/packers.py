"""Packers of the layouts: each takes entries for its part and returns those it leaves to later parts."""

# mypy: allow-untyped-calls
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

import torch
from autosparse._native.triton.entries import NOWHERE, DeviceEntries, DevicePart, padded

from autosparse.gpu.schedule import GpuPart
from autosparse.scalar.tensors import wide_index, wide_real

FINE: Final = 16
"""Maximum length of rows that are sorted by their exact lengths."""
Packer = Callable[[GpuPart, DeviceEntries], tuple[DevicePart, DeviceEntries]]


def _take_rows(part: GpuPart, entries: DeviceEntries) -> tuple[torch.Tensor, DeviceEntries]:
    """Return the rows to take, longest length class first, and the entries left without them.

    Rows have 1 to `at_most` entries (0: any number). Rows of one length class keep their order, since neighbours often
    read the same rows of B.
    """
    lengths = entries.lengths
    taken = lengths > 0
    if part.at_most:
        taken &= lengths <= part.at_most
    rows = taken.nonzero().squeeze(1)
    left = dataclasses.replace(entries, ends=torch.where(taken, entries.starts, entries.ends))
    return rows[torch.sort(_classes(lengths[rows]), descending=True, stable=True).indices], left


def _classes(lengths: torch.Tensor) -> torch.Tensor:
    """Return length classes: exact lengths up to FINE, beyond that two classes for each power of 2."""
    return torch.where(lengths <= FINE, lengths, (2 * torch.log2(lengths.clamp(min=1).to(wide_real))).long() + FINE)


def _pieces(rows: torch.Tensor, entries: DeviceEntries, split: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (row, start, end) of pieces of at most `split` entries (0: whole rows)."""
    return _cut(rows, entries.starts, entries.ends, split)


def _cut(
    rows: torch.Tensor, starts: torch.Tensor, ends: torch.Tensor, split: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return (row, start, end) of pieces of the ranges of `rows`, of at most `split` elements (0: whole ranges)."""
    starts, ends = starts[rows], ends[rows]
    if not split:
        return rows, starts, ends
    counts = (ends - starts + split - 1) // split
    which = torch.repeat_interleave(torch.arange(rows.shape[0], device=rows.device), counts)
    number = torch.arange(which.shape[0], device=rows.device) - (torch.cumsum(counts, 0) - counts)[which]
    first = starts[which] + number * split
    return rows[which], first, torch.minimum(first + split, ends[which])


def _lists(entries: DeviceEntries) -> dict[str, torch.Tensor]:
    """Return columns and positions, for kernels that read them from a part's own arrays."""
    own = {"cols": entries.cols}
    return own if entries.positions is None else own | {"positions": entries.positions}


def pack_rows(part: GpuPart, entries: DeviceEntries) -> tuple[DevicePart, DeviceEntries]:
    """Pack rows, or pieces of them, of similar lengths in one program; return the part and the entries left."""
    taken, left = _take_rows(part, entries)
    rows, starts, ends = (padded(one, part.rows, 0) for one in _pieces(taken, entries, part.split))
    n_units = rows.shape[0]
    rows[starts == ends] = NOWHERE
    arrays = {"starts": starts, "ends": ends, **_lists(entries)}
    return DevicePart(arrays, rows, part.rows, n_units // part.rows), left


def pack_ell(part: GpuPart, entries: DeviceEntries) -> tuple[DevicePart, DeviceEntries]:
    """Pack rows in a rectangle of width `at_most`, padded by -1; return the part and the entries left."""
    taken, left = _take_rows(part, entries)
    rows = padded(taken, part.rows, NOWHERE)
    starts = padded(entries.starts[taken], part.rows, 0)
    lengths = padded(entries.lengths[taken], part.rows, 0)
    lanes = torch.arange(part.at_most, device=rows.device)
    at, is_entry = starts[:, None] + lanes, lanes < lengths[:, None]
    at = torch.where(is_entry, at, 0)
    arrays = {"starts": starts, "cols": _looked_up(entries.cols, at, is_entry).reshape(-1)}
    if entries.positions is not None:
        arrays["positions"] = _looked_up(entries.positions, at, is_entry).reshape(-1)
    return DevicePart(arrays, rows, part.rows, rows.shape[0] // part.rows), left


def _looked_up(array: torch.Tensor, at: torch.Tensor, is_entry: torch.Tensor) -> torch.Tensor:
    return torch.where(is_entry, array[at], -1) if array.numel() else torch.full_like(at, -1)


def pack_segments(part: GpuPart, entries: DeviceEntries) -> tuple[DevicePart, DeviceEntries]:
    """Pack runs of `split` entries in row order, cut where a row ends; return the part and no entries left."""
    lengths, device = entries.lengths, entries.starts.device
    rows = (lengths > 0).nonzero().squeeze(1)
    before = torch.cumsum(lengths[rows], 0) - lengths[rows]
    total = int(lengths.sum())
    cuts = torch.arange(0, total, part.split, device=device)
    bounds = torch.unique(torch.cat([before, cuts]))
    which = torch.searchsorted(before, bounds, right=True) - 1
    starts = entries.starts[rows][which] + bounds - before[which]
    ends = starts + torch.diff(bounds, append=bounds.new_full((1,), total))
    pieces = torch.searchsorted(bounds, torch.cat([cuts, cuts.new_full((1,), total)]))
    arrays = {"pieces": pieces, "starts": starts, "ends": ends, **_lists(entries)}
    left = dataclasses.replace(entries, ends=entries.starts)
    return DevicePart(arrays, rows[which], 1, cuts.shape[0]), left


def pack_entries(part: GpuPart, entries: DeviceEntries) -> tuple[DevicePart, DeviceEntries]:
    """Pack all entries one by one, each with its row; return the part and no entries left."""
    rows, at = entries.listed()
    if at.shape[0] != entries.cols.shape[0]:  # earlier parts took some: copy the others contiguously
        entries = entries.only(rows, at)
    ids = padded(rows, part.rows, NOWHERE)
    left = dataclasses.replace(entries, ends=entries.starts)
    return DevicePart({"rows": ids, **_lists(entries)}, ids, part.rows, ids.shape[0] // part.rows), left


def pack_windows(part: GpuPart, entries: DeviceEntries) -> tuple[DevicePart, DeviceEntries]:
    """Pack windows of `rows` rows: their columns with `at_least` entries side by side, in groups of `step`.

    Returns the part and the entries left.
    """
    rows, at = entries.listed()
    columns = entries.cols[at].long()
    window, repeat, n_repeats = entries.number(rows) // part.rows, *_repeats(rows, columns, entries.n_cols)
    key = (window * entries.n_cols + columns) * n_repeats + repeat
    keys, which, counts = torch.unique(key, return_inverse=True, return_counts=True)
    kept = counts >= part.at_least
    owner = keys[kept] // (n_repeats * entries.n_cols)  # window of each kept column
    per_window = torch.bincount(owner)
    groups = (per_window + part.step - 1) // part.step
    first_group = torch.cumsum(groups, 0) - groups
    number = torch.arange(owner.shape[0], device=rows.device) - (torch.cumsum(per_window, 0) - per_window)[owner]
    lane = torch.zeros_like(keys)
    lane[kept] = first_group[owner] * part.step + number
    n_groups = int(groups.sum())
    cols = torch.full((n_groups * part.step,), -1, dtype=wide_index, device=rows.device)
    cols[lane[kept]] = keys[kept] // n_repeats % entries.n_cols
    taken = kept[which]
    place = lane[which[taken]]
    return _tiles(part, entries, (rows, at, taken), groups=(groups, place // part.step, place % part.step, cols))


def pack_blocks(part: GpuPart, entries: DeviceEntries) -> tuple[DevicePart, DeviceEntries]:
    """Pack aligned blocks, `rows` by `step`, of at least `at_least` entries; return the part and the entries left."""
    rows, at = entries.listed()
    columns = entries.cols[at].long()
    repeat, n_repeats = _repeats(rows, columns, entries.n_cols)
    across = -(-entries.n_cols // part.step) or 1
    key = ((entries.number(rows) // part.rows) * across + columns // part.step) * n_repeats + repeat
    keys, which, counts = torch.unique(key, return_inverse=True, return_counts=True)
    kept = counts >= part.at_least
    owner = keys[kept] // (n_repeats * across)
    groups = torch.bincount(owner)
    number = torch.cumsum(kept, 0) - 1
    first = (keys[kept] // n_repeats % across) * part.step
    cols = (first[:, None] + torch.arange(part.step, device=rows.device)).reshape(-1)
    cols[cols >= entries.n_cols] = -1
    taken = kept[which]
    return _tiles(
        part, entries, (rows, at, taken),
        groups=(groups, number[which[taken]], columns[taken] % part.step, cols),
    )  # fmt: skip


def _repeats(rows: torch.Tensor, columns: torch.Tensor, n_cols: int) -> tuple[torch.Tensor, int]:
    """Return how many duplicates (same row and column) precede each entry, and the maximum of these plus 1."""
    cell = rows * n_cols + columns
    order = torch.sort(cell, stable=True).indices
    ordered = cell[order]
    begins = torch.ones_like(ordered, dtype=torch.bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    number = torch.arange(cell.shape[0], device=cell.device)
    first = torch.cummax(torch.where(begins, number, 0), 0).values if cell.numel() else number
    repeat = torch.empty_like(cell)
    repeat[order] = number - first
    return repeat, int(repeat.max()) + 1 if repeat.numel() else 1


def _tiles(
    part: GpuPart,
    entries: DeviceEntries,
    listed: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    *,
    groups: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
) -> tuple[DevicePart, DeviceEntries]:
    """Pack positions of the taken entries in tiles `rows` by `step`; empty windows are omitted, long ones cut."""
    (rows, at, taken), (n_groups, group, lane, cols) = listed, groups
    positions = torch.full((cols.shape[0] // part.step, part.rows, part.step), -1, device=rows.device)
    positions[group, entries.number(rows[taken]) % part.rows, lane] = entries.places()[at[taken]].long()
    lasts = torch.cumsum(n_groups, 0)
    firsts = lasts - n_groups
    windows, _, ends = _cut((n_groups > 0).nonzero().squeeze(1), firsts, lasts, part.split // part.step)
    ends = torch.cat([ends.new_zeros(1), ends])
    is_met = torch.zeros(entries.n_rows + 1, dtype=torch.bool, device=rows.device)  # the last element is NOWHERE
    is_met[rows[taken]] = True
    numbers = (windows[:, None] * part.rows + torch.arange(part.rows, device=rows.device)).reshape(-1)
    ids = entries.row_of(numbers)
    ids = torch.where(is_met[ids], ids, NOWHERE)
    arrays = {"groups": ends, "cols": cols, "positions": positions.reshape(-1)}
    return DevicePart(arrays, ids, part.rows, windows.shape[0]), entries.only(rows[~taken], at[~taken])


def pack_fibers(part: GpuPart, entries: DeviceEntries) -> tuple[DevicePart, DeviceEntries]:
    """Pack pieces of roots of at most `split` fibers; return the part and the entries left."""
    taken, left = _take_rows(part, entries)
    rows, starts, ends = _pieces(taken, entries, part.split)
    return DevicePart({"starts": starts, "ends": ends}, rows, 1, rows.shape[0]), left


PACKERS: Final[Mapping[str, Packer]] = {
    "rows": pack_rows,
    "unrolled": pack_rows,
    "ell": pack_ell,
    "segments": pack_segments,
    "entries": pack_entries,
    "windows": pack_windows,
    "blocks": pack_blocks,
    "fibers": pack_fibers,
}
"""Packers by layout (`fill` has none: it takes the rows that no part writes)."""
