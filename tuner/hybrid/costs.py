"""Cost model of operators, in seconds or any other unit; the search for parts minimises the sum.

An operator is one format of one size, computed by one code template (STile, Section 4). A tile costs a fixed amount,
plus an amount for every stored slot and every dense row read. Each further operator that writes a row of C pays for
another read and write of the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from autosparse.core.values import dataclass


@dataclass(frozen=True, slots=True)
class Operator:
    """Format and size of tiles: "block" (`r` x `c`), "csr" (a row), or "ell" (`c` slots of a row)."""

    family: str
    r: int = 1
    c: int = 1

    def __str__(self) -> str:
        return self.family if self.family == "csr" else f"{self.family} {self.r}x{self.c}"


CSR: Final = Operator("csr")


@dataclass(frozen=True, slots=True)
class Rate:
    """Costs of tiles of one family: per tile, per row of B read, and per stored slot."""

    tile: float
    read: float
    multiply: float

    def __str__(self) -> str:
        return f"{self.tile:.3g} + {self.read:.3g} per row of B + {self.multiply:.3g} per slot"

    def of(self, n_tiles: float, n_reads: float, n_slots: float) -> float:
        """Return the cost of `n_tiles` tiles that read `n_reads` rows of B and hold `n_slots` values in all."""
        return self.tile * n_tiles + self.read * n_reads + self.multiply * n_slots


@dataclass(frozen=True, slots=True)
class PrimitiveCosts:
    """Primitive costs: a Rate per family, and the cost of a row of C in the first part and in each further part."""

    rates: Mapping[str, Rate]
    first_row: float
    further_row: float

    def __str__(self) -> str:
        rates = ", ".join(f"{family} {rate}" for family, rate in self.rates.items())
        return f"{rates}, row of C {self.first_row:.3g}, per further part {self.further_row:.3g}"

    def tile(self, operator: Operator, n_entries: int) -> float:
        """Return the cost of one tile of `operator` that covers `n_entries` entries."""
        rate = self.rates[operator.family]
        if operator.family == "block":
            return rate.of(1.0, operator.c, operator.r * operator.c)
        n_slots = operator.c if operator.family == "ell" else n_entries
        return rate.of(1.0, n_slots, n_slots)
