"""Shipped kernels: generated kernels that were compiled with the runtime at installation.

They are what the tuning statistics rank first for SpMV of nine matrices in ten: slices as high as a vector, sorted or
not, and blocks of 3 x 3, with 16-bit coordinates, and two schedules that gain most beside them. `shipped_specs` lists
them; the build emits their sources (`shipped_sources`).
"""

from __future__ import annotations

import functools
from pathlib import Path

from autosparse._native import runtime_api
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.kernels.kernel import CompiledKernel
from autosparse._native.kernels.slice_kernel import may_serve


def shipped_kernel(spec: KernelSpec, compiler: str | None) -> CompiledKernel | None:
    """Return the shipped kernel of `spec`; None if there is none, or if shipped kernels are not used."""
    if not may_serve(compiler):
        return None
    address = _address_of(spec.key())
    if not address:
        return None
    # These kernels search no level, and no two of their threads write one result.
    return CompiledKernel(spec, Path(runtime_api.lib.__name__), address, needs_sorted=False, library=runtime_api.lib)


@functools.lru_cache(maxsize=1024)
def _address_of(key: str) -> int:
    return int(runtime_api.lib.asp_shipped_kernel(key.encode()))
