"""Kernels that the runtime has ready: nothing is compiled for them.

The default kernel's loops with what a search may want otherwise: rows in an order of their own, rows of B fetched
ahead. They cut vectors at B's cache lines, store large results past the caches and divide giant rows between threads;
generated kernels do none of this (docs/adr/0020-ready-kernels.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from autosparse._native import runtime_api
from autosparse._native.kernel import Kernel
from autosparse._native.spec import KernelSpec

from autosparse.formats import CSR, MAX_SPLIT

DTYPES: Final = {"float32": 0, "float64": 1}
"""Codes of `asp_ready_kernel`."""
PREFETCH: Final = (0, 4, 8, 16, 64)
LOOPS: Final = ("i1", "j1", "k1", "j0")


def is_ready(spec: KernelSpec) -> bool:
    """Whether the runtime computes what `spec` asks for: CSR, ordered or not, 32-bit indices, a row of C at once."""
    schedule, fmt = spec.schedule, spec.schedule.format
    if schedule.dense_split("j") != MAX_SPLIT:  # nearly all
        return False
    return (
        spec.operation == "matmul"
        and fmt.levels == CSR.levels
        and not (fmt.symmetric or fmt.values)
        and fmt.index_bits == 32
        and spec.index_dtype == "int32"
        and spec.dtype in DTYPES
        and schedule.loop_order == LOOPS
        and schedule.parallel == "i1"
        and schedule.unroll == 1
        and schedule.prefetch in PREFETCH
    )


def ready_kernel(spec: KernelSpec) -> Kernel | None:
    """The runtime's kernel for `spec`; None when it has none."""
    if not runtime_api.available or not is_ready(spec):
        return None
    address = int(runtime_api.lib.asp_ready_kernel(DTYPES[spec.dtype], spec.schedule.prefetch))
    return Kernel(spec, Path(runtime_api.lib.__name__), address, needs_sorted=False, library=runtime_api.lib)
