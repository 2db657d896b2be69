"""Lattices: occupied cells of a D-dimensional grid, their coarser versions, and the pairs that a convolution connects.

Cells are sorted, the last axis fastest. The rows of a lattice, its cells without their last coordinate, form a lattice
of one dimension less. A cell is found by its row and by one binary search among the keys ``row * width + last
coordinate``. A key therefore never exceeds ``n_rows * width``, however large the grid is. The queries of one kernel
offset ascend, which makes the searches cheap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch

from autosparse.core.dtypes import Byte, Flag, Hash, NarrowIndex, NarrowReal
from autosparse.scalar.tensors import narrow_index, wide_index

MARGIN: Final = 8
"""Number of unoccupied columns on either side of a row, so that kernels beyond the edge find no cell."""
MAX_KERNEL: Final = MARGIN


@dataclass(frozen=True, eq=False)
class KernelMap:
    """Pairs of cells that a kernel connects: offset k joins the pairs ``starts[k] : starts[k + 1]``.

    ``outputs`` ascends within an offset. Both index tensors are int32.
    """

    inputs: torch.Tensor
    outputs: torch.Tensor
    starts: tuple[int, ...]
    n_outputs: int

    @property
    def n_bytes(self) -> int:
        """Return the bytes of the index tensors."""
        return self.inputs.nbytes + self.outputs.nbytes


@dataclass(frozen=True, eq=False)
class Occupancy:
    """Occupied neighbours of each cell: `neighbours` (n distinct, K^D) of 0 and 1, `place` (n,) rows in it."""

    neighbours: torch.Tensor
    place: torch.Tensor

    @property
    def n_bytes(self) -> int:
        """Return the bytes of both tensors."""
        return self.neighbours.nbytes + self.place.nbytes


@dataclass(frozen=True, eq=False)
class Lattice:
    """`n` cells of a grid; `keys` strictly ascend. Coarser lattices and kernel maps are computed once and cached."""

    keys: torch.Tensor  # (n,) int64: row * width + MARGIN + last coordinate
    width: int
    rows: Lattice | None  # None for one dimension
    _kept: dict[tuple[int, ...], Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, coordinates: np.ndarray | torch.Tensor, extents: Sequence[int]) -> Lattice:
        """Build from rows of `coordinates`, (n, D) integers in ``[0, extents)``, in any order; duplicates merge."""
        points = torch.as_tensor(coordinates).to(wide_index)
        return cls._with_places(points, tuple(extents))[0]

    @classmethod
    def _with_places(cls, points: torch.Tensor, extents: tuple[int, ...]) -> tuple[Lattice, torch.Tensor]:
        """Return the lattice of `points`, and the position of each point in it."""
        rows, row = (None, 0) if len(extents) == 1 else cls._with_places(points[:, :-1], extents[:-1])
        width = extents[-1] + 2 * MARGIN
        wanted = row * width + MARGIN + points[:, -1]
        lattice = cls(_distinct(wanted), width, rows)
        return lattice, torch.searchsorted(lattice.keys, wanted)

    def __len__(self) -> int:
        return int(self.keys.numel())

    @property
    def dimension(self) -> int:
        """Return the number of dimensions D."""
        return 1 if self.rows is None else 1 + self.rows.dimension

    @property
    def row(self) -> torch.Tensor:
        """Return the index of each cell's row in `rows`, (n,); zeros in one dimension."""
        return torch.div(self.keys, self.width, rounding_mode="floor")

    @property
    def last(self) -> torch.Tensor:
        """Return the last coordinate of each cell, (n,)."""
        return self.keys % self.width - MARGIN

    @property
    def coordinates(self) -> torch.Tensor:
        """Return the coordinates, (n, D) int64, in lexicographic order."""
        if self.rows is None:
            return self.last[:, None]
        return torch.cat([self.rows.coordinates[self.row], self.last[:, None]], dim=1)

    @property
    def n_bytes(self) -> int:
        """Return the bytes of this lattice and of everything cached with it."""
        own = self.keys.nbytes + (self.rows.n_bytes if self.rows is not None else 0)
        return own + sum(int(one.n_bytes) for one in self._kept.values())

    def coarser(self, stride: int) -> Lattice:
        """Return the lattice of ``floor(c / stride)``; self for stride 1."""
        if stride == 1:
            return self
        if (stride,) not in self._kept:
            self._kept[stride,] = self._coarser(stride)[0]
        lattice: Lattice = self._kept[stride,]
        return lattice

    def _coarser(self, stride: int) -> tuple[Lattice, torch.Tensor]:
        """Return the coarser lattice and each cell's position in it.

        Its rows are not shared with those of `coarser`.
        """
        rows, row_permutation = (None, None) if self.rows is None else self.rows._coarser(stride)
        width = -(-(self.width - 2 * MARGIN) // stride) + 2 * MARGIN
        row = 0 if row_permutation is None else row_permutation[self.row]
        wanted = row * width + MARGIN + torch.div(self.last, stride, rounding_mode="floor")
        lattice = Lattice(_distinct(wanted), width, rows)
        return lattice, torch.searchsorted(lattice.keys, wanted)

    def kernel_map(self, kernel_size: int, stride: int) -> KernelMap:
        """Return pairs (cell of this lattice, cell of `coarser(stride)`) of a convolution with kernel_size^D weights.

        Output cell u reads the existing input cells ``u * stride + offset_k``. The first axis of the offset varies
        fastest, ``k = i_0 + kernel_size * i_1 + ...``; ``offset = i - kernel_size // 2`` for odd sizes, ``i`` for even
        ones. Both are MinkowskiEngine's conventions.
        """
        if not 1 <= kernel_size <= MAX_KERNEL:
            raise ValueError(f"kernel_size={kernel_size}, but offsets are looked up within {MAX_KERNEL} columns")
        name = (kernel_size, stride)
        if name not in self._kept:
            self._kept[name] = _pairs(self, self.coarser(stride), kernel_size, stride)
        found: KernelMap = self._kept[name]
        return found

    def occupancy(self, kernel_size: int) -> Occupancy:
        """Return the neighbourhoods of a stride-1 kernel; real patterns have far fewer distinct ones than cells."""
        name = (kernel_size, 1, 1)
        if name not in self._kept:
            self._kept[name] = _occupancy(_pairs(self, self, kernel_size, 1))
        found: Occupancy = self._kept[name]
        return found

    def to(self, device: torch.device | str) -> Lattice:
        """Return the same lattice on another device, with nothing cached."""
        return Lattice(self.keys.to(device), self.width, None if self.rows is None else self.rows.to(device))


def _distinct(keys: torch.Tensor) -> torch.Tensor:
    """Return the sorted distinct values of an int64 tensor."""
    if bool((keys[1:] > keys[:-1]).all()):
        return keys
    # NumPy sorts integers with vector instructions, 8 times as fast as torch on a CPU.
    ascending = torch.from_numpy(np.sort(keys.numpy())) if keys.device.type == "cpu" else keys.sort().values
    distinct: torch.Tensor = torch.unique_consecutive(ascending)
    return distinct


def _pairs(fine: Lattice, coarse: Lattice, kernel_size: int, stride: int) -> KernelMap:
    """Return the kernel map, by one sorted search per offset of the leading axes and a scan along the last axis."""
    lead = _row_table(fine, coarse, kernel_size, stride)
    n_lead = len(lead)
    found: list[tuple[torch.Tensor, torch.Tensor]] = [(fine.keys[:0].int(),) * 2] * (n_lead * kernel_size)
    for a, row in enumerate(lead):
        table = _neighbours(fine, coarse, row, (kernel_size, stride))
        for i in range(kernel_size):
            outputs = torch.nonzero(table[i] >= 0).squeeze(1)
            found[a + n_lead * i] = (table[i][outputs], outputs.int())
    starts = np.cumsum([0, *(len(inputs) for inputs, _ in found)]).tolist()
    inputs, outputs = (torch.cat([pair[side] for pair in found]) for side in (0, 1))
    return KernelMap(inputs, outputs, tuple(starts), len(coarse))


def _occupancy(pairs: KernelMap) -> Occupancy:
    is_there = np.zeros((pairs.n_outputs, len(pairs.starts) - 1), Flag)
    for k in range(is_there.shape[1]):
        is_there[pairs.outputs[pairs.starts[k] : pairs.starts[k + 1]].cpu().numpy(), k] = True
    packed = np.packbits(is_there, axis=1)
    padded = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), Byte)
    padded[:, : packed.shape[1]] = packed
    words = padded.view(Hash)
    # In two dimensions, 25 neighbours fit into one word; sorting the two words of a 5^3 neighbourhood takes ten times
    # as long.
    _, first, place = np.unique(
        words[:, 0] if words.shape[1] == 1 else words, axis=0, return_index=True, return_inverse=True
    )
    device = pairs.inputs.device
    distinct = torch.from_numpy(is_there[first].astype(NarrowReal)).to(device)
    return Occupancy(distinct, torch.from_numpy(place.reshape(-1).astype(NarrowIndex)).to(device))


def _row_table(fine: Lattice, coarse: Lattice, kernel_size: int, stride: int) -> list[torch.Tensor | None]:
    """Return, per offset of the leading axes (first fastest), the row of `fine` that each coarse cell reads, or -1."""
    if fine.rows is None or coarse.rows is None:
        return [None]
    row = coarse.row
    lead = _row_table(fine.rows, coarse.rows, kernel_size, stride)
    tables = [_neighbours(fine.rows, coarse.rows, one, (kernel_size, stride)) for one in lead]
    return [table[i][row] for i in range(kernel_size) for table in tables]


def _neighbours(fine: Lattice, coarse: Lattice, row: torch.Tensor | None, window: tuple[int, int]) -> torch.Tensor:
    """Return the fine cell at each offset of the last axis, (kernel_size, n_coarse) int32; -1 for none.

    `row` is the row of `fine` to search for each coarse cell, -1 for none; None in one dimension. `window` is
    (kernel_size, stride).
    """
    kernel_size, stride = window
    table = torch.full((kernel_size, len(coarse)), -1, dtype=narrow_index, device=fine.keys.device)
    if len(fine) == 0:
        return table
    first = -(kernel_size // 2) if kernel_size % 2 else 0
    asking = torch.arange(len(coarse), device=table.device) if row is None else torch.nonzero(row >= 0).squeeze(1)
    in_row = coarse.last[asking] * stride + (MARGIN + first)
    base = in_row if row is None else row[asking].long() * fine.width + in_row
    place = torch.searchsorted(fine.keys, base)
    for _ in range(kernel_size):
        distance = fine.keys[place.clamp(max=len(fine) - 1)] - base
        is_near = (place < len(fine)) & (distance >= 0) & (distance < kernel_size)
        if not bool(is_near.any()):
            break
        asking, base, place, distance = (one[is_near] for one in (asking, base, place, distance))
        table[distance, asking] = place.int()
        place = place + 1
    return table
