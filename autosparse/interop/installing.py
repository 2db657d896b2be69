"""`install`: while it is active, SciPy's constructors, conversions and solvers are autosparse's.

All code in SciPy, and in libraries that use it, makes csr and csc objects by calling one of four classes. While
`install` is active, a call of one of these four makes an object of the autosparse class derived from it. `PATCHED`
lists the four. The names of solvers in `scipy.sparse.linalg` then refer to those of `autosparse.linalg`
(`solver_names`). Nothing else is replaced: no name in another module, no other class.

The metaclass redirects the call: ``type(scipy.sparse.csr_array)`` is a class of autosparse while `install` is active,
and SciPy's again afterwards. Objects that exist already, and objects that are unpickled, keep their class.
"""

from __future__ import annotations

import types
from typing import Any, Final

import scipy.sparse as sps

from autosparse import forking
from autosparse.interop import solver_imports
from autosparse.light.matrices import csc_array, csc_matrix, csr_array, csr_matrix

PATCHED: Final[dict[Any, Any]] = {
    sps.csr_array: csr_array,
    sps.csc_array: csc_array,
    sps.csr_matrix: csr_matrix,
    sps.csc_matrix: csc_matrix,
}
"""SciPy's classes, and the classes whose instances their calls return while `install` is active."""

_Metaclass: Final[Any] = type(sps.csr_array)


class _Making(_Metaclass):  # type: ignore[misc]  # SciPy's metaclass is known at run time only
    """Metaclass of the four classes while `install` is active."""

    def __call__(self, *arguments: Any, **how: Any) -> Any:
        return _Metaclass.__call__(PATCHED.get(self, self), *arguments, **how)


def _new(cls: Any, *arguments: Any, **how: Any) -> Any:
    """Make the object of a call; unpickling and copying pass no arguments, and so keep the class."""
    return object.__new__(PATCHED.get(cls, cls) if arguments or how else cls)


def _new_of_scipy(cls: Any, *_: Any, **__: Any) -> Any:
    return object.__new__(cls)


def redirect(metaclass: Any = _Making) -> None:
    """Redirect calls of SciPy's classes to autosparse's, and names of SciPy's solvers to autosparse's.

    Where SciPy's metaclass is `type` itself (before SciPy 1.15), Python refuses another one. The classes then get a
    ``__new__``, which remains after `restore` with the effect of Python's own.
    """
    solver_imports.exchange(is_installed=True)
    for plain in PATCHED:
        try:
            plain.__class__ = metaclass
        except TypeError:
            plain.__new__ = _new


def restore() -> None:
    """Let calls of SciPy's classes make SciPy's objects, and names of SciPy's solvers refer to SciPy's."""
    solver_imports.exchange(is_installed=False)
    for plain in PATCHED:
        if "__new__" in vars(plain):
            plain.__new__ = _new_of_scipy
        if type(plain) is not _Metaclass:
            plain.__class__ = _Metaclass


class Installation:
    """Handle of one call of `install`; leaving it as a context manager undoes that call."""

    _open: Final[set[Installation]] = set()
    _mutex: Final = forking.lock()

    def __init__(self) -> None:
        with self._mutex:
            self._open.add(self)
            redirect()

    def __enter__(self) -> Installation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        with self._mutex:
            self._open.discard(self)
            if not self._open:
                restore()

    @classmethod
    def close_all(cls) -> None:
        """Undo every call of `install` that is still in effect."""
        with cls._mutex:
            cls._open.clear()
            restore()


def install() -> Installation:
    """Let SciPy's constructors and conversions return autosparse's csr and csc matrices, and replace SciPy's solvers.

    The effect lasts in the whole process until `uninstall`, or until the end of the block if used as a context
    manager. Blocks and calls nest. A call such as ``scipy.sparse.csr_array(...)`` shares memory exactly as SciPy's
    does. Other formats stay SciPy's; their conversions to csr and csc give autosparse classes. Objects that exist
    already keep their class. ``scipy.sparse.linalg.cg(A, b)`` calls `autosparse.linalg.cg`; a name imported earlier is
    SciPy's.

    >>> with asp.install():
    ...     A = sps.vstack([sps.eye_array(3), sps.eye_array(3)], format="csr")
    >>> type(A).__module__, type(sps.csr_array(A)).__module__.split(".")[0]
    ('autosparse', 'scipy')
    """
    return Installation()


def uninstall() -> None:
    """Undo every `install`: SciPy's constructors return SciPy's own objects again, and its solvers are its own.

    >>> _ = asp.install()
    >>> asp.uninstall()
    >>> type(sps.csr_array((2, 2))) is sps.csr_array
    True
    """
    Installation.close_all()
