"""Names of the shipped kernels for slices with diagonals and blocks of rows: the runtime finds them without specs.

The module needs no NumPy: builds write these names beside the keys of the specs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from autosparse.scalar import DICTIONARY

if TYPE_CHECKING:
    from autosparse._native.ir.spec import KernelSpec


LEVELS: Final = {True: "i1:U,k1:D,i0:U", False: "i1:U,k1:S,i0:U"}
"""Levels of sliced formats, under True with slices that may store diagonals (as `ir.slice_layout.LEVELS`)."""
BLOCK_LEVELS: Final = "i1:U,k1:C,i0:U"
WIDE_BITS: Final = 32
"""Bits of the columns of a format whose text does not name them."""
INDEX_BITS: Final = (16, WIDE_BITS)
MAX_EXTENT: Final = (1 << 31) - 1
"""Maximum number of rows and of columns of slices."""
MAX_SIGMA: Final = 1 << 20
"""Maximum number of rows of a window (`formats.MAX_SIGMA`)."""
HIGH_SLICE: Final = 32
"""Rows of slices that are higher than a vector, of rows in order.

Dictionary-encoded values take 0.7 to 0.8 of the time of vector-high slices on five-point grids of 100,000 and 288,000
entries (Xeon, 64-byte registers, float64). Exact values take 0.79 to 0.96 of it on six matrices of 117,000 to 240,000
entries with rows of even lengths (Zen 4, float64).
"""
DIAGONAL: Final = 2
"""Kind of a slice of consecutive rows that stores diagonals (`ir.slice_layout.DIAGONAL`)."""


def window_of(sigma: int, crd: Mapping[str, Any]) -> int:
    """Return the number of rows within which a kernel's rows are permuted; 0 if they are permuted in another way.

    Windows of `sigma` rows are collected from the rows that no slice stores as diagonals, which may lie far apart.
    """
    return 0 if sigma > 1 and (crd["what"] & DIAGONAL).any() else sigma


class Slices:
    """Slices of a matrix: rows of a slice, window of sorted rows (1: not sorted), storage of columns and values.

    A plain class: the methods of a named tuple or dataclass would be compiled at each import.
    """

    __slots__ = ("bits", "has_diagonals", "is_encoded", "rows", "sigma")

    def __init__(
        self, rows: int, sigma: int = 1, *, is_encoded: bool = False, has_diagonals: bool = True, bits: int = 16
    ) -> None:
        self.rows, self.sigma = rows, sigma
        self.is_encoded = is_encoded  # values are one-byte indices of a table
        self.has_diagonals = has_diagonals
        self.bits = bits  # of the columns, which are relative to a base of the slice or are wider if these are too few

    @classmethod
    def of(cls, text: object) -> Slices | None:
        """Return the slices of the format `text`; None if it is the text of another format."""
        levels, *settings = text.split(" | ") if isinstance(text, str) else [""]
        found = dict(one.split("=", 1) for one in settings if "=" in one)
        numbers = [found.get(name, default) for name, default in (("i", "1"), ("sigma", "1"), ("bits", "32"))]
        if levels not in LEVELS.values() or not all(one.isdecimal() for one in numbers):
            return None
        rows, sigma, bits = map(int, numbers)
        made = cls(rows, sigma, is_encoded="values" in found, has_diagonals=levels == LEVELS[True], bits=bits)
        return made if made.text() == text and bits in INDEX_BITS and rows > 1 and sigma <= MAX_SIGMA else None

    def text(self, *, is_compiled: bool = False) -> str:
        """Return the text of the format; `is_compiled`: of the one that kernels name, which is equal for all windows.

        See `Format.as_compiled`.
        """
        sigma = self.rows if is_compiled and self.sigma != 1 else self.sigma
        parts = [LEVELS[self.has_diagonals], f"i={self.rows}"]
        parts += [f"sigma={sigma}"] if sigma != 1 else []
        parts += [f"values={DICTIONARY}"] if self.is_encoded else []
        parts += [f"bits={self.bits}"] if self.bits != WIDE_BITS else []
        return " | ".join(parts)

    def __repr__(self) -> str:
        return f"Slices({self.rows}, {self.sigma}, is_encoded={self.is_encoded})"

    def name(self, dtype: str, index_dtype: str, isa: str, *, gathers: bool) -> str:
        """Return the name of the shipped kernel for these slices."""
        words = "sorted" if self.sigma > 1 else "in order", "encoded" if self.is_encoded else "exact"
        return f"slices {self.rows} {' '.join(words)} {dtype} {index_dtype} {isa} {'gathers' if gathers else 'loads'}"


class Blocks:
    """Blocks of rows that share their entries; kernels compute a tile of columns of the result at a time."""

    __slots__ = ("bits", "rows", "tile")
    is_encoded: Final = False  # as of `Slices`

    def __init__(self, rows: int, tile: int, bits: int = WIDE_BITS) -> None:
        self.rows = rows
        self.tile = tile  # 0: the product is one with a vector
        self.bits = bits  # of the columns

    def __repr__(self) -> str:
        return f"Blocks({self.rows}, {self.tile}, {self.bits})"

    def name(self, dtype: str, index_dtype: str, isa: str, *, gathers: bool) -> str:
        """Return the name of the shipped kernel for these blocks."""
        types = f"{dtype} {index_dtype} {isa} {'gathers' if gathers else 'loads'}"
        return f"blocks {self.rows} {self.tile} {self.bits} {types}"


SHARED: Final = (Blocks(3, 32), Blocks(3, 8, 16))
"""Blocks of three rows with the same columns, for which kernels are shipped (`shipped_specs.shared`), widest first."""


def names_of(spec: KernelSpec) -> Iterator[str]:
    """Yield the name of a shipped kernel's spec, if it is one of slices with diagonals or of blocks."""
    fmt, tile = spec.schedule.format, spec.schedule.dense_split("j")
    levels, types = ",".join(map(str, fmt.levels)), (spec.dtype, spec.index_dtype, spec.isa)
    if levels == LEVELS[True]:
        yield Slices(fmt.split("i"), fmt.sigma, is_encoded=bool(fmt.values)).name(*types, gathers=spec.gathers)
    elif levels == BLOCK_LEVELS:
        yield Blocks(fmt.split("i"), tile, fmt.index_bits).name(*types, gathers=spec.gathers)
