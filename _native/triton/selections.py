"""Rules of a composite on a device: selection of the entries that each rule gives to its part.

The rules are those of the host (`_native.storage.parts`). Rules about rows take whole rows. The remaining rows are
renumbered, so that blocks of later parts refer to the remaining rows.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import dataclasses
from typing import Final

import torch
from autosparse._native.triton.entries import DeviceEntries

from autosparse.core.composite import REST, Blocks, Rows, Selection

FULL: Final = 1e-9
"""Tolerance for rounding when a fill ratio is compared with its minimum."""


def select(rule: Selection, entries: DeviceEntries) -> tuple[DeviceEntries, DeviceEntries | None]:
    """Return the entries that `rule` selects and the others (None: no others); synchronises with the device."""
    if rule == REST:
        return entries, None
    if isinstance(rule, Rows):
        return _of_rows(entries, _by_length(rule, entries))
    assert isinstance(rule, Blocks)
    rows, at = entries.listed()
    taken = _in_blocks(rule, entries, entries.number(rows), entries.cols[at].long())
    return entries.only(rows[taken], at[taken]), entries.only(rows[~taken], at[~taken])


def rejoin(refused: DeviceEntries, others: DeviceEntries | None) -> DeviceEntries:
    """Merge the entries that a part's layout refused with those that its rule did not select, by rows."""
    if others is None or not others.nnz:
        return refused if others is None or refused.nnz else others
    if not refused.nnz:
        return others
    if refused.cols is others.cols and refused.positions is others.positions:  # whole rows of the same arrays
        ends = torch.where(refused.lengths > 0, refused.ends, others.ends)
        return dataclasses.replace(others, ends=ends, grid=None)
    lists = [one.listed() for one in (refused, others)]
    rows, order = torch.sort(torch.cat([one for one, _ in lists]), stable=True)
    cols = torch.cat([one.cols[at] for one, (_, at) in zip((refused, others), lists, strict=True)])
    places = torch.cat([one.places()[at] for one, (_, at) in zip((refused, others), lists, strict=True)])
    whole = dataclasses.replace(others, cols=cols, positions=places, grid=None)
    return whole.only(rows, order)


def _of_rows(entries: DeviceEntries, taken: torch.Tensor) -> tuple[DeviceEntries, DeviceEntries]:
    """Split into the rows where `taken`, booleans (rows of the grid,), and the others, without copying entries."""
    grid = torch.arange(entries.n_rows, device=taken.device) if entries.grid is None else entries.grid
    is_taken = torch.zeros(entries.n_rows, dtype=torch.bool, device=taken.device)
    is_taken[grid[taken]] = True
    given = dataclasses.replace(entries, ends=torch.where(is_taken, entries.ends, entries.starts), grid=grid[taken])
    others = dataclasses.replace(entries, ends=torch.where(is_taken, entries.starts, entries.ends), grid=grid[~taken])
    return given, others


def _by_length(rule: Rows, entries: DeviceEntries) -> torch.Tensor:
    lengths = entries.grid_lengths()
    taken = lengths >= rule.least
    return taken if rule.most is None else taken & (lengths <= rule.most)


def _in_blocks(rule: Blocks, entries: DeviceEntries, rows: torch.Tensor, cols: torch.Tensor) -> torch.Tensor:
    """Return which entries lie in blocks that are filled enough; rows are numbered as in the grid."""
    across = -(-entries.n_cols // rule.c) or 1
    _, which, counts = torch.unique(
        rows // rule.r * across + cols // rule.c, return_inverse=True, return_counts=True
    )  # fmt: skip
    is_taken: torch.Tensor = (counts >= rule.fill * rule.r * rule.c - FULL)[which]
    return is_taken
