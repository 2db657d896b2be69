"""Copies of autosparse matrices (`copy`, the module `copy`, `pickle`), and ownership of their arrays."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

from autosparse.arrays.fields import NAMES
from autosparse.arrays.plain import arrays_of, attributes, set_state
from autosparse.operands import ownership
from autosparse.operands.csr import DATA, INDICES, INDPTR, Operand


class Copies:
    """Mixin for `A.copy()`, the module `copy` and `pickle`, placed before SciPy's class."""

    __slots__ = ()

    _cell: Operand
    _shape: tuple[int, ...]
    _twin: ClassVar[type]

    @property
    def owns_arrays(self) -> bool:
        """Return whether the matrix owns its arrays: no caller passed them in, or no other object refers to them.

        Writes to the object that the matrix was made from are then never seen, and a tuned product need not look for
        them.
        Arrays that are read from the matrix, like ``A.data``, stay its own.

        >>> m = sps.eye_array(3, format="csr")
        >>> asp.csr(m).owns_arrays, asp.csr(m, copy=False).owns_arrays
        (True, False)
        """
        return ownership.owns_arrays(self._cell)

    def copy(self) -> Any:
        """Return a matrix that owns copies of the arrays, as SciPy's `copy` does; all threads copy."""
        made: Any = object.__new__(type(self))
        is_final = self._twin._twin is type(self)  # type: ignore[attr-defined]
        arrays = map(self._cell.peek, (INDPTR, INDICES, DATA))
        if is_final and made._adopt(self._shape, *arrays, copy=True):
            return made
        return super().copy()  # type: ignore[misc]

    def _same(self) -> Any:
        """Return another object over the same operand. The two separate when either is given new arrays."""
        cell = self._cell
        cell.shared, cell.unvalidated = True, False
        copied: Any = object.__new__(type(self))
        copied._cell = cell
        set_state(copied, self._shape)
        return copied

    def _freeze(self) -> None:
        """Record the caller's declaration that nobody writes to the arrays, for this object alone."""
        if self._cell.shared:
            self._cell = self._cell.share()  # type: ignore[misc]  # a slot of the class that this is mixed into
        self._cell.freeze()

    def _restore(self, state: dict[str, Any]) -> None:
        """Set this object to `state`: SciPy's attributes, the three arrays included."""
        self._cell = cell = Operand()  # type: ignore[misc]
        cell._arrays = [state.pop(name) for name in NAMES]  # the arrays are not validated yet
        own = attributes(self)
        own.clear()
        own.update(state)
        self._finish()  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that SciPy pickles; plans and packed copies are left out."""
        return {**attributes(self), **arrays_of(self)}

    def __copy__(self) -> Any:
        """Return another matrix over the same arrays, as `copy.copy` does for SciPy's classes."""
        copied: Any = object.__new__(type(self))
        copied._restore(self.__getstate__())
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Return another matrix over copies of the arrays."""
        memo[id(self)] = copied = object.__new__(type(self))
        state = {**attributes(self), **{name: self._cell.peek(field) for field, name in enumerate(NAMES)}}
        copied._restore(copy.deepcopy(state, memo))
        copied._cell.copied_bytes = sum(copied._cell.peek(field).nbytes for field in range(3))
        return copied

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._restore(dict(state))
