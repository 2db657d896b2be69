"""The six primitives that turn a matrix into pieces (STile, Table 2), and the formats that their sequences make.

A piece is a list of entries with the rows and columns that it is stored by. Each primitive maps pieces to pieces:
*reorder* sorts rows by length, *divide* cuts runs of rows or of columns, *squeeze* leaves empty columns out, *split*
cuts rows at a number of entries, *pad* makes every row as long as the longest, *flatten* lists entries one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse.core.pattern import Pattern
from autosparse.core.values import dataclass

Array = NDArray[Any]  # int64


@dataclass(frozen=True, eq=False)
class Piece:
    """Entries (`row`, `column`, `entry` number into the matrix), by row; `slots` is what storing it takes in values.

    `origin` are the first row and column of the rectangle that it was cut from, `extent` its sides.
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
        """Values that are stored, zeros of padding included."""
        if self.is_flat or not self.entry.size:
            return int(self.entry.size)
        if self.width:
            return self.width * int(np.unique(self.row).size)
        return int(self.entry.size) if self.is_squeezed else self.extent[0] * self.extent[1]

    def take(self, chosen: Array, **changes: Any) -> Piece:
        """Some of its entries."""
        kept = {name: getattr(self, name)[chosen] for name in ("row", "column", "entry")}
        return replace(self, **kept, **changes)


def whole(pattern: Pattern) -> Piece:
    """All entries of a matrix."""
    rows = np.repeat(np.arange(pattern.n_rows), pattern.row_lengths)
    columns = pattern.indices[: pattern.nnz].astype(np.int64)
    return Piece(rows, columns, np.arange(pattern.nnz), (0, 0), pattern.shape)


Primitive = Callable[[Piece], Iterator[Piece]]


def reorder(piece: Piece) -> Iterator[Piece]:
    """Rows by their number of entries, longest first, equal ones in their own order; numbered anew."""
    rows, inverse, counts = np.unique(piece.row, return_inverse=True, return_counts=True)
    place = np.empty(rows.size, dtype=np.int64)
    place[np.argsort(-counts, kind="stable")] = np.arange(rows.size)
    order = np.argsort(place[inverse], kind="stable")
    yield replace(piece.take(order), row=place[inverse][order])


def divide(rows: int = 0, columns: int = 0) -> Primitive:
    """Runs of `rows` rows and of `columns` columns (0: not divided); pieces without entries are left out."""

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
    """Empty columns are left out: each row keeps a list of its columns."""
    yield replace(piece, is_squeezed=True)


def split(most: int) -> Primitive:
    """Rows in pieces of at most `most` entries, one piece for each such run."""

    def cut(piece: Piece) -> Iterator[Piece]:
        for _, chosen in _groups(piece.row):
            for begin in range(0, chosen.size, most):
                yield piece.take(chosen[begin : begin + most])

    return cut


def pad(piece: Piece) -> Iterator[Piece]:
    """Every row as long as the longest one, to the next power of two (ELL)."""
    longest = int(np.unique(piece.row, return_counts=True)[1].max(initial=1))
    yield replace(piece, width=1 << (longest - 1).bit_length())


def flatten(piece: Piece) -> Iterator[Piece]:
    """A list of (row, column, value)."""
    yield replace(piece, is_flat=True, is_squeezed=True)


def _groups(numbers: Array) -> Iterator[tuple[int, Array]]:
    """(number, places that have it), ascending; places keep their order."""
    order = np.argsort(numbers, kind="stable")
    found, begin = np.unique(numbers[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, begin[1:]), strict=True)


def apply(pattern: Pattern, *steps: Primitive) -> list[Piece]:
    """The pieces that a sequence of primitives makes of a matrix."""
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
"""Format -> its primitives for two sizes: rows and columns of a block; (unused or columns of a part,) entries."""
