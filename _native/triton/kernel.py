"""DeviceKernel and the row `triton` of the implementations: schedules of parts, computed on a GPU."""

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


@dataclass(frozen=True, slots=True)
class DeviceKernel:
    """Emitted source that Triton has read. Machine code is made at the first launch, and kept by Triton's cache."""

    spec: DeviceSpec
    module: ModuleType

    def bind(self, entries: DeviceEntries, *, nnz: int) -> Launch:
        """What computes products of a matrix with these entries; the host waits for the device while they are packed.

        Values are `nnz` numbers, read at every product.
        """
        from autosparse._native.triton import launch, packing  # torch, for who has a tensor on a GPU

        return launch.Launch(self.module, packing.pack(self.spec, entries, nnz=nnz))


class Triton:
    """Kernels for a GPU: emitted from a `DeviceSchedule`, kept by the cache as source."""

    def supports(self, operation: str, schedule: DeviceSchedule) -> str | None:
        """See `Implementation`."""
        if importlib.util.find_spec("triton") is None:
            return NO_TRITON
        return None if schedule.operation == operation else f"a schedule of {schedule.operation}, not of {operation}"

    def compile(
        self,
        spec: DeviceSpec,
        *,
        store: ArtefactStore,
        compiler: str | None,
        compilations: Any,  # of a compiler that is another program: here is none
    ) -> DeviceKernel:
        """See `Implementation`. BuildError where Triton has no such kernel, ImportError where it cannot be imported."""
        from autosparse._native.triton import source

        return DeviceKernel(spec, source.module_of(spec, store))

    def loaded(self, spec: DeviceSpec, compiler: str | None) -> DeviceKernel | None:
        """See `Implementation`."""
        from autosparse._native.triton import source

        module = source.known(spec)
        return None if module is None else DeviceKernel(spec, module)

    def is_built(self, spec: DeviceSpec, *, store: ArtefactStore, compiler: str | None) -> bool:
        """See `Implementation`: whether the source is there; Triton keeps machine code by itself."""
        return self.loaded(spec, compiler) is not None or store.find_artefact(spec.key()) is not None
