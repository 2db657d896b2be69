"""SciPy's own classes under autosparse's, the state that their constructors leave in a fresh object, and its arrays.

`data`, `indices` and `indptr` are properties over an operand's arrays, as fast as attributes in the common case.
Handing an array out is recorded (`Operand.fetch`), and so is assigning another one (`Operand.rebind`). In Python that
costs 0.2 us per access, ten times an attribute. The extension module's descriptor (`_native/extension/operand.c`)
answers directly where the record exists already or where the arrays have not been validated. Otherwise it calls the
same Python functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from autosparse import light
from autosparse._native import python_objects
from autosparse.errors import StructureError
from autosparse.light import matrices
from autosparse.light.adoption import attributes, set_state
from autosparse.light.matrices import Slots
from autosparse.operands.csr import INDPTR, Operand
from autosparse.operands.native_rows import check_bounds
from autosparse.scalar import NARROW_INDEX

FAMILY: Final = matrices.FAMILY
NAMES: Final = ("indptr", "indices", "data")
_CELL: Final[Any] = vars(Slots)["_cell"]
_OF_EXAMPLE: Final = (
    f"array([0, 1, 2], dtype={NARROW_INDEX.name})",
    f"array([1, 0], dtype={NARROW_INDEX.name})",
    "array([2., 3.])",
)


def over(kind: type, shape: tuple[int, ...], arrays: Sequence[Any]) -> Any:
    """Return an object of SciPy's class `kind` over (indptr, indices, data), without checks."""
    made: Any = object.__new__(kind)
    made.indptr, made.indices, made.data = arrays
    set_state(made, shape)
    return made


def check_starts(cell: Operand) -> None:
    """Raise StructureError where row starts are missing, behind which SciPy's loops would read."""
    starts = cell._arrays[INDPTR]
    if type(starts) is np.ndarray and starts.size <= cell.n_major:
        raise StructureError.indptr_size(starts.size, wanted=cell.n_major + 1)


def arrays_of(made: Any) -> dict[str, Any]:
    """Return the arrays of an autosparse matrix by name, without those that an object made by ``__new__`` lacks."""
    arrays = {name: getattr(made, name, None) for name in NAMES}
    return {name: array for name, array in arrays.items() if array is not None}


class LiveAttributes(dict[str, Any]):
    """Dictionary that a matrix shows as ``__dict__``: SciPy's attributes, arrays included. Writes reach the matrix.

    Later writes to the matrix do not show in it.
    """

    __slots__ = ("_owner",)

    def __init__(self, owner: Any) -> None:  # Any: an autosparse class, whose module imports this one
        super().__init__(owner.__getstate__())
        self._owner = owner

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        if name in NAMES:
            setattr(self._owner, name, value)
            return
        attributes(self._owner)[name] = value
        if name == "_shape" and type(cell_of(self._owner)) is Operand:
            self._owner._finish()

    def __delitem__(self, name: str) -> None:
        if name in NAMES:
            raise TypeError(f"cannot delete {name}: a sparse matrix needs it")
        super().__delitem__(name)
        del attributes(self._owner)[name]

    def update(self, *others: Any, **items: Any) -> None:
        """Write every item to the matrix."""
        for name, value in dict(*others, **items).items():
            self[name] = value

    def __ior__(self, other: Any) -> LiveAttributes:  # type: ignore[override,misc]
        self.update(other)
        return self

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return the attribute, after writing `default` to the matrix where it was missing."""
        if name not in self:
            self[name] = default
        return self[name]

    def pop(self, name: str, *default: Any) -> Any:
        """Return the attribute and remove it from the matrix."""
        if name not in self and default:
            return default[0]
        value = self[name]
        del self[name]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the attribute that was written last, and return its name and value."""
        name = next(reversed(self))
        return name, self.pop(name)

    def clear(self) -> None:
        """Raise TypeError: the arrays of a matrix cannot be removed."""
        for name in list(self):
            del self[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def __copy__(self) -> dict[str, Any]:
        return dict(self)


def cell_of(made: Any) -> Any:
    """Return the operand of a matrix, else None. A subclass may define `__getattr__`, which `getattr` would call."""
    try:
        return _CELL.__get__(made, type(made))
    except AttributeError:
        return None


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
    return f"""Array `{name}` of the matrix, not a copy. The next product uses values that were written to it.

    >>> asp.csr([[0.0, 2.0], [3.0, 0.0]]).{name}
    {_OF_EXAMPLE[field]}
    """


def hasten(owner: type) -> None:
    """Replace the properties indptr, indices and data of class `owner` by descriptors in C, where available."""
    make = python_objects.make_field
    if make is None:
        return
    for field, name in enumerate(NAMES):
        setattr(owner, name, make(owner, Operand, _CELL, field, name, _doc(field), *_functions(field)))


def are_whole(arrays: tuple[Any, Any, Any], n_major: int, n_minor: int) -> bool:
    """Return whether SciPy would share (indptr, indices, data): exactly the entries that indptr counts, no spare room.

    Raises StructureError where there are too few entries.
    """
    indptr, indices, data = arrays
    if not (type(indptr) is type(indices) is type(data) is np.ndarray):
        return False
    is_start = indptr.shape == (n_major + 1,) and not indptr.item(0)
    if is_start and indices.shape == data.shape == (indptr.item(-1),):
        return (indices.base is None or light.fills(indices)) and (data.base is None or light.fills(data))
    if indptr.ndim == indices.ndim == data.ndim == 1 and indptr.size:
        check_bounds(indptr, indices, data, (n_major, n_minor), checked=False)
    return False
