"""The six primitives that decompose a matrix into pieces (STile, Table 2), and the formats that sequences of them make.

A piece is a list of entries with its storage rows and columns. Each primitive maps pieces to pieces. *reorder* sorts
rows by length, *divide* cuts runs of rows or columns, and *squeeze* removes empty columns. *split* limits the entries
per row, *pad* extends every row to the longest one, and *flatten* lists single entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse.core.dtypes import WideIndex
from autosparse.core.pattern import Pattern
from autosparse.core.values import dataclass

Array = NDArray[Any]  # int64


@dataclass(frozen=True, eq=False)
class Piece:
    """Subset of a matrix's entries, sorted by row: `row`, `column`, and number `entry` in the matrix.

    `origin` is the first row and column of the rectangle that the piece was cut from, and `extent` its side lengths.
    """

    row: Array
    column: Array
    entry: Array
    origin: tuple[int, int]
    extent: tuple[int, int]
    is_squeezed: bool = False
    is_flat: bool = False
    width: int = 0  # entries per row after padding; 0: not padded

    @property
    def slots(self) -> int:
        """Return the number of stored values, padding included."""
        if self.is_flat or not self.entry.size:
            return int(self.entry.size)
        if self.width:
            return self.width * int(np.unique(self.row).size)
        return int(self.entry.size) if self.is_squeezed else self.extent[0] * self.extent[1]

    def take(self, chosen: Array, **changes: Any) -> Piece:
        """Return the piece restricted to the entries `chosen`, with attributes replaced by `changes`."""
        kept = {name: getattr(self, name)[chosen] for name in ("row", "column", "entry")}
        return replace(self, **kept, **changes)


def whole(pattern: Pattern) -> Piece:
    """Return the piece that holds all entries of a matrix."""
    rows = np.repeat(np.arange(pattern.n_rows), pattern.row_lengths)
    columns = pattern.indices[: pattern.nnz].astype(WideIndex)
    return Piece(rows, columns, np.arange(pattern.nnz), (0, 0), pattern.shape)


Primitive = Callable[[Piece], Iterator[Piece]]


def reorder(piece: Piece) -> Iterator[Piece]:
    """Yield the piece with rows sorted by their number of entries, longest first (stable), and renumbered."""
    rows, inverse, counts = np.unique(piece.row, return_inverse=True, return_counts=True)
    place = np.empty(rows.size, dtype=WideIndex)
    place[np.argsort(-counts, kind="stable")] = np.arange(rows.size)
    order = np.argsort(place[inverse], kind="stable")
    yield replace(piece.take(order), row=place[inverse][order])


def divide(rows: int = 0, columns: int = 0) -> Primitive:
    """Return a primitive that cuts a piece into `rows` x `columns` rectangles (0: no cut) and drops empty ones."""

    def cut(piece: Piece) -> Iterator[Piece]:
        height, width = rows or piece.extent[0], columns or piece.extent[1]
        block = (piece.row - piece.origin[0]) // height, (piece.column - piece.origin[1]) // width
        n_across = -(-piece.extent[1] // width)
        for number, chosen in _groups(block[0] * n_across + block[1]):
            down, across = divmod(number, n_across)
            origin = (piece.origin[0] + down * height, piece.origin[1] + across * width)
            yield piece.take(chosen, origin=origin, extent=(height, width))

    return cut


def squeeze(piece: Piece) -> Iterator[Piece]:
    """Yield the piece without its empty columns: each row stores a list of its columns."""
    yield replace(piece, is_squeezed=True)


def split(most: int) -> Primitive:
    """Return a primitive that cuts rows into pieces of at most `most` entries."""

    def cut(piece: Piece) -> Iterator[Piece]:
        for _, chosen in _groups(piece.row):
            for begin in range(0, chosen.size, most):
                yield piece.take(chosen[begin : begin + most])

    return cut


def pad(piece: Piece) -> Iterator[Piece]:
    """Yield the piece with every row padded to the longest one's length, rounded up to a power of two (ELL)."""
    longest = int(np.unique(piece.row, return_counts=True)[1].max(initial=1))
    yield replace(piece, width=1 << (longest - 1).bit_length())


def flatten(piece: Piece) -> Iterator[Piece]:
    """Yield the piece as a list of (row, column, value)."""
    yield replace(piece, is_flat=True, is_squeezed=True)


def _groups(numbers: Array) -> Iterator[tuple[int, Array]]:
    """Yield (number, positions at which `numbers` has it), numbers and positions ascending."""
    order = np.argsort(numbers, kind="stable")
    found, begin = np.unique(numbers[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, begin[1:]), strict=True)


def apply(pattern: Pattern, *steps: Primitive) -> list[Piece]:
    """Return the pieces into which the primitives `steps`, applied in turn, divide a matrix."""
    pieces = [whole(pattern)]
    for step in steps:
        pieces = [made for piece in pieces for made in step(piece)]
    return pieces


FORMATS: Final[Mapping[str, Callable[[int, int], tuple[Primitive, ...]]]] = {
    "block": lambda r, c: (divide(r), divide(columns=c)),
    "ell": lambda r, c: (split(c), squeeze, pad),
    "hyb": lambda r, c: (divide(columns=r), reorder, split(c), squeeze, pad),
    "1d": lambda r, c: (flatten, split(c)),
}
"""Format -> its primitives for two sizes: rows and columns of a block, or columns of a part (hyb only) and entries."""
