"""Entries of A during packing: those still to be packed, and the arrays of a packed part."""

# mypy: allow-untyped-calls
from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch

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
