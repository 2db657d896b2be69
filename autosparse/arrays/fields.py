"""Properties `data`, `indices` and `indptr` over an operand's arrays, as fast as attributes in the common case.

Handing an array out is recorded (`Operand.fetch`), and so is assigning another one (`Operand.rebind`). In Python that
costs 0.2 us per access, ten times an attribute. The extension module's descriptor (`_native/extension/operand.c`)
answers directly where the record exists already or where the arrays have not been validated. Otherwise it calls the
same Python functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from autosparse._native import python_objects
from autosparse.operands.csr import Operand
from autosparse.scalar import NARROW_INDEX

NAMES: Final = ("indptr", "indices", "data")
_OF_EXAMPLE: Final = (
    f"array([0, 1, 2], dtype={NARROW_INDEX.name})",
    f"array([1, 0], dtype={NARROW_INDEX.name})",
    "array([2., 3.])",
)

Fetch = Callable[[Any], Any]
Put = Callable[[Any, Any], None]


def _functions(field: int) -> tuple[Fetch, Put]:
    def fetch(self: Any) -> Any:  # Any: any array-like that the user assigned
        return self._cell.fetch(field)

    def put(self: Any, value: Any) -> None:
        self._own_cell().rebind(field, value)

    return fetch, put


def watched(field: int) -> Any:  # Any: a property, or a descriptor like one
    """Return a property for the operand's array number `field`, which records every read and every assignment."""
    fetch, put = _functions(field)
    return property(fetch, put, doc=_doc(field))


def _doc(field: int) -> str:
    name = NAMES[field]
    return f"""The {name} array, live: what is written to it the next product sees.

    >>> asp.csr([[0.0, 2.0], [3.0, 0.0]]).{name}
    {_OF_EXAMPLE[field]}
    """


def hasten(owner: type) -> None:
    """Replace the properties indptr, indices and data of class `owner` by descriptors in C, where available."""
    make = python_objects.make_field
    if make is None:
        return
    for field, name in enumerate(NAMES):
        setattr(owner, name, make(owner, Operand, vars(owner)["_cell"], field, name, _doc(field), *_functions(field)))
