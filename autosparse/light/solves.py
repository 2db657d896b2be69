"""First solves of small light matrices by SciPy's functions, while loading the library takes longer than they do."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Final

import numpy as np

from autosparse import light

MAX_ENTRIES: Final = 1 << 14
"""Maximum number of entries of a matrix that SciPy's functions solve with: 20 to 40 us an iteration.

Loading the library takes as long as 300 iterations. A larger value delays what long first solves save.
"""
_SYSTEMS: Final = frozenset({"bicgstab", "cg", "cgs", "minres"})
_FITS: Final = frozenset({"lsmr", "lsqr"})
_EIGENVALUES: Final = frozenset({"eigs", "eigsh", "svds"})
_OTHERS: Final = frozenset({"expm_multiply", "spsolve_triangular"})
NAMES: Final = _SYSTEMS | _FITS | _EIGENVALUES | _OTHERS
"""Functions of SciPy that warn neither of small matrices nor at the line of their caller.

`gmres` is none of them: its iterations take so long that a system with 4,300 entries (28 ms) pays for the library.
"""
_KEYWORDS: Final = frozenset({
    "atol", "btol", "conlim", "damp", "iter_lim", "k", "lower", "maxiter", "ncv", "return_eigenvectors",
    "return_singular_vectors", "rtol", "unit_diagonal", "v0", "which", "x0",
})  # fmt: skip
_FEWEST_LEFT: Final = 3  # eigenvalues that must not be asked for: SciPy warns, and uses a dense matrix


class LightSolver:
    """Function of `autosparse.linalg` whose first small solves are those of SciPy's function, `__wrapped__`.

    Other calls, the docstring and the signature are those of the function that `load` imports.
    """

    def __init__(self, name: str, theirs: Callable[..., Any], load: Callable[[], Callable[..., Any]]) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = "autosparse.linalg"
        self.__wrapped__, self._load = theirs, load

    __doc__ = property(lambda self: self._load().__doc__)
    __signature__ = property(lambda self: inspect.signature(self._load()))

    def __call__(self, *args: Any, **how: Any) -> Any:
        """Solve by SciPy's function if these are the arguments of a small first solve, else by the library's."""
        if not _suits(self.__name__, args, how):
            return self._load()(*args, **how)
        spent_ns, start_ns = light._spent_ns, perf_counter_ns()
        try:
            return self.__wrapped__(*args, **how)
        finally:
            light._spent_ns = spent_ns  # without products inside
            light.count(start_ns, share=1)

    def __get__(self, made: Any, owner: type | None = None) -> Any:  # as functions, so that help() shows it as one
        return self if made is None else types.MethodType(self, made)

    def __repr__(self) -> str:
        return f"<function {self.__name__}>"

    def __reduce__(self) -> str:  # pickled by name, as functions are
        return self.__name__


def _suits(name: str, args: tuple[Any, ...], how: dict[str, Any]) -> bool:
    """Return whether SciPy's function takes the arguments of a solve with a small light matrix without a warning."""
    rows = light.rows_of(args[0]) if args else None
    if rows is None or not light.may_be_light() or not how.keys() <= _KEYWORDS:
        return False
    A = args[0]
    is_square, is_final = A._shape[0] == A._shape[1], A._twin._twin is type(A)
    if not is_final or rows.arrays[1].size > MAX_ENTRIES or rows.sound() is None or A.dtype.char not in "fdFD":
        return False
    if not is_square and name not in _FITS and name != "svds":
        return False
    if name in _EIGENVALUES:
        return len(args) <= 2 and _is_few(A, args, how)
    b = args[1] if len(args) == 2 else None
    is_plain = type(b) is np.ndarray and b.shape == A._shape[:1] and b.dtype.char in "fdFD"
    return is_plain and (name != "spsolve_triangular" or A.format == "csr")  # SciPy 1.13 warns of others


def _is_few(A: Any, args: tuple[Any, ...], how: dict[str, Any]) -> bool:
    """Return whether so few eigenvalues or singular values are asked for that SciPy uses ARPACK."""
    k = args[1] if len(args) == 2 else how.get("k", 6)
    return type(k) is int and 0 < k <= min(A._shape) - _FEWEST_LEFT
