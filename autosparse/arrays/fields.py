"""Properties `data`, `indices` and `indptr` over an operand's arrays, as fast as attributes in the common case.

Handing an array out is recorded (`Operand.fetch`), and so is assigning another one (`Operand.rebind`). In Python that
costs 0.2 us per access, ten times an attribute. The runtime's descriptor (`runtime/python/fields_python.h`) answers
directly where the record exists already or where the arrays have not been validated. Otherwise it calls the same
Python functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from autosparse._native import python_objects, runtime_api
from autosparse.operands.csr import DATA, Operand
from autosparse.operands.watch import INVALIDATED

NAMES: Final = ("indptr", "indices", "data")
_OF_EXAMPLE: Final = ("array([0, 1, 2], dtype=int32)", "array([1, 0], dtype=int32)", "array([2., 3.])")
_KEPT: Final[list[Any]] = []  # structures that the descriptors read, kept alive for the life of the process

Fetch = Callable[[Any], Any]
Put = Callable[[Any, Any], None]


def _functions(field: int) -> tuple[Fetch, Put]:
    def fetch(self: Any) -> Any:  # Any: any array-like that the user assigned
        return self._cell.fetch(field)

    def put(self: Any, value: Any) -> None:
        self._own_cell().rebind(field, value)

    return fetch, put


def watched(field: int) -> Any:  # Any: a property, or a descriptor like one
    """Return a property over one of the operand's arrays that records every read and every assignment."""
    fetch, put = _functions(field)
    return property(fetch, put, doc=_doc(field))


def _doc(field: int) -> str:
    name = NAMES[field]
    return f"""The {name} array, live: what is written to it the next product sees.

    >>> asp.csr([[0.0, 2.0], [3.0, 0.0]]).{name}
    {_OF_EXAMPLE[field]}
    """


def hasten(owner: type, probe: Callable[[], Any]) -> None:
    """Replace the properties of `owner` by the runtime's descriptors where available; `probe` makes an instance."""
    make = python_objects.maker("asp_field_maker")
    of_object = python_objects.slot_offsets(probe, ("_cell",))
    slots = ("_arrays", "rows", "unvalidated", "_exported", *INVALIDATED)
    of_operand = python_objects.slot_offsets(Operand, slots)
    if make is None or of_object is None or of_operand is None:
        return
    for field, name in enumerate(NAMES):
        about = _about(field, of_object["_cell"], of_operand)
        _KEPT.append(about)
        spec = (python_objects.address_of(about), name, _doc(field), *_functions(field))
        setattr(owner, name, make(owner, spec))


def _about(field: int, cell_at: int, of_operand: Mapping[str, int]) -> Any:
    """Return the C structure asp_field (fields_api.h) that describes one field: offsets of slots and position."""
    is_data = field == DATA
    about = runtime_api.ffi.new("asp_field *")
    about.cell_at, about.cell_type = cell_at, runtime_api.ffi.cast("void *", id(Operand))
    about.arrays_at, about.rows_at, about.unvalidated_at = (
        of_operand[name] for name in ("_arrays", "rows", "unvalidated")
    )
    about.invalidated_at = of_operand[INVALIDATED[field]]
    about.exported_at = 0 if is_data else of_operand["_exported"]
    about.position = field
    return about
