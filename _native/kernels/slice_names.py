"""Names of the shipped kernels for slices with diagonals, by which the runtime finds them without their specs.

The module needs no NumPy: builds write these names beside the keys of the specs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autosparse._native.ir.spec import KernelSpec


class Slices:
    """Slices of a matrix: rows of a slice, window of sorted rows (1: not sorted), and storage of the values.

    A plain class: the methods of a named tuple or dataclass would be compiled at each import.
    """

    __slots__ = ("is_encoded", "rows", "sigma")

    def __init__(self, rows: int, sigma: int = 1, *, is_encoded: bool = False) -> None:
        self.rows, self.sigma = rows, sigma
        self.is_encoded = is_encoded  # values are one-byte indices of a table

    def __repr__(self) -> str:
        return f"Slices({self.rows}, {self.sigma}, is_encoded={self.is_encoded})"

    def name(self, dtype: str, index_dtype: str, isa: str, *, gathers: bool) -> str:
        """Return the name of the shipped kernel for these slices."""
        words = "sorted" if self.sigma > 1 else "in order", "encoded" if self.is_encoded else "exact"
        return f"slices {self.rows} {' '.join(words)} {dtype} {index_dtype} {isa} {'gathers' if gathers else 'loads'}"


def names_of(spec: KernelSpec) -> Iterator[str]:
    """Yield the name of a shipped kernel's spec, if it is one of slices with diagonals."""
    fmt = spec.schedule.format
    if ",".join(map(str, fmt.levels)) == "i1:U,k1:D,i0:U":
        slices = Slices(fmt.split("i"), fmt.sigma, is_encoded=bool(fmt.values))
        yield slices.name(spec.dtype, spec.index_dtype, spec.isa, gathers=spec.gathers)
