"""Specs of the shipped kernels. Needs no NumPy: builds emit these kernels before anything is installed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from autosparse._native.ir.spec import INDEX_BYTES, VALUE_BYTES, KernelSpec
from autosparse._native.kernels.slice_names import HIGH_SLICE

from autosparse.core.formats import DICTIONARY, Format
from autosparse.core.schedule import SuperSchedule
from autosparse.isa import ISAS
from autosparse.ops import names
from autosparse.scalar import SCALARS

SHIPPED_ISAS: Final = tuple(row.name for row in ISAS.values() if row.is_shipped)
SLICE_UNROLL: Final = 2
SLICE_PREFETCH: Final = 32
HIGH_SLICES: Final = SuperSchedule(
    operation=names.MATMUL, format=Format.parse(f"i1:U,k1:D,i0:U | i={HIGH_SLICE} | values={DICTIONARY} | bits=16"),
    loop_order=("i1", "k1", "i0"), partition="dynamic",
)  # fmt: skip
"""Schedule of the fastest kernel for grids with few distinct coefficients; the tuning statistics never rank it."""
HIGH_EXACT: Final = SuperSchedule(
    operation=names.MATMUL, format=Format.parse(f"i1:U,k1:D,i0:U | i={HIGH_SLICE} | bits=16"),
    loop_order=("i1", "k1", "i0"),
)  # fmt: skip
"""The same for other values, in equal shares: tasks of 32 slices are too few for several threads."""


SHARED_ROWS: Final = 3
"""Rows of a block of the early race's kernels for several columns.

Blocks of two rows take 1.1 to 1.2 times the default kernel's time where three rows have the same columns.
"""
COMPLEX_TILE: Final = 8
"""Columns of a tile of complex values: 8 and 32 columns take 0.5 to 0.8 of the default kernel's time.

Tiles of 32 columns take 1.1 to 3 times its time.
"""
NARROW: Final = " | bits=16"
WIDE: Final = (
    (3, 1, 8, 2, NARROW), (2, 1, 8, 4, NARROW), (3, 3, 8, 2, NARROW), (3, 1, 32, 2, ""), (2, 1, 32, 2, NARROW),
)  # fmt: skip
"""Kernels for several columns: rows and columns of a block, columns of a tile, unrolling, width of coordinates.

They add most to the default kernel for 8 and for 32 columns in the archive of measurements. Blocks of 3 x 3 have 1.04
to 1.15 times the speed of three rows on meshes of three unknowns a node (benchmarks/results/break_even.md).
"""


def chosen(lanes: int) -> Iterator[SuperSchedule]:
    """Yield the schedules that add most to the others in the archive of measurements, for `lanes` values a vector.

    benchmarks/results/decisions/precompiled-portfolio.md has the evidence.
    """
    yield SuperSchedule(
        operation=names.MATMUL, format=Format.parse(f"i1:U,k1:C,i0:U | i={lanes} | bits=16"),
        loop_order=("i1", "k1", "i0"), unroll=4,
    )  # fmt: skip
    yield SuperSchedule(
        operation=names.MATMUL, format=Format.parse(f"i1:U,k1:D,i0:U | i={2 * lanes} | sigma=512 | bits=16"),
        loop_order=("i1", "k1", "i0"), unroll=1, prefetch=SLICE_PREFETCH,
    )  # fmt: skip


def wide(lanes: int, n_registers: int) -> Iterator[SuperSchedule]:
    """Yield the schedules of products with several columns: few rows share their entries, and a tile of columns of C.

    Tiles whose sums of all rows do not fit into the vector registers are left out.
    """
    for rows, width, tile, unroll, bits in WIDE:
        if rows * max(1, tile // lanes) < n_registers - 2:
            levels = f"i1:U,k1:C,i0:U,k0:U | i={rows},k={width}" if width > 1 else f"i1:U,k1:C,i0:U | i={rows}"
            inner = ("i0", "k0", "j0") if width > 1 else ("i0", "j0")
            yield SuperSchedule(
                operation=names.MATMUL, format=Format.parse(levels + bits), loop_order=("i1", "j1", "k1", *inner),
                dense_splits=(("j", tile),), unroll=unroll,
            )  # fmt: skip


def shared(lanes: int, n_registers: int) -> Iterator[SuperSchedule]:
    """Yield those of `wide` for three rows with the same columns, as in a mesh of three unknowns a node."""
    for one in wide(lanes, n_registers):
        if (one.format.split("i"), one.format.split("k")) == (SHARED_ROWS, 1):
            yield one


def specs(isa: str) -> Iterator[KernelSpec]:
    """Yield the specs of an instruction set's shipped kernels, in the order of its source.

    Of complex values, these are the kernels that the early races choose from: slices, and rows with the same columns.
    """
    # SciPy's sparse arrays keep 64-bit indices if they are created from such arrays.
    for dtype, index_dtype in itertools.product(VALUE_BYTES, INDEX_BYTES):
        lanes, is_real = SCALARS[dtype].lanes(ISAS[isa].vector_bytes), SCALARS[dtype].kind == "real"
        numbers = ("", f" | values={DICTIONARY}")[: 1 + (is_real and ISAS[isa].has_table_permutation)]
        for rows, values in itertools.product(("", " | sigma=512"), numbers):  # one kernel for every sigma
            slices = SuperSchedule(
                operation=names.MATMUL, format=Format.parse(f"i1:U,k1:D,i0:U | i={lanes}{rows}{values} | bits=16"),
                loop_order=("i1", "k1", "i0"), unroll=SLICE_UNROLL, prefetch=SLICE_PREFETCH,
            )  # fmt: skip
            yield from (KernelSpec(names.MATMUL, slices, dtype, index_dtype, isa, gathers=one) for one in (True, False))
        for added in tuple(chosen(lanes))[0 if is_real else -1 :]:
            yield from (KernelSpec(names.MATMUL, added, dtype, index_dtype, isa, gathers=one) for one in (True, False))
        for high in (HIGH_EXACT, HIGH_SLICES)[: is_real * len(numbers)]:
            yield from (KernelSpec(names.MATMUL, high, dtype, index_dtype, isa, gathers=one) for one in (True, False))
        if not is_real:
            shared_rows = (one for one in shared(lanes, ISAS[isa].n_registers) if one.dense_split("j") == COMPLEX_TILE)
            for other, it in itertools.product(shared_rows, (True, False)):
                yield KernelSpec(names.MATMUL, other, dtype, index_dtype, isa, gathers=it)
            continue
        blocks = SuperSchedule(
            operation=names.MATMUL, format=Format.parse("i1:U,k1:C,i0:U,k0:U | i=3,k=3 | bits=16"),
            loop_order=("i1", "k1", "i0", "k0"),
        )  # fmt: skip
        for other in (blocks, *wide(lanes, ISAS[isa].n_registers)):
            yield from (KernelSpec(names.MATMUL, other, dtype, index_dtype, isa, gathers=it) for it in (True, False))
