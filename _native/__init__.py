"""Compilation of a SuperSchedule to machine code, and packing of operands. Import this package as `autosparse._native`
only.

Products are built by ``supports`` -> ``packed_bytes``/``pack`` -> ``build`` -> ``CompiledKernel.bind`` ->
``BoundKernel.run``.
SDDMM uses ``structure_bytes``/``pack_structure`` -> ``BoundSddmm``; MTTKRP uses ``reason_unfit_tensor``,
``tensor_bytes``/``pack_tensor`` -> ``BoundMttkrp``. Names are imported on first use, so ``import autosparse`` imports
none of these modules.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from autosparse import forking

if TYPE_CHECKING:
    from autosparse._native.ir.spec import VALUE_BYTES as VALUE_BYTES
    from autosparse._native.ir.spec import KernelSpec as KernelSpec
    from autosparse._native.ir.spec import reason_not_of_type as reason_not_of_type
    from autosparse._native.kernels.backend import BACKENDS as BACKENDS
    from autosparse._native.kernels.composite import CompositeKernel as CompositeKernel
    from autosparse._native.kernels.composite import CompositeSpec as CompositeSpec
    from autosparse._native.kernels.composite import composite_unsupported as composite_unsupported
    from autosparse._native.kernels.composite import part_unsupported as part_unsupported
    from autosparse._native.kernels.implementations import IMPLEMENTATIONS as IMPLEMENTATIONS
    from autosparse._native.kernels.implementations import build as build
    from autosparse._native.kernels.implementations import build_many as build_many
    from autosparse._native.kernels.implementations import compiler_id as compiler_id
    from autosparse._native.kernels.implementations import implementation_of as implementation_of
    from autosparse._native.kernels.implementations import is_built as is_built
    from autosparse._native.kernels.implementations import loaded as loaded
    from autosparse._native.kernels.implementations import supports as supports
    from autosparse._native.kernels.kernel import BoundKernel as BoundKernel
    from autosparse._native.kernels.kernel import BoundMttkrp as BoundMttkrp
    from autosparse._native.kernels.kernel import BoundSddmm as BoundSddmm
    from autosparse._native.kernels.kernel import CompiledKernel as CompiledKernel
    from autosparse._native.storage.composite import composite_bytes as composite_bytes
    from autosparse._native.storage.composite import composite_reason_unfit as composite_reason_unfit
    from autosparse._native.storage.composite import pack_composite as pack_composite
    from autosparse._native.storage.packing import PackedOperand as PackedOperand
    from autosparse._native.storage.packing import pack as pack
    from autosparse._native.storage.packing import packed_bytes as packed_bytes
    from autosparse._native.storage.packing import reason_unfit as reason_unfit
    from autosparse._native.storage.parts import Subset as Subset
    from autosparse._native.storage.parts import View as View
    from autosparse._native.storage.parts import subsets as subsets
    from autosparse._native.storage.row_orders import order_effort as order_effort
    from autosparse._native.storage.structure import PackedStructure as PackedStructure
    from autosparse._native.storage.structure import pack_structure as pack_structure
    from autosparse._native.storage.structure import structure_bytes as structure_bytes
    from autosparse._native.storage.tensors import PackedTensor as PackedTensor
    from autosparse._native.storage.tensors import pack_tensor as pack_tensor
    from autosparse._native.storage.tensors import reason_unfit_tensor as reason_unfit_tensor
    from autosparse._native.storage.tensors import tensor_bytes as tensor_bytes
    from autosparse._native.tiles import choose_tiles as choose_tiles

_MODULES: Final = {
    "kernels.backend": ("BACKENDS",),
    "kernels.implementations": (
        "IMPLEMENTATIONS",
        "build",
        "build_many",
        "compiler_id",
        "implementation_of",
        "is_built",
        "loaded",
        "supports",
    ),
    "kernels.composite": ("CompositeKernel", "CompositeSpec", "composite_unsupported", "part_unsupported"),
    "storage.parts": ("Subset", "View", "subsets"),
    "storage.composite": ("composite_bytes", "composite_reason_unfit", "pack_composite"),
    "kernels.kernel": ("BoundKernel", "BoundMttkrp", "BoundSddmm", "CompiledKernel"),
    "storage.packing": ("PackedOperand", "pack", "packed_bytes", "reason_unfit"),
    "storage.row_orders": ("order_effort",),
    "ir.spec": ("VALUE_BYTES", "KernelSpec", "reason_not_of_type"),
    "storage.structure": ("PackedStructure", "pack_structure", "structure_bytes"),
    "tiles": ("choose_tiles",),
    "storage.tensors": ("PackedTensor", "pack_tensor", "reason_unfit_tensor", "tensor_bytes"),
}
_HOME: Final = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:  # any public object of the modules
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with forking.loading():
        module = importlib.import_module(f"{__name__}.{_HOME[name]}")
    globals().update({public: getattr(module, public) for public in _MODULES[_HOME[name]]})
    return globals()[name]


def loaded_runtime() -> tuple[Any, Any]:  # Any: cffi objects
    """Return the C runtime's functions and cffi's object; None where it was not built or cannot be loaded."""
    try:
        runtime = importlib.import_module("autosparse._native._runtime")
    except (ImportError, OSError):
        return None, None
    return runtime.lib, runtime.ffi


def loaded_extension() -> tuple[Any, str]:  # Any: a module without types
    """Return the extension module, whose `empty` needs no C runtime, and why there is none ("" if there is one)."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None, "this interpreter has no GIL"
    try:
        return importlib.import_module("autosparse._native._extension"), ""
    except (AttributeError, ImportError, OSError, RuntimeError) as err:
        return None, f"the extension module cannot be loaded: {err}"


def extension_at_once(kept_bytes: int) -> tuple[Any, int]:  # Any: a module without types, or None
    """Return the extension module, connected with the C runtime without cffi, and the number of threads.

    The import of cffi's module takes 0.6 ms. `kept_bytes`: number of bytes of freed results that the runtime keeps.
    """
    extension, _ = loaded_extension()
    if extension is None:
        return None, 0
    try:
        return extension, extension.connect_to(f"{__path__[0]}{os.sep}_runtime.abi3.so", kept_bytes)
    except (AttributeError, ImportError):  # an older module; the runtime has another name, or other sources
        lib, ffi = loaded_runtime()
        extension, _ = connected_extension(lib, ffi)
        if extension is not None:
            lib.asp_output_limit(kept_bytes)
        return extension, 0 if extension is None else lib.asp_max_threads()


def connected_extension(lib: Any, ffi: Any) -> tuple[Any, str]:  # Any: cffi objects, and a module without types
    """Return the extension module, connected with the C runtime, and why there is none ("" if there is one)."""
    if lib is None:
        return None, "there is no C runtime"
    module, missing = loaded_extension()
    if module is None:
        return None, missing
    headers = getattr(lib, "asp_headers", None)
    if headers is None or ffi.string(headers()).decode() != module.HEADERS:
        return None, "the extension module and the C runtime were built from different sources"
    module.connect(tuple(int(ffi.cast("uintptr_t", ffi.addressof(lib, name))) for name in module.FUNCTIONS))
    return module, ""
