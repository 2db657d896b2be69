"""Rules of a composite on a device: selection of the entries that each rule gives to its part.

The rules are those of the host (`_native.storage.parts`). Rules about rows take whole rows. The remaining rows are
renumbered, so that blocks and diagonals of later parts refer to the remaining rows.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from autosparse._native.triton.entries import DeviceEntries

from autosparse.core.composite import REST, Blocks, ColumnList, Diagonals, RowList, Rows, Selection

FULL: Final = 1e-9
"""Tolerance for rounding when a fill ratio is compared with its minimum."""


def select(rule: Selection, entries: DeviceEntries) -> tuple[DeviceEntries, DeviceEntries | None]:
    """Return the entries that `rule` selects and the others (None: no others); synchronises with the device."""
    if rule == REST:
        return entries, None
    if isinstance(rule, Rows | RowList):
        return _of_rows(entries, ROW_TAKERS[type(rule)](rule, entries))
    rows, at = entries.listed()
    taken = VALUE_TAKERS[type(rule)](rule, entries, (entries.number(rows), entries.cols[at].long()))
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


def _by_number(rule: RowList, entries: DeviceEntries) -> torch.Tensor:
    numbers = torch.tensor(rule.numbers.below(entries.n_rows), device=entries.starts.device)
    grid = torch.arange(entries.n_rows, device=numbers.device) if entries.grid is None else entries.grid
    return torch.isin(grid, numbers)


Places = tuple[torch.Tensor, torch.Tensor]  # row (as numbered in the grid) and column of each entry


def _in_blocks(rule: Blocks, entries: DeviceEntries, places: Places) -> torch.Tensor:
    rows, cols = places
    across = -(-entries.n_cols // rule.c) or 1
    _, which, counts = torch.unique(
        rows // rule.r * across + cols // rule.c, return_inverse=True, return_counts=True
    )  # fmt: skip
    is_taken: torch.Tensor = (counts >= rule.fill * rule.r * rule.c - FULL)[which]
    return is_taken


def _on_diagonals(rule: Diagonals, entries: DeviceEntries, places: Places) -> torch.Tensor:
    """Return which entries are on diagonals with at least the rule's fill; a diagonal's number is column - row."""
    (rows, cols), n_rows = places, entries.grid_lengths().shape[0]
    numbers = cols - rows + n_rows - 1
    offset = torch.arange(max(0, n_rows + entries.n_cols - 1), device=rows.device) - (n_rows - 1)
    cells = (entries.n_cols - offset).clamp(max=n_rows) - (-offset).clamp(min=0)
    counts = torch.bincount(numbers, minlength=offset.shape[0])
    return (counts >= rule.fill * cells - FULL)[numbers]


def _in_columns(rule: ColumnList, entries: DeviceEntries, places: Places) -> torch.Tensor:
    return torch.isin(places[1], torch.tensor(rule.numbers.below(entries.n_cols), device=places[1].device))


Taker = Callable[[Any, DeviceEntries], torch.Tensor]
ROW_TAKERS: Final[Mapping[type, Taker]] = {Rows: _by_length, RowList: _by_number}
"""Functions (rule, entries) -> which rows of the grid a rule about rows takes."""
VALUE_TAKERS: Final[Mapping[type, Callable[[Any, DeviceEntries, Places], torch.Tensor]]] = {
    Blocks: _in_blocks, Diagonals: _on_diagonals, ColumnList: _in_columns
}  # fmt: skip
"""Functions (rule, entries, their rows and columns) -> which entries a rule about entries takes."""
