"""Simulation of a tiled accelerator: exact cache-miss counts, and the cycles that follow from bandwidths.

The machine resembles SPADE (Gerogiannis et al., ISCA 2023; parameters of DASH, Table 1), but its numbers are not
SPADE's. A cache holds whole segments (the `split` columns of one dense row) and is fully associative with exact LRU
replacement. Latencies are hidden, so only bandwidths and the slowest PE count. There is no TLB, no instruction fetch,
and no write-back at the end of an interval. A is streamed and never cached; values have 4 bytes, entries of A 12. PEs
take row panels round-robin. Every split of the dense columns starts with cold caches.

SpMM, D = A B: each entry reads a row of B; each row of a tile reads and writes the row of D (in its first tile it only
writes). SDDMM, D = A ∘ (X Y^T): each entry reads a row of Y, and each row of a tile a row of X. The 4-byte result of an
entry is read and written again by later splits.

The C runtime counts (`autosparse._native.accelerator`); this module has the operations, the order of rows and checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from autosparse.tuner.research.targets.accelerator import Configuration
from autosparse.tuner.space.algorithms import ALGORITHMS
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowIndex, WideIndex
from autosparse.core.pattern import Pattern
from autosparse.errors import InputError, RecordError
from autosparse.ops.base import ProductKind

ENTRY_BYTES: Final = 12
VALUE_BYTES: Final = 4
SIMULATION_VERSION: Final = 1
"""Version to increase when a count changes; stored times of other versions are not reused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerated:
    """Costs of an operation on the accelerator, beyond one vector operation and one cached row per entry."""

    row_vectors: int  # vector operations per row and tile, for each ceil(width / lanes)
    first_moves: int  # transfers of a row's segment in the first tile that contains the row
    later_moves: int
    first_entry_bytes: int  # bytes of memory per entry in the first split
    later_entry_bytes: int


ACCELERATED: Final[Mapping[ProductKind, Accelerated]] = {
    "columns": Accelerated(
        row_vectors=2, first_moves=1, later_moves=2, first_entry_bytes=ENTRY_BYTES, later_entry_bytes=ENTRY_BYTES
    ),
    "sampled": Accelerated(
        row_vectors=1, first_moves=1, later_moves=1,
        first_entry_bytes=ENTRY_BYTES + VALUE_BYTES, later_entry_bytes=ENTRY_BYTES + 2 * VALUE_BYTES,
    ),
}  # fmt: skip
OPERATIONS: Final[Mapping[str, Accelerated]] = {
    name: ACCELERATED[one.kind] for name, one in ALGORITHMS.items() if one.kind in ACCELERATED
}
"""Algorithms that accelerators support."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Simulated cost of one product: cycles, and bytes of memory (dram), shared cache (llc) and the PEs' ports."""

    cycles: float
    dram_bytes: int
    llc_bytes: int
    port_bytes: int
    l1_misses: int
    llc_misses: int
    vectors: int
    n_tiles: int


DEFAULT_OPERATION: Final = next(iter(OPERATIONS))


def operation_named(name: str) -> Accelerated:
    """Return the row of OPERATIONS; raise RecordError when there is none."""
    if name not in OPERATIONS:
        raise RecordError.bad_field("accelerator", "operation", name, expected=f"one of {', '.join(OPERATIONS)}")
    return OPERATIONS[name]


def row_order(pattern: Pattern, configuration: Configuration) -> NDArray[NarrowIndex]:
    """Return the order in which rows are processed: as stored, or with `reorder` by first column, empty rows last."""
    if not configuration.reorder:
        return np.arange(pattern.n_rows, dtype=NarrowIndex)
    first = np.full(pattern.n_rows, pattern.n_cols, WideIndex)
    filled = np.flatnonzero(pattern.row_lengths)
    first[filled] = pattern.indices[pattern.indptr[filled]]
    return np.argsort(first, kind="stable").astype(NarrowIndex)


def checked(pattern: Pattern) -> Pattern:
    """Return `pattern`; raise InputError unless columns strictly ascend in every row, which tiling requires."""
    steps = np.diff(pattern.indices[: pattern.nnz].astype(WideIndex))
    begins = pattern.indptr[1:-1]
    steps[begins[(begins > 0) & (begins < pattern.nnz)] - 1] = 1
    if np.any(steps <= 0):
        raise InputError.refused(
            "an accelerator takes rows whose columns ascend, each once",
            given="a pattern with columns out of order or repeated",
            hint="call A.sum_duplicates() before",
        )
    return pattern
