"""Methods of light matrices that most programs do not call: copies, states, `resize`, `argmax`, and texts of errors."""

from __future__ import annotations

import copy as copying
from collections.abc import Callable
from typing import Any

from scipy.sparse import _sparsetools as loops

from autosparse import light
from autosparse.light import adoption
from autosparse.light.adoption import attributes
from autosparse.light.matrices import FIELDS, completed


def _of_light(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator of functions for light matrices; for others they call the complete method `name`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(A: Any, *args: Any) -> Any:
            is_light = A._light is not None and light.may_be_light()
            return function(A, *args) if is_light else completed(A, name)(*args)

        return call

    return decorate


@_of_light("__copy__")
def copy(A: Any) -> Any:
    """Return another matrix over the arrays of A."""
    copied: Any = object.__new__(type(A))
    setstate(copied, A.__getstate__())
    return copied


@_of_light("__deepcopy__")
def deepcopy(A: Any, memo: dict[int, Any]) -> Any:
    """Return another matrix over copies of the arrays of A."""
    memo[id(A)] = copied = object.__new__(type(A))
    state = {**attributes(A), **dict(zip(FIELDS, A._light.arrays, strict=True))}
    setstate(copied, copying.deepcopy(state, memo))
    if (rows := light.rows_of(copied)) is not None:
        rows.copied_bytes = sum(array.nbytes for array in rows.arrays)
    return copied


def setstate(A: Any, state: Any) -> None:
    """Set A to a state that `__getstate__` returned."""
    is_plain = light.may_be_light() and type(state) is dict and state.keys() >= {"_shape", *FIELDS}
    found = (state["_shape"], *map(state.get, FIELDS)) if is_plain else light.NOTHING
    rows = adoption.adopt(A, found, copy=False)
    if rows is None:
        completed(A, "__setstate__")(state)
        return
    rows.is_exported = True  # the arrays may lie in buffers of the program
    for name in state.keys() - set(FIELDS):
        setattr(A, name, state[name])


def attributes_of(A: Any) -> Any:
    """Return the attributes that SciPy stores, the arrays included, of A, which becomes complete."""
    completed(A, "__getstate__")
    from autosparse.arrays.plain import LiveAttributes

    return LiveAttributes(A)


def set_attributes(A: Any, state: Any) -> None:
    """Set the attributes that SciPy stores, the arrays included, of A, which becomes complete."""
    completed(A, "__getstate__")
    A.__setstate__(state)


def explained(A: Any, B: Any, error: ValueError) -> ValueError:
    """Return SciPy's error with both shapes and a hint, if the shapes of A and B are the reason; else the error."""
    shapes = A.shape, getattr(B, "shape", ())
    if type(error) is not ValueError or shapes[0] == shapes[1] or "inconsistent shape" not in str(error):
        return error
    from autosparse.errors import ShapeError

    return ShapeError.unfit(str(error), wanted="operands of one shape", left=shapes[0], right=shapes[1])


def resize(A: Any, *shape: Any) -> None:
    """Resize A, which becomes complete."""
    completed(A, "resize")(*shape)


@_of_light("_argminmax")
def argminmax(A: Any, *args: Any) -> Any:
    """Return places of extreme entries as SciPy's `_argminmax` does, which fetches the arrays for each row."""
    rows, is_by_rows = A._light, type(args[0]) is int and args[0] in ((0, -2) if A._transposed else (1, -1))
    if is_by_rows and rows is not None and rows.sound():
        A._plain_class.sum_duplicates(A)  # as SciPy's method does for this axis
        rows = A._light
    if rows is None or not loops.csr_has_canonical_format(rows.n_major, *rows.arrays[:2]):
        return A._plain_class._argminmax(A, *args)  # adds up duplicates in place
    plain: Any = object.__new__(A._plain_class)
    own = attributes(A)
    adoption.set_state(plain, A._shape)
    plain.indptr, plain.indices, plain.data = rows.arrays
    vars(plain).update(_flags(own))
    found = plain._argminmax(*args)
    own.update(_flags(vars(plain)))
    return found


def _flags(state: dict[str, Any]) -> dict[str, Any]:
    """Return what a matrix knows about the order of its entries, which SciPy keeps once it has looked."""
    return {name: value for name, value in state.items() if name.startswith("_has")}
