"""Interpret the solvers' arguments as SciPy does: the linear system, tolerances and scalars."""

from __future__ import annotations

import functools
import importlib
import math
import operator
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from autosparse._native import python_objects
from autosparse.light.matrices import Slots
from autosparse.linalg.operators import Product, factor_of, preconditioner_of, product_of
from autosparse.linalg.solves import NotFiniteError, Solve
from autosparse.linalg.solves.workspace import zeros
from autosparse.linalg.sweeps import Dot, Scale, Step, Sweep

Vector = NDArray[Any]
Callback = Callable[[Vector], object]
Scalar = complex  # a Python float; complex for complex systems

_CODES: Final = "fdFD"
FOREIGN_CODES: Final = "gGO"
"""Codes of long double, complex long double and objects."""


class System:
    """The system A x = b with a preconditioner M that approximates the inverse of A, all of one dtype.

    `A` and `M` are the user's objects or their LinearOperators (`M` None: the identity), `x` the initial guess, which
    the solver overwrites and returns, `b` possibly the user's own array. `has_callback`: other code runs between
    iterations.
    """

    __slots__ = ("A", "M", "b", "has_callback", "is_x_zero", "x")

    def __init__(self, A: Any, M: Any, x: Vector, b: Vector, *, is_x_zero: bool) -> None:  # Any: as solvers take them
        self.A, self.M, self.x, self.b, self.is_x_zero, self.has_callback = A, M, x, b, is_x_zero, True

    @property
    def n(self) -> int:
        """Number of unknowns."""
        return self.b.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of all vectors."""
        return self.b.dtype

    def product(self) -> Product:
        """Return a function that writes A x to out."""
        is_unwritten = not self.has_callback and (self.M is None or sps.issparse(factor_of(self.M)))
        return product_of(self.A, self.dtype, is_unwritten=is_unwritten)

    def preconditioner(self) -> Vector | Product | None:
        """Return the application of M (see `preconditioner_of`)."""
        return preconditioner_of(self.M, self.dtype)


@functools.cache
def _relocation() -> Callable[[str], Callable[..., Any]]:
    found: Callable[[str], Callable[..., Any]]
    found = importlib.import_module("autosparse.interop.relocated").scipys  # which few solves need
    return found


def scipys(name: str) -> Callable[..., Any]:
    """Return SciPy's function `name` (see `interop.relocated`)."""
    return _relocation()(name)


def is_ours(others: dict[str, Any], x0: Any) -> bool:  # Any: arguments of any kind
    """Return whether autosparse's solver runs a call: the runtime exists, and no argument is known to SciPy alone."""
    return python_objects.has_runtime and not others and (not isinstance(x0, str) or x0 == "Mb")


@functools.cache
def _common_code(one: str, other: str) -> str:
    """Return the wider of two dtype codes, the dtype of x; a code not in `_CODES` counts as float64."""
    one, other = (code if code in _CODES else "d" for code in (one, other))
    return str(np.result_type(np.dtype(one), np.dtype(other)).char)


def suits_sweeps(system: System, b_norm: float) -> bool:
    """Return whether the sweeps compute what SciPy's solvers would: else SciPy itself runs.

    Sweeps give no RuntimeWarnings for infinities and NaNs in b. They do not cast a complex preconditioner to real, and
    do not iterate on an x of another dtype, as SciPy does after ``x0="Mb"`` with such an M. Products in long double or
    with Python's objects do not fit their vectors.
    """
    M_dtype = system.dtype if system.M is None else np.dtype(system.M.dtype)
    if system.A.dtype.char in FOREIGN_CODES or M_dtype.char in FOREIGN_CODES:
        return False
    is_cast = M_dtype.kind == "c" and system.dtype.kind != "c"
    return not is_cast and system.x.dtype == system.dtype and math.isfinite(b_norm)


def make_system(A: Any, M: Any, x0: Any, b: Any) -> System:  # Any: whatever SciPy's solvers take
    """Check the arguments of a solver and convert them to one dtype, as SciPy's `make_system` does.

    The dtype is the common one of A and b; integers, and floats wider than float64, count as float64. ValueError is
    raised if A is not square, b or x0 do not have shape (n,) or (n, 1), or M does not have the shape of A.
    """
    given = A
    # making the operator of an autosparse array would take 3 µs and add nothing
    if not isinstance(A, Slots):
        A = aslinearoperator(A)
    if len(A.shape) > 2:
        raise ValueError(f"{len(A.shape)}-dimensional `A` is unsupported, expected 2-D.")
    if A.shape[0] != A.shape[1]:
        raise ValueError(f"expected square matrix, but got shape={(A.shape,)}")
    n = A.shape[0]
    b = np.asanyarray(b)
    if b.shape not in ((n, 1), (n,)):
        raise ValueError(f"shapes of A {A.shape} and b {b.shape} are incompatible")
    if b.dtype.char not in _CODES:
        b = b.astype("d")
    a_dtype = A.dtype if hasattr(A, "dtype") else A.matvec(b).dtype
    code = _common_code(a_dtype.char, b.dtype.char)
    b = np.asarray(b, dtype=code).ravel()
    if not b.flags.aligned:
        b = b.copy()
    if M is None:
        M = _own_preconditioner(given, A)
    else:
        operator = aslinearoperator(M)
        if operator.shape != A.shape:
            raise ValueError("matrix and preconditioner have different shapes")
    x = _initial_guess(x0, b, M, A.shape)
    return System(A, M, x, b, is_x_zero=x0 is None or not x.any())


def _own_preconditioner(given: Any, A: Any) -> Any:  # Any: an object with any attributes, operators
    """Return the preconditioner given by the matrix's own methods `psolve` and `rpsolve`, or None."""
    if not (hasattr(given, "psolve") or hasattr(given, "rpsolve")):
        return None
    psolve, rpsolve = (getattr(given, name, lambda x: x) for name in ("psolve", "rpsolve"))
    return LinearOperator(A.shape, matvec=psolve, rmatvec=rpsolve, dtype=A.dtype)


def _initial_guess(x0: Any, b: Vector, M: Any, shape: tuple[int, int]) -> Vector:
    if x0 is None:
        return zeros(b.size, b.dtype)
    if isinstance(x0, str):  # "Mb"
        x = b.copy() if M is None else aslinearoperator(M).matvec(b.copy())
        return np.ascontiguousarray(x)
    x = np.array(x0, dtype=b.dtype)
    if x.shape not in ((shape[0], 1), (shape[0],)):
        raise ValueError(f"shapes of A {shape} and x0 {x.shape} are incompatible")
    return x.ravel()


def tolerance(name: str, b_norm: float, *, atol: Any, rtol: float) -> float:  # refused unless a number
    """Return max(atol, rtol |b|), the residual norm below which a solve ends; raise ValueError as SciPy does."""
    if atol == "legacy" or atol is None or atol < 0:
        raise ValueError(
            f"'scipy.sparse.linalg.{name}' called with invalid `atol`={atol}; "
            "if set, `atol` must be a real, non-negative number."
        )
    return max(float(atol), float(rtol) * b_norm)


def norm(v: Vector) -> float:
    """Return the 2-norm of v; 0 if its square is 0 in the dtype of v."""
    if v.size <= _SHORT:
        return math.sqrt(np.vdot(v, v).real)
    return root(Sweep([Dot(v, v)])()[0], v.dtype)


def root(square: Scalar, dtype: np.dtype[Any]) -> float:
    """Return the square root of a sum of squares; 0 if the sum rounds to 0 in `dtype`."""
    real = square.real
    if dtype.char in "fF" and real < _MIN_SQUARE:
        return 0.0
    return math.sqrt(real)


_SHORT: Final = 4096
"""Maximum number of elements for which BLAS computes a dot product, on one thread."""
_MIN_SQUARE: Final = 2.0**-150
"""Sum of squares below which float32 rounds to 0: half of its smallest number."""


def divided(dividend: Scalar, divisor: Scalar) -> Scalar:
    """Return dividend / divisor; division by zero, and a NaN, give the results and the RuntimeWarnings of NumPy."""
    try:
        quotient: Scalar = dividend / divisor
    except ZeroDivisionError:
        quotient = math.nan
    if math.isnan(quotient.real) or math.isnan(quotient.imag):
        quotient = (np.asarray(dividend)[()] / np.asarray(divisor)[()]).item()
    return quotient


class Preconditioning:
    """Application z = M v inside a solver: nothing for the identity, a sweep's step for a diagonal, else a product."""

    __slots__ = ("_diagonal", "_product")

    def __init__(self, system: System) -> None:
        M = system.preconditioner()
        self._diagonal: Vector | None = M if isinstance(M, np.ndarray) else None
        self._product: Product | None = None if M is None or isinstance(M, np.ndarray) else M

    @property
    def n_vectors(self) -> int:
        """Number of extra vectors for M v: 0 for the identity, else 1."""
        return int(self._diagonal is not None or self._product is not None)

    @property
    def is_product(self) -> bool:
        """Return whether M v comes from `apply`, which needs the complete v."""
        return self._product is not None

    def steps(self, v: Vector, z: Vector) -> tuple[Step, ...]:
        """Return the steps that write z = M v in the sweep that writes v; empty unless M is a diagonal."""
        return () if self._diagonal is None else (Scale(z, self._diagonal, v),)

    def apply(self, v: Vector, z: Vector) -> None:
        """Write z = M v if M is a product; otherwise z is already complete."""
        if self._product is not None:
            self._product(v, z)


def residual(system: System, product: Product, r: Vector) -> None:
    """Write r = b - A x."""
    if system.is_x_zero:
        r[...] = system.b
        return
    product(system.x, r)
    np.subtract(system.b, r, out=r)


Method = Callable[[System, Solve, float, int, Callback | None], tuple[Vector, int]]
"""Solver loop: (system, solve, residual norm that ends it, maximum iterations, callback) -> x and SciPy's info."""


def solved(
    name: str, method: Method, A: Any, b: Any, x0: Any, *,
    rtol: float, atol: float, maxiter: int | None, factors: dict[str, Any], callback: Callback | None,
    others: dict[str, Any], progress: bool = False,
) -> tuple[Vector, int]:  # fmt: skip  # Any: whatever SciPy's solvers take
    """Solve A x = b by `method`, or by SciPy's function `name` if `is_ours` or `suits_sweeps` is false, or after a NaN.

    `factors`: the preconditioners by the names of their arguments, of which `method` is given M.
    If b is 0, b itself and 0 are returned, as in SciPy. Exceptions are those of `make_system` and `tolerance`.
    """
    system = make_system(A, factors.get("M"), x0, b) if is_ours(others, x0) else None
    b_norm = 0.0 if system is None else norm(system.b)
    if system is not None and suits_sweeps(system, b_norm):
        limit = tolerance(name, b_norm, atol=atol, rtol=rtol)
        if b_norm == 0:
            return system.b, 0
        most = system.n * 10 if maxiter is None else operator.index(maxiter)
        system.has_callback = callback is not None
        asked = Solve(name, A, target=limit, limit=most, progress=progress, is_strict=callback is None)
        with suppress(NotFiniteError), asked as solve:
            x, info = solve.answer(method(system, solve, limit, most, callback), system.b)
            return x, info if info != most or maxiter is None else maxiter  # the object, as in SciPy
    how = {"rtol": rtol, "atol": atol, "maxiter": maxiter, "callback": callback}
    found: tuple[Vector, int] = scipys(name)(A, b, x0, **how, **factors, **others)
    return found


Solver = TypeVar("Solver", bound=Callable[..., Any])


def takes_columns(solver: Solver) -> Solver:
    """Add the keyword `columns` to a solver; True solves for each column of b (n, k) by `columns.solve`."""

    @functools.wraps(solver)
    def call(A: Any, b: Any, *guess: Any, columns: bool = False, **how: Any) -> Any:
        if not columns:
            return solver(A, b, *guess, **how)
        module = importlib.import_module("autosparse.linalg.columns")  # which few solves need, and which imports this
        return module.solve(solver.__name__, A, b, guess[0] if guess else how.pop("x0", None), **how)

    return call  # type: ignore[return-value]
