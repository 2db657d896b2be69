"""Kernels that the runtime has ready: nothing is compiled for them.

The default kernels' loops with what a search may want otherwise: rows in an order of their own, rows of B (or Y)
fetched ahead. They cut vectors at cache lines, store large results past the caches, divide giant rows between threads,
fetch the next rows of X; generated kernels do none of this (docs/adr/0020-ready-kernels.md, 0024-ready-sddmm.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from autosparse._native import runtime_api
from autosparse._native.kernel import Kernel
from autosparse._native.spec import KernelSpec

from autosparse.formats import CSR, MAX_SPLIT

DTYPES: Final = {"float32": 0, "float64": 1}
"""Codes of `asp_ready_kernel` and `asp_ready_sampled`."""
PREFETCH: Final = (0, 4, 8, 16, 64)
LOOPS: Final = {"matmul": ("i1", "j1", "k1", "j0"), "sddmm": ("i1", "k1", "j1", "j0")}
"""Per operation that the runtime has kernels for: a row of the result, or of X, at once."""


def is_ready(spec: KernelSpec) -> bool:
    """Whether the runtime computes what `spec` asks for: CSR, ordered or not, 32-bit indices, a whole row at once."""
    schedule, fmt = spec.schedule, spec.schedule.format
    if schedule.dense_split("j") != MAX_SPLIT:  # nearly all
        return False
    return (
        fmt.levels == CSR.levels
        and not (fmt.symmetric or fmt.values)
        and fmt.index_bits == 32
        and spec.index_dtype == "int32"
        and spec.dtype in DTYPES
        and schedule.loop_order == LOOPS.get(spec.operation)
        and schedule.parallel == "i1"
        and schedule.unroll == 1
        and schedule.prefetch in PREFETCH
    )


def ready_kernel(spec: KernelSpec) -> Kernel | None:
    """The runtime's kernel for `spec`; None when it has none."""
    if not runtime_api.available or not is_ready(spec):
        return None
    lib = runtime_api.lib
    address_of = lib.asp_ready_kernel if spec.operation == "matmul" else lib.asp_ready_sampled
    address = int(address_of(DTYPES[spec.dtype], spec.schedule.prefetch))
    return Kernel(spec, Path(runtime_api.lib.__name__), address, needs_sorted=False, library=lib)
