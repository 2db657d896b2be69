"""What operators cost: the values that the search for parts adds up, in seconds or in any other unit.

An operator is one format of one size, which one code template computes (STile, Section 4). A tile of it costs a fixed
amount and something for every stored slot and every dense row that is read; a row of C that a further operator touches
costs a read and a write more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, order=True)
class Operator:
    """Tiles of one format ("block", "csr", "ell") and size: `r` rows by `c` columns, or `c` entries of a row."""

    family: str
    r: int = 1
    c: int = 1

    def __str__(self) -> str:
        return self.family if self.family == "csr" else f"{self.family} {self.r}x{self.c}"


CSR: Final = Operator("csr")


@dataclass(frozen=True, slots=True)
class Rate:
    """Of one family: cost = tile + read * (rows of B) + multiply * (stored slots)."""

    tile: float
    read: float
    multiply: float

    def __str__(self) -> str:
        return f"{self.tile:.3g} + {self.read:.3g} a row of B + {self.multiply:.3g} a slot"

    def of(self, n_tiles: float, n_reads: float, n_slots: float) -> float:
        """Cost of tiles that read `n_reads` rows of B and hold `n_slots` values in all."""
        return self.tile * n_tiles + self.read * n_reads + self.multiply * n_slots


@dataclass(frozen=True, slots=True)
class PrimitiveCosts:
    """Rates by family, and of a row of C: what its first operator pays, and what each further one does."""

    rates: Mapping[str, Rate]
    first_row: float
    further_row: float

    def __str__(self) -> str:
        rates = ", ".join(f"{family} {rate}" for family, rate in self.rates.items())
        return f"{rates}, row of C {self.first_row:.3g}, by a further part {self.further_row:.3g}"

    def tile(self, operator: Operator, n_entries: int) -> float:
        """Cost of one tile that covers `n_entries` entries."""
        rate = self.rates[operator.family]
        if operator.family == "block":
            return rate.of(1.0, operator.c, operator.r * operator.c)
        n_slots = operator.c if operator.family == "ell" else n_entries
        return rate.of(1.0, n_slots, n_slots)


REFERENCE: Final = PrimitiveCosts(
    {"block": Rate(0.6, 1.0, 0.5), "csr": Rate(0.0, 1.6, 0.5), "ell": Rate(0.3, 1.3, 0.5)}, 2.0, 3.0
)
"""Costs by which the search is judged in tests: an r x c block c (1 + r / 2) + 0.6, an entry of CSR 2.1, a row of C 2,
and 3 more for each further operator."""
