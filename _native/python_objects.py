"""Functions and types of the extension module (`_native/extension`), and what takes their place without it.

Inspecting the operands of a small product takes microseconds in Python and nanoseconds in C. Where there is no
extension module (other interpreters, no GIL, no compiler), a function here is None, and Python code is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

_package: Final[Any] = importlib.import_module("autosparse._native")  # by name: it lists modules that import this one
lib, ffi = _package.loaded_runtime()
_extension, _ = _package.connected_extension(lib, ffi)
has_runtime: Final = lib is not None
"""Availability of the C runtime, whose cffi objects are `lib` and `ffi`."""

if TYPE_CHECKING:
    from typing_extensions import Self

if TYPE_CHECKING or _extension is None:

    class OperandFields:
        """Attributes of an operand that C would read."""

        __slots__ = (
            "_aliases_before", "_arrays", "_checked", "_clean_data", "_clean_indices", "_clean_indptr", "_exported",
            "_invalidated_data", "_invalidated_indices", "_invalidated_indptr", "_native_watch", "_readers",
            "_retained", "rows", "structure_version", "unvalidated", "values_version",
        )  # fmt: skip
        _readers: list[None]  # one element for each product that computes now
        _retained: list[object]

        def __new__(cls, *_: object, **__: object) -> Self:
            """Return an object that no product reads."""
            made = super().__new__(cls)
            made._readers, made._retained = [], []
            return made

        def retain(self, array: object) -> None:
            """Keep an array until no product computes that may read it."""
            if self._readers:
                self._retained.append(array)

        def begin_reading(self) -> None:
            """Keep arrays that are replaced until `end_reading`: kernels read addresses and hold no array."""
            self._readers.append(None)

        def end_reading(self) -> None:
            """Undo one `begin_reading`."""
            self._readers.pop()
            if not self._readers:
                self._retained.clear()

else:
    OperandFields = _extension.OperandFields  # attributes of the same names


def _function(name: str) -> Any:
    return None if _extension is None else getattr(_extension, name)


look: Final = _function("look")
"""Function that validates a CSR matrix; None: unavailable."""
small_product: Final = _function("small_product")
"""Function that computes a small product; None: unavailable."""
compile_sweep: Final = _function("compile_sweep")
"""Function that compiles a sweep (`linalg.sweeps`); None: unavailable."""
advance_cg: Final = _function("advance_cg")
"""Function that runs iterations of conjugate gradients; None: unavailable."""
advance_columns_bicgstab: Final = _function("advance_columns_bicgstab")
advance_columns_cg: Final = _function("advance_columns_cg")
"""Function that runs iterations of conjugate gradients for several columns; None: unavailable."""
advance_columns_minres: Final = _function("advance_columns_minres")
"""Function that runs iterations of MINRES for several columns; None: unavailable."""
advance_bicgstab: Final = _function("advance_bicgstab")
"""Function that runs iterations of BiCGSTAB; None: unavailable."""
advance_minres: Final = _function("advance_minres")
"""Function that runs iterations of MINRES; None: unavailable."""
advance_lsqr: Final = _function("advance_lsqr")
"""Function that runs iterations of LSQR; None: unavailable."""
advance_lsmr: Final = _function("advance_lsmr")
"""Function that runs iterations of LSMR; None: unavailable."""
references: Final = _function("references")
"""Function that counts the references to the members of a tuple; None: unavailable."""
references_with_bases: Final = _function("references_with_bases")
"""Function that counts the references to the members of a list and to their base arrays; None: unavailable."""
data_slot: Final = _function("data_slot")
"""Function that returns the address of an array's data pointer; None: unavailable."""
make_field: Final = _function("make_field")
"""Function that makes a descriptor for an array of a sparse matrix; None: unavailable."""
empty: Final = _function("empty")
"""Function that allocates an array in memory of the runtime's allocator; None: unavailable."""
Watch: Final = _function("Watch")
"""Type that detects writes to the arrays of an operand; None: unavailable."""
FastCall: Final = _function("FastCall")
"""Type of products that go from Python directly to a kernel; None: unavailable."""
