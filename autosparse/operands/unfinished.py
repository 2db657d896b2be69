"""Operand of a matrix that was made without a constructor; it reads the matrix's shape when that is first needed."""

from __future__ import annotations

import weakref
from typing import Any, Final

from autosparse.operands.csr import Operand
from autosparse.operands.watched import WatchedArrays

_N_MAJOR: Final[Any] = WatchedArrays.__dict__["n_major"]
_N_MINOR: Final[Any] = WatchedArrays.__dict__["n_minor"]


class UnfinishedOperand(Operand):
    """Operand of a matrix that no constructor filled in; it takes the matrix's shape when that is first needed.

    ``cls.__new__(cls)`` with assignments to the attributes makes such a matrix, and so do subclasses whose ``__init__``
    does not call SciPy's. After that the object's class becomes `Operand`: both classes have the same layout.
    """

    __slots__ = ()

    def __init__(self, owner: Any) -> None:  # Any: a matrix, of a higher layer
        super().__init__()
        self._pattern = weakref.ref(owner)  # type: ignore[assignment]  # the slot is free until the shape is known

    def _finished(self) -> Operand:
        """Return this operand, as an `Operand`, with the shape of its matrix."""
        owner: Any = self._pattern and self._pattern()  # type: ignore[operator]
        self.__class__ = Operand  # type: ignore[assignment]
        self._pattern = None
        if owner is not None:
            owner._finish()
        return self

    @property
    def n_major(self) -> int:
        """Number of compressed rows."""
        return self._finished().n_major

    @n_major.setter
    def n_major(self, n: int) -> None:
        _N_MAJOR.__set__(self, n)

    @property
    def n_minor(self) -> int:
        """Extent of the indices."""
        return self._finished().n_minor

    @n_minor.setter
    def n_minor(self, n: int) -> None:
        _N_MINOR.__set__(self, n)
