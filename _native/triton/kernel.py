"""Kernels for a GPU, and their implementation `triton`, which computes schedules of parts."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from autosparse._native.kernels.backend import ArtefactStore
from autosparse._native.triton.spec import DeviceSpec

from autosparse.gpu.schedule import DeviceSchedule

if TYPE_CHECKING:
    from autosparse._native.triton.entries import DeviceEntries
    from autosparse._native.triton.launch import Launch

NO_TRITON: Final = "Triton is not installed: pip install 'autosparse[gpu]'"
"""Reason why no schedule is supported without Triton."""


@dataclass(frozen=True, slots=True)
class DeviceKernel:
    """Generated source loaded by Triton, which compiles it at the first launch and caches the machine code."""

    spec: DeviceSpec
    module: ModuleType

    def bind(self, entries: DeviceEntries, *, nnz: int) -> Launch:
        """Pack the entries and return the launch for products with them; packing synchronises with the device.

        `nnz` is the number of values, which every product reads anew.
        """
        from autosparse._native.triton import launch, packing  # import torch, which only users of a GPU need

        return launch.Launch(self.module, packing.pack(self.spec, entries, nnz=nnz))


class Triton:
    """Implementation of kernels for a GPU: generated from a `DeviceSchedule`, cached as source."""

    def supports(self, operation: str, schedule: DeviceSchedule) -> str | None:
        """Return why `schedule` cannot be computed, or None; see `Implementation`."""
        if importlib.util.find_spec("triton") is None:
            return NO_TRITON
        return None if schedule.operation == operation else f"a schedule of {schedule.operation}, not of {operation}"

    def compile(
        self,
        spec: DeviceSpec,
        *,
        store: ArtefactStore,
        compiler: str | None,
        compilations: Any,  # for external compilers; Triton is none
    ) -> DeviceKernel:
        """Load the kernel; see `Implementation`. Raises BuildError where it cannot, ImportError without Triton."""
        from autosparse._native.triton import source

        return DeviceKernel(spec, source.module_of(spec, store))

    def loaded(self, spec: DeviceSpec, compiler: str | None) -> DeviceKernel | None:
        """Return the kernel if this process has loaded it, otherwise None; see `Implementation`."""
        from autosparse._native.triton import source

        module = source.known(spec)
        return None if module is None else DeviceKernel(spec, module)

    def is_built(self, spec: DeviceSpec, *, store: ArtefactStore, compiler: str | None) -> bool:
        """Return whether the source is cached; Triton caches machine code itself. See `Implementation`."""
        return self.loaded(spec, compiler) is not None or store.find_artefact(spec.key()) is not None
