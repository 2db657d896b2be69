"""First solves of small matrices by SciPy's functions, while loading autosparse's own takes longer than they do.

The modules of autosparse's solvers (3 ms) need no other part of the library: light matrices stay light.
"""

from __future__ import annotations

import importlib
import inspect
import math
import types
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from scipy.sparse.linalg import LinearOperator

from autosparse import light

MAX_ENTRIES: Final = 1 << 14
"""Maximum number of entries of a matrix that SciPy's functions solve with: 20 to 40 us an iteration.

Loading autosparse's solver takes as long as 100 iterations. A larger value delays what long first solves save.
"""
MAX_SERIES: Final = 1 << 23
"""Maximum number of multiplications that SciPy's expm_multiply is expected to take for a larger matrix: 8 ms. Loading
autosparse's takes half of that, and its series a third."""
SERIES_TERMS: Final = 3
"""Expected products of the series by the mean of the columns' sums of absolute values."""
OWN_NS: Final = 2_000_000
"""Total time in ns of solves by SciPy's functions after which autosparse's solvers are loaded (3 ms)."""
MAX_ROWS: Final = 1 << 12
"""Maximum number of rows of a LinearOperator: its products take as long in autosparse's solvers as in SciPy's."""
MAX_BLOCK: Final = 1 << 14
"""Maximum number of elements of lobpcg's X, for which the loaded library calls SciPy's, too (`block_eigenvalues`)."""
PATIENCE_NS: Final = 4_000_000
"""Time in ns after which SciPy's gmres is stopped, whose iterations take three times as long as autosparse's."""
LOOK_NS: Final = 1_500_000
"""Time in ns after which gmres is stopped if, at its rate of convergence, it will take longer than `PATIENCE_NS`."""
_RTOL: Final = 1e-5  # SciPy's default
_SYSTEMS: Final = frozenset({"bicgstab", "cg", "cgs", "gmres", "minres", "qmr"})
_FITS: Final = frozenset({"lsmr", "lsqr"})
_EIGENVALUES: Final = frozenset({"eigs", "eigsh", "svds"})
_by_scipy_ns = 0  # time of solves by SciPy's functions
_OTHERS: Final = frozenset({"expm_multiply", "lobpcg", "spsolve_triangular"})
NAMES: Final = _SYSTEMS | _FITS | _EIGENVALUES | _OTHERS
"""Names of the functions with a `LightSolver`. For arguments that `_suits` accepts, only SciPy's lobpcg warns."""
_KEYWORDS: Final = frozenset({
    "B", "M", "M1", "M2", "Y", "atol", "btol", "callback", "conlim", "damp", "iter_lim", "k", "largest", "lower",
    "maxiter", "ncv", "restart", "restartControl", "return_eigenvectors", "return_singular_vectors", "rtol", "tol",
    "unit_diagonal", "v0", "which", "x0",
})  # fmt: skip
_OWN: Final = _SYSTEMS | _FITS | {"expm_multiply"}  # of which light matrices have own ones
_OF_MATRICES: Final = frozenset({"expm_multiply", "spsolve_triangular"})  # SciPy's warns of operators
_FEWEST_LEFT: Final = 3  # eigenvalues that must not be asked for: SciPy warns, and uses a dense matrix


class _TooLongError(BaseException):
    """Exception that stops SciPy's gmres; handlers of `Exception` do not catch it."""


class LightSolver:
    """Function of `autosparse.linalg` whose first small solves are those of SciPy's function, `__wrapped__`.

    Other calls, the docstring and the signature are those of the function that `load` imports.
    """

    def __init__(self, name: str, theirs: Callable[..., Any], load: Callable[[], Callable[..., Any]]) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = "autosparse.linalg"
        self.__wrapped__, self._load = theirs, load
        self._own: Callable[..., Any] | None = None  # autosparse's function, once it is the only one

    __doc__ = property(lambda self: self._load().__doc__)
    __signature__ = property(lambda self: inspect.signature(self._load()))

    def __call__(self, *args: Any, **how: Any) -> Any:
        """Solve by SciPy's function if these are the arguments of a small first solve, else by autosparse's."""
        global _by_scipy_ns
        if self._own is not None:
            return self._own(*args, **how)
        if not _suits(self.__name__, args, how):
            own = self._load()
            self._own = own if light.is_complete else None
            return own(*args, **how)
        spent_ns, start_ns = light._spent_ns, perf_counter_ns()
        try:
            if self.__name__ == "gmres":
                watch = _watch(start_ns, how.get("rtol"))
                return self.__wrapped__(*args, **how, callback=watch, callback_type="pr_norm")
            return _warning_at_caller(self.__name__, self.__wrapped__)(*args, **how)
        except _TooLongError:
            pass
        finally:
            light._spent_ns = spent_ns  # without products inside
            light.count(start_ns, share=1)
            _by_scipy_ns += perf_counter_ns() - start_ns
        return self._load()(*args, **how)

    def __get__(self, made: Any, owner: type | None = None) -> Any:  # as functions, so that help() shows it as one
        return self if made is None else types.MethodType(self, made)

    def __repr__(self) -> str:
        return f"<function {self.__name__}>"

    def __reduce__(self) -> str:  # pickled by name, as functions are
        return self.__name__


def _warning_at_caller(name: str, theirs: Callable[..., Any]) -> Callable[..., Any]:
    """Return SciPy's function `theirs`; for lobpcg one whose warnings pass over the frame of `LightSolver`."""
    if name != "lobpcg":
        return theirs
    found: Callable[..., Any] = importlib.import_module("autosparse.interop.relocated").scipys(name)
    return found


def _watch(start_ns: int, rtol: Any) -> Callable[[float], None]:
    """Return a callback that raises an error where gmres takes too long, judged by its relative residuals."""
    wanted = math.log(rtol if type(rtol) is float and 0.0 < rtol < 1.0 else _RTOL)

    def after_iteration(residual: float) -> None:
        spent_ns = perf_counter_ns() - start_ns
        is_slow = spent_ns > LOOK_NS and not residual < math.exp(wanted * spent_ns / PATIENCE_NS)
        if spent_ns > PATIENCE_NS or is_slow:
            raise _TooLongError

    return after_iteration


def _suits(name: str, args: tuple[Any, ...], how: dict[str, Any]) -> bool:
    """Return whether SciPy's function takes the arguments of a small solve without a warning."""
    if _by_scipy_ns >= OWN_NS and name in _OWN:
        return False
    A: Any = args[0] if args else None
    if not (light.may_be_light() and how.keys() <= _KEYWORDS):
        return False
    if not (_is_small(A) or (name == "expm_multiply" and _has_short_series(A))) or A.dtype.char not in "fdFD":
        return False
    is_square = A.shape[0] == A.shape[1]
    if not is_square and name not in _FITS and name != "svds":
        return False
    if name in _OF_MATRICES and isinstance(A, LinearOperator):
        return False
    if name in _EIGENVALUES:
        return len(args) <= 2 and _is_few(A, args, how)
    b = args[1] if len(args) == 2 else None
    if type(b) is not np.ndarray or b.dtype.char not in "fdFD" or b.shape[:1] != A.shape[:1]:
        return False
    if name == "lobpcg":
        return b.ndim == 2 and b.size < MAX_BLOCK
    if name == "gmres" and not (_is_repeatable(A) and _is_repeatable(how.get("M")) and "callback" not in how):
        return False
    return b.ndim == 1 and (name != "spsolve_triangular" or A.format == "csr")  # SciPy 1.13 warns of others


def _is_small(A: Any) -> bool:
    """Return whether A is a light matrix or one of SciPy's objects, and so small that SciPy's functions solve fast."""
    rows = light.rows_of(A)
    if rows is not None:
        is_sound = rows.arrays[1].size <= MAX_ENTRIES and rows.sound() is not None
        return A._twin._twin is type(A) and is_sound
    if isinstance(A, LinearOperator):
        return getattr(A, "dtype", None) is not None and max(A.shape) <= MAX_ROWS
    is_scipys = sps.issparse(A) and type(A).__module__.startswith("scipy.") and A.ndim == 2
    return bool(is_scipys and A.nnz <= MAX_ENTRIES and light.is_sound_matrix(A))


def _has_short_series(A: Any) -> bool:
    """Return whether A is a light matrix whose exponential is expected to take at most `MAX_SERIES` multiplications."""
    rows = light.rows_of(A)
    if rows is None or A._twin._twin is not type(A) or (found := rows.sound()) is None:
        return False
    norm = float(np.abs(found[1]).sum()) / max(1, rows.n_major)
    return bool(found[1].size * (1 + SERIES_TERMS * norm) <= MAX_SERIES)


def _is_repeatable(A: Any) -> bool:
    """Return whether products with A call no code of the program, which may count its calls."""
    return A is None or light.rows_of(A) is not None or (sps.issparse(A) and type(A).__module__.startswith("scipy."))


def _is_few(A: Any, args: tuple[Any, ...], how: dict[str, Any]) -> bool:
    """Return whether so few eigenvalues or singular values are asked for that SciPy uses ARPACK."""
    k = args[1] if len(args) == 2 else how.get("k", 6)
    return type(k) is int and 0 < k <= min(A.shape) - _FEWEST_LEFT
