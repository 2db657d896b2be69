"""Shipped kernels: generated kernels that were compiled with the runtime at installation.

They are what the tuning statistics rank first for SpMV of nine matrices in ten: slices as high as a vector, sorted or
not, and blocks of 3 x 3, with 16-bit coordinates. `chosen` adds the schedules that gain most beside them.
`tools/shipped_kernels.py` writes their sources with the emitter.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from autosparse._native import runtime_api
from autosparse._native.ir.spec import INDEX_BYTES, VALUE_BYTES, KernelSpec
from autosparse._native.kernels.kernel import CompiledKernel

from autosparse import config
from autosparse.core.formats import DICTIONARY, Format
from autosparse.core.schedule import SuperSchedule
from autosparse.isa import ISAS
from autosparse.ops import names

SHIPPED_ISAS: Final = tuple(row.name for row in ISAS.values() if row.is_shipped)
SLICE_UNROLL: Final = 2
SLICE_PREFETCH: Final = 32
HIGH_SLICE: Final = 32
"""Rows of slices with dictionary-encoded values that are higher than a vector.

They take 0.7 to 0.8 of the time of vector-high slices on five-point grids of 100,000 and 288,000 entries (Xeon,
64-byte registers, float64).
"""

HIGH_SLICES: Final = SuperSchedule(
    operation=names.MATMUL, format=Format.parse(f"i1:U,k1:D,i0:U | i={HIGH_SLICE} | values={DICTIONARY} | bits=16"),
    loop_order=("i1", "k1", "i0"), partition="dynamic",
)  # fmt: skip
"""Schedule of the fastest kernel for grids with few distinct coefficients; the tuning statistics never rank it."""


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


def specs(isa: str) -> Iterator[KernelSpec]:
    """Yield the specs of an instruction set's shipped kernels, in the order of its source."""
    # SciPy's sparse arrays keep 64-bit indices if they are created from such arrays.
    for (dtype, value_bytes), index_dtype in itertools.product(VALUE_BYTES.items(), INDEX_BYTES):
        lanes = ISAS[isa].vector_bytes // value_bytes
        numbers = ("", f" | values={DICTIONARY}")[: 1 + ISAS[isa].has_table_permutation]
        for rows, values in itertools.product(("", " | sigma=512"), numbers):  # one kernel for every sigma
            slices = SuperSchedule(
                operation=names.MATMUL, format=Format.parse(f"i1:U,k1:D,i0:U | i={lanes}{rows}{values} | bits=16"),
                loop_order=("i1", "k1", "i0"), unroll=SLICE_UNROLL, prefetch=SLICE_PREFETCH,
            )  # fmt: skip
            yield from (KernelSpec(names.MATMUL, slices, dtype, index_dtype, isa, gathers=one) for one in (True, False))
        for added in chosen(lanes):
            yield from (KernelSpec(names.MATMUL, added, dtype, index_dtype, isa, gathers=one) for one in (True, False))
        for _ in numbers[1:]:
            for one in (True, False):
                yield KernelSpec(names.MATMUL, HIGH_SLICES, dtype, index_dtype, isa, gathers=one)
        blocks = SuperSchedule(
            operation=names.MATMUL, format=Format.parse("i1:U,k1:C,i0:U,k0:U | i=3,k=3 | bits=16"),
            loop_order=("i1", "k1", "i0", "k0"),
        )  # fmt: skip
        yield from (KernelSpec(names.MATMUL, blocks, dtype, index_dtype, isa, gathers=one) for one in (True, False))


def shipped_kernel(spec: KernelSpec, compiler: str | None) -> CompiledKernel | None:
    """Return the shipped kernel of `spec`, or None if there is none, the user names a compiler or edits sources."""
    if compiler is not None or config.get_options().dump_dir is not None:
        return None
    address = _address_of(spec.key())
    if not address:
        return None
    # These kernels search no level, and no two of their threads write one result.
    return CompiledKernel(spec, Path(runtime_api.lib.__name__), address, needs_sorted=False, library=runtime_api.lib)


@functools.lru_cache(maxsize=1024)
def _address_of(key: str) -> int:
    return int(runtime_api.lib.asp_shipped_kernel(key.encode()))
