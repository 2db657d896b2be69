"""Operations: one module each, with one row in `OPS` that describes how the operation differs from others.

Rows are loaded on demand, which takes 3 ms. Products need only `names`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from autosparse.ops.base import Operation
    from autosparse.ops.einsum import EINSUM
    from autosparse.ops.matmul import MATMUL
    from autosparse.ops.mttkrp import MTTKRP
    from autosparse.ops.sddmm import SDDMM
    from autosparse.ops.spgemm import SPGEMM
    from autosparse.ops.table import OPS, register, unregister

__all__ = ["EINSUM", "MATMUL", "MTTKRP", "OPS", "SDDMM", "SPGEMM", "Operation", "register", "unregister"]

_HOMES: Final = {
    "base": ("Operation",),
    "einsum": ("EINSUM",),
    "matmul": ("MATMUL",),
    "mttkrp": ("MTTKRP",),
    "sddmm": ("SDDMM",),
    "spgemm": ("SPGEMM",),
    "table": ("OPS", "register", "unregister"),
}
_HOME_OF: Final = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:  # Any: the attribute of the home module
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return value
