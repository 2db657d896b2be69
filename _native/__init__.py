"""Native: from a SuperSchedule to machine code. Imported as `autosparse._native` only.

``supports`` -> ``packed_bytes``/``pack`` -> ``build`` -> ``Kernel.bind`` -> ``BoundKernel.run``; `interpret` is the
oracle. Names are looked up on first use: importing autosparse imports none of this.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from autosparse._native.backend import BACKENDS, build, build_many, compiler_id, is_built, supports
    from autosparse._native.interpreter import interpret
    from autosparse._native.kernel import BoundKernel, Kernel
    from autosparse._native.packing import PackedOperand, pack, packed_bytes, reason_unfit
    from autosparse._native.spec import VALUE_BYTES, KernelSpec

__all__ = [
    "BACKENDS",
    "VALUE_BYTES",
    "BoundKernel",
    "Kernel",
    "KernelSpec",
    "PackedOperand",
    "build",
    "build_many",
    "compiler_id",
    "interpret",
    "is_built",
    "pack",
    "packed_bytes",
    "reason_unfit",
    "supports",
]

_MODULES: Final = {
    "backend": ("BACKENDS", "build", "build_many", "compiler_id", "is_built", "supports"),
    "interpreter": ("interpret",),
    "kernel": ("BoundKernel", "Kernel"),
    "packing": ("PackedOperand", "pack", "packed_bytes", "reason_unfit"),
    "spec": ("VALUE_BYTES", "KernelSpec"),
}
_HOME: Final = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:  # whatever the module of that name holds
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_HOME[name]}")
    globals().update({public: getattr(module, public) for public in _MODULES[_HOME[name]]})
    return globals()[name]
