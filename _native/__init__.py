"""Native: from a SuperSchedule to machine code. Imported as `autosparse._native` only.

``supports`` -> ``packed_bytes``/``pack`` -> ``build`` -> ``Kernel.bind`` -> ``BoundKernel.run``. SDDMM:
``structure_bytes``/``pack_structure`` -> ``BoundSddmm``; MTTKRP: ``reason_unfit_tensor``,
``tensor_bytes``/``pack_tensor`` -> ``BoundMttkrp``. Names are looked up on first use: importing autosparse imports none
of this.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from autosparse._native.ir.spec import VALUE_BYTES, KernelSpec
    from autosparse._native.kernels.backend import BACKENDS
    from autosparse._native.kernels.composite import (
        CompositeKernel,
        CompositeSpec,
        composite_unsupported,
        part_unsupported,
    )
    from autosparse._native.kernels.implementations import (
        IMPLEMENTATIONS,
        build,
        build_many,
        compiler_id,
        implementation_of,
        is_built,
        loaded,
        supports,
    )
    from autosparse._native.kernels.kernel import BoundKernel, BoundMttkrp, BoundSddmm, Kernel
    from autosparse._native.storage.composite import composite_bytes, composite_reason_unfit, pack_composite
    from autosparse._native.storage.packing import PackedOperand, pack, packed_bytes, reason_unfit
    from autosparse._native.storage.parts import Subset, View, block_fill, subsets
    from autosparse._native.storage.row_orders import order_effort
    from autosparse._native.storage.structure import PackedStructure, pack_structure, structure_bytes
    from autosparse._native.storage.tensors import PackedTensor, pack_tensor, reason_unfit_tensor, tensor_bytes
    from autosparse._native.tiles import choose_tiles

__all__ = [
    "BACKENDS",
    "IMPLEMENTATIONS",
    "VALUE_BYTES",
    "BoundKernel",
    "BoundMttkrp",
    "BoundSddmm",
    "CompositeKernel",
    "CompositeSpec",
    "Kernel",
    "KernelSpec",
    "PackedOperand",
    "PackedStructure",
    "PackedTensor",
    "Subset",
    "View",
    "block_fill",
    "build",
    "build_many",
    "choose_tiles",
    "compiler_id",
    "composite_bytes",
    "composite_reason_unfit",
    "composite_unsupported",
    "implementation_of",
    "is_built",
    "loaded",
    "order_effort",
    "pack",
    "pack_composite",
    "pack_structure",
    "pack_tensor",
    "packed_bytes",
    "part_unsupported",
    "reason_unfit",
    "reason_unfit_tensor",
    "structure_bytes",
    "subsets",
    "supports",
    "tensor_bytes",
]

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
    "storage.parts": ("Subset", "View", "block_fill", "subsets"),
    "storage.composite": ("composite_bytes", "composite_reason_unfit", "pack_composite"),
    "kernels.kernel": ("BoundKernel", "BoundMttkrp", "BoundSddmm", "Kernel"),
    "storage.packing": ("PackedOperand", "pack", "packed_bytes", "reason_unfit"),
    "storage.row_orders": ("order_effort",),
    "ir.spec": ("VALUE_BYTES", "KernelSpec"),
    "storage.structure": ("PackedStructure", "pack_structure", "structure_bytes"),
    "tiles": ("choose_tiles",),
    "storage.tensors": ("PackedTensor", "pack_tensor", "reason_unfit_tensor", "tensor_bytes"),
}
_HOME: Final = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:  # whatever the module of that name holds
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_HOME[name]}")
    globals().update({public: getattr(module, public) for public in _MODULES[_HOME[name]]})
    return globals()[name]
