"""Methods of light matrices that most programs do not call: copies by the module `copy`, `resize`, `argmax`."""

from __future__ import annotations

import copy as copying
from typing import Any

from scipy.sparse import _sparsetools as loops

from autosparse import light
from autosparse.light import adoption
from autosparse.light.adoption import attributes
from autosparse.light.matrices import FIELDS, completed


def copy(A: Any) -> Any:
    """Return another matrix over the arrays of A."""
    copied: Any = object.__new__(type(A))
    setstate(copied, A.__getstate__())
    return copied


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


def resize(A: Any, *shape: Any) -> None:
    """Resize A, which becomes complete."""
    completed(A, "resize")(*shape)


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
