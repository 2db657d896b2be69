"""Entries of A during packing: those still to be packed, the arrays of a packed part, and the rules of a composite.

A rule selects the entries that its part gets. The rules are those of the host (`_native.storage.parts`). Rules about
rows take whole rows. The remaining rows are renumbered, so that blocks of later parts refer to the remaining rows.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

import torch

from autosparse.core.composite import REST, Blocks, Rows, Selection

NOWHERE: Final = -1
"""Destination of padding."""


@dataclass(slots=True)
class DeviceEntries:
    """Entries to be packed: row i has those from `starts[i]` to `ends[i]` in `cols` and `positions`.

    `positions` is None where entry e has value e. For a tensor in CSF, rows are roots and their entries are fibers.
    """

    starts: torch.Tensor
    ends: torch.Tensor
    cols: torch.Tensor
    positions: torch.Tensor | None
    n_cols: int
    fiber_ends: torch.Tensor | None = None  # CSF: (fibers + 1,) first entry of each fiber
    fiber_cols: torch.Tensor | None = None  # CSF: (fibers,) index of each fiber
    grid: torch.Tensor | None = None  # ascending rows that are cut into blocks and windows (None: all)

    @property
    def n_rows(self) -> int:
        """Number of rows of the result."""
        return self.starts.shape[0]

    @property
    def lengths(self) -> torch.Tensor:
        """Number of entries (fibers) left in each row."""
        return self.ends - self.starts

    @property
    def nnz(self) -> int:
        """Number of entries left; reading it synchronises with the device."""
        return int(self.lengths.sum())

    def grid_lengths(self) -> torch.Tensor:
        """Return the number of entries in each row of the grid."""
        return self.lengths if self.grid is None else self.lengths[self.grid]

    def number(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the index in `grid` of each of `rows`; the rows themselves if the grid has all rows."""
        return rows if self.grid is None else torch.searchsorted(self.grid, rows)

    def row_of(self, numbers: torch.Tensor) -> torch.Tensor:
        """Return the row at each position of the grid; NOWHERE beyond its end."""
        n_rows = self.n_rows if self.grid is None else self.grid.shape[0]
        known = torch.arange(n_rows, device=numbers.device) if self.grid is None else self.grid
        return torch.where(numbers < n_rows, padded(known, n_rows + 1, NOWHERE)[numbers.clamp(max=n_rows)], NOWHERE)

    def listed(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the row of each entry left, and its index in the arrays."""
        lengths = self.lengths
        rows = torch.repeat_interleave(torch.arange(self.n_rows, device=lengths.device), lengths)
        before = torch.cumsum(lengths, 0) - lengths
        return rows, torch.arange(rows.shape[0], device=rows.device) + (self.starts - before)[rows]

    def places(self) -> torch.Tensor:
        """Return the index of the value of each entry in `cols`."""
        if self.positions is not None:
            return self.positions
        return torch.arange(self.cols.shape[0], device=self.cols.device)

    def only(self, rows: torch.Tensor, at: torch.Tensor) -> DeviceEntries:
        """Copy the entries at the indices `at`, of `rows`, both in row order, into new arrays."""
        counts = torch.bincount(rows, minlength=self.n_rows)
        ends = torch.cumsum(counts, 0)
        return DeviceEntries(ends - counts, ends, self.cols[at], self.places()[at], self.n_cols, grid=self.grid)


@dataclass(slots=True)
class DevicePart:
    """Arrays of one part by name; `rows` (units,) is the row to which each unit adds (-1: padding)."""

    arrays: dict[str, torch.Tensor]
    rows: torch.Tensor
    units_per_task: int
    n_tasks: int


def entries_of_csr(crow: torch.Tensor, col: torch.Tensor, n_cols: int) -> DeviceEntries:
    """Return the entries of compressed rows; value e belongs to entry e."""
    crow = crow.long()
    return DeviceEntries(crow[:-1], crow[1:], col, None, n_cols)


def entries_of_transpose(crow: torch.Tensor, col: torch.Tensor, n_cols: int) -> DeviceEntries:
    """Return the entries of the transpose of compressed rows, sorted by its rows; values are not moved."""
    rows = torch.repeat_interleave(torch.arange(crow.shape[0] - 1, device=col.device), crow.long().diff())
    order = torch.sort(col, stable=True).indices
    ends = torch.cumsum(torch.bincount(col, minlength=n_cols), 0)
    starts = torch.cat([ends.new_zeros(1), ends[:-1]]) if n_cols else ends
    return DeviceEntries(starts, ends, rows[order], order, crow.shape[0] - 1)


def entries_of_csf(
    root_ends: torch.Tensor, fiber_cols: torch.Tensor, fiber_ends: torch.Tensor, leaf_cols: torch.Tensor
) -> DeviceEntries:
    """Return the entries of a tensor of order 3: fibers of each root (n + 1,), entries of each fiber (fibers + 1,)."""
    root_ends = root_ends.long()
    return DeviceEntries(root_ends[:-1], root_ends[1:], leaf_cols, None, 0, fiber_ends, fiber_cols)


def padded(array: torch.Tensor, multiple: int, value: int) -> torch.Tensor:
    """Append `value` to `array` until its length is a multiple of `multiple`."""
    return torch.nn.functional.pad(array, (0, -array.shape[0] % multiple), value=value)


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
