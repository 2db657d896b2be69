"""`minres`: the minimal residual method for symmetric systems."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from autosparse._native import python_objects
from autosparse.core.dtypes import Real
from autosparse.light import VERSION_OF_SCIPY
from autosparse.linalg.arguments import (
    FOREIGN_CODES,
    Callback,
    Preconditioning,
    System,
    Vector,
    divided,
    is_ours,
    make_system,
    norm,
    residual,
    scipys,
    suits_sweeps,
    takes_columns,
)
from autosparse.linalg.operators import ProductSweep, factor_of
from autosparse.linalg.solves import CRITERION, NotFiniteError, Solve
from autosparse.linalg.sweeps import Combine, Dot, Sweep


@takes_columns
def minres(
    A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, shift: float = 0.0, maxiter: int | None = None,
    M: Any = None, callback: Callback | None = None, show: bool = False, check: bool = False,
    progress: bool = False, **others: Any,
) -> tuple[Vector, int]:  # fmt: skip  # Any: whatever SciPy's solvers take
    """Solve (A - shift I) x = b for a real symmetric A, which may be indefinite or singular: min |b - (A - shift I) x|.

    Parameters
    ----------
    A
        autosparse array, sparse or dense array, or LinearOperator, of shape (n, n).
    b
        Right-hand side of shape (n,) or (n, 1).
    x0
        Initial guess of shape (n,) or (n, 1); None: zero; ``"Mb"``: M b.
    rtol
        The solve ends if |r| <= rtol |A| |x| or |A r| <= rtol |A| |r|, by estimates of the recurrence.
    maxiter
        Maximum number of iterations; None: 5 n.
    M
        Preconditioner, symmetric and positive definite. A diagonal DIA matrix needs no extra pass.
    callback
        Called with x after each iteration; each x is an array of its own.
    show
        Print a line for each iteration; SciPy's function then runs the solve.
    check
        Raise ValueError unless A and M are symmetric, by a sample.
    progress
        Show the criterion and the expected end on stderr, if it is a terminal and the solve takes more than 0.5 s.
    columns
        True: `b` has shape (n, k) and each column is a system of its own; the products with A are shared. x has shape
        (n, k), `info` (k,), and `x0` the shape of b. `callback` is not accepted.

    Returns
    -------
    x of shape (n,), in the common dtype of A and b, and `info`: 0, or `maxiter` if x has not converged.

    Raises
    ------
    ValueError if shapes are invalid, or if A or M is found not to be symmetric or M not to be positive definite;
    TypeError if A is not an operator. Complex systems and unknown arguments are passed to SciPy's function.

    The recurrence is that of `scipy.sparse.linalg.minres` (Paige and Saunders, 1975).

    >>> A = asp.csr([[0.0, 1.0], [1.0, 0.0]])
    >>> x, info = asp.linalg.minres(A, np.array([2.0, 1.0]))
    >>> info, np.round(x, 6)
    (0, array([1., 2.]))
    """
    system = make_system(A, M, x0, b) if is_ours(others, x0) and not show else None
    b_norm = 0.0 if system is None else norm(system.b)
    is_given_real = isinstance(shift, (int, float, np.floating, np.integer))
    is_given_real = is_given_real and np.asarray(shift).dtype.char not in FOREIGN_CODES
    is_real = system is not None and system.dtype.kind != "c" and is_given_real
    dtype = _dtype_of_steps(system, shift) if system is not None and is_real else None
    if system is not None and dtype is not None and suits_sweeps(system, b_norm):
        most, system.has_callback = 5 * system.n if maxiter is None else maxiter, callback is not None
        how: dict[str, Any] = {"quantity": CRITERION, "progress": progress, "is_strict": callback is None}
        with suppress(NotFiniteError), Solve("minres", A, target=rtol, limit=most, **how) as solve:
            lanczos = _Lanczos(system, solve, float(shift))
            squared = lanczos.begin()
            if squared < 0:
                raise ValueError("indefinite preconditioner")
            if squared == 0:
                return system.x, 0
            if b_norm == 0:
                return system.b, 0
            if check:
                lanczos.check()
            scalars = _Scalars(math.sqrt(squared), system.dtype, rtol, most)
            return solve.answer(_iterate(lanczos, scalars, solve, callback, dtype), system.b)
    how = {"rtol": rtol, "shift": shift, "maxiter": maxiter, "M": M, "callback": callback, "show": show}
    found: tuple[Vector, int] = scipys("minres")(A, b, x0, **how, check=check, **others)
    return found


def _iterate(
    lanczos: _Lanczos, scalars: _Scalars, solve: Solve, callback: Callback | None, dtype: np.dtype[Any]
) -> tuple[Vector, int]:
    is_begun, x = False, lanczos.x
    while scalars.n_steps < scalars.maxiter:
        scale = 1.0 / scalars.beta  # ZeroDivisionError, as in SciPy, if the Krylov space is exhausted
        if not is_begun:
            lanczos.scale(scale)
        elif callback is None and lanczos.is_native:
            n, best = lanczos.advance(scalars, solve.n_until_report - 1)
            solve.pass_steps(n, best)
            if scalars.reason:
                break
            if n:
                continue
        is_begun = True
        alpha = lanczos.multiply(scalars.beta / scalars.beta_before if scalars.n_steps else 0.0)
        squared = lanczos.orthogonalize(alpha / scalars.beta)
        if squared < 0:
            raise ValueError("non-symmetric matrix")
        weights = scalars.rotate(alpha, math.sqrt(squared))
        if callback is not None and scalars.n_steps > 1:
            lanczos.renew_x()
        scalars.judge(lanczos.update(*weights, 1.0 / scalars.beta if scalars.beta else 0.0))
        solve.step(scalars.criterion)
        x = lanczos.x
        if callback is not None:
            callback(x.astype(dtype, copy=False))
        if scalars.reason:
            break
    return x.astype(dtype, copy=False) if is_begun else x, scalars.maxiter if scalars.reason == _LIMIT else 0


def _dtype_of_steps(system: System, shift: Any) -> np.dtype[Any] | None:  # Any: a number of Python or NumPy
    """Return the dtype of SciPy's x after a step, or None: with float32, functions may return vectors of any dtype.

    Before SciPy 1.18, its scalars turn float32 into float64 with NumPy 2. Since then, M and a scalar of NumPy do.
    """
    if VERSION_OF_SCIPY < (1, 18):
        dtype: np.dtype[Any] = (Real(1) * system.x[:0]).dtype
        return dtype
    given = [one for one in (factor_of(system.A), factor_of(system.M)) if isinstance(one, LinearOperator)]
    if system.dtype.char == "f" and any(not type(one).__module__.startswith("autosparse") for one in given):
        return None
    return np.result_type(system.dtype if system.M is None else system.M.dtype, system.x, shift)


class _Lanczos:
    """Vectors and sweeps: Lanczos vectors v = y / beta, residuals r1 and r2, y = M r2, directions w."""

    def __init__(self, system: System, solve: Solve, shift: float) -> None:
        self._M = M = Preconditioning(system)
        r1, r2, new, w, w2, v, *y = solve.workspace(system.n, system.dtype, 6 + M.n_vectors)
        self._product, self._shift, self.x, self.v = system.product(), shift, system.x, v
        residual(system, self._product, r2)
        w[...] = w2[...] = 0
        self._y: Vector | None = y[0] if y else None
        r1[...] = 0
        self._r, self._w = (r1, r2, new), (w, w2)
        z = r2 if self._y is None else self._y
        self._begin = Sweep([*M.steps(r2, z), Dot(r2, z)]) if not M.is_product else None
        self._applied = Sweep([Dot(r2, z)]) if M.is_product else None
        self._scale = Sweep([Combine(v, (z,))])
        # new = A v - shift v - .. r1
        self._multiply = ProductSweep(self._product, [Combine(new, (new, v, r1)), Dot(v, new)])
        z = new if self._y is None else self._y
        squares = [] if M.is_product else [*M.steps(new, z), Dot(new, z)]
        self._orthogonalize = Sweep([Combine(new, (new, r2)), *squares])
        # the new w overwrites the oldest one; then v is the next step's
        x = self.x
        self._update = Sweep([Combine(w2, (v, w2, w)), Combine(x, (x, w2)), Dot(x, x), Combine(v, (z,))])
        is_apt = self._multiply.is_fused and not M.is_product
        self._advance = python_objects.advance_minres if is_apt else None

    def _inner(self, r: Vector) -> float:
        """Return the dot product of r with y = M r, for an M that is a product."""
        assert self._applied is not None
        assert self._y is not None
        self._M.apply(r, self._y)
        self._applied.bind(0, r)
        return float(self._applied()[0])

    @property
    def is_native(self) -> bool:
        """Return whether `advance` may run iterations."""
        return self._advance is not None

    def advance(self, scalars: _Scalars, n_most: int) -> tuple[int, float]:
        """Run up to `n_most` iterations in the extension module; return their number and the least criterion."""
        r1, r2, new = self._r
        calls = [self._multiply.fast_call(self.v, out) for out in (new, r1, r2)]
        if n_most < 1 or None in calls or self._advance is None:
            return 0, math.inf
        sweeps = self._multiply.run, self._orthogonalize.run, self._update.run
        constants = *scalars.constants, self._shift
        counts = n_most, scalars.n_steps, scalars.maxiter, self._y is not None
        given = tuple(calls), sweeps, (*self._r, *self._w), scalars.numbers, constants, counts
        n, scalars.reason, best, numbers = self._advance(*given)
        scalars.renew(numbers, n)
        for _ in range(n % 6):  # the vectors take turns
            r1, r2, new = self._r
            self._r, self._w = (r2, new, r1), self._w[::-1]
        return n, best

    def begin(self) -> float:
        """Return the dot product of the first residual with y."""
        return self._inner(self._r[1]) if self._begin is None else float(self._begin()[0])

    def check(self) -> None:
        """Raise ValueError unless A and M pass SciPy's symmetry check."""
        y = self._r[1] if self._y is None else self._y
        w, r2 = (np.empty_like(y) for _ in range(2))
        self._product(y, w)
        self._product(w, r2)
        _check_equal(w, w, y, r2, "non-symmetric matrix")
        r2[...] = y
        for step in self._M.steps(y, r2):
            Sweep([step])()
        self._M.apply(y, r2)
        _check_equal(y, y, self._r[1], r2, "non-symmetric preconditioner")

    def scale(self, factor: float) -> None:
        """Write v = factor y, for the first step."""
        self._scale(factor)

    def multiply(self, back: float) -> float:
        """Write new = A v - shift v - back r1; return its dot product with v."""
        r1, _, new = self._r
        self._multiply.bind(0, new)
        self._multiply.bind(2, r1)
        return float(self._multiply(self.v, new, 1.0, -self._shift, -back)[0])

    def orthogonalize(self, coefficient: float) -> float:
        """Subtract coefficient r2 from new, let r1, r2 = r2, new, and return the dot product of r2 with y = M r2."""
        r1, r2, new = self._r
        self._orthogonalize.bind(0, new)
        self._orthogonalize.bind(1, r2)
        squares = self._orthogonalize(1.0, -coefficient)
        self._r = (r2, new, r1)
        return self._inner(new) if self._M.is_product else float(squares[0])

    def renew_x(self) -> None:
        """Copy x to a new array, because the callback may have kept the old one."""
        self.x = self.x.copy()
        self._update.bind(3, self.x)

    def update(self, weights: tuple[float, float, float], phi: float, scale: float) -> float:
        """Compute the new direction w from (v, w before last, last w), x += phi w, and v = scale y; return |x|^2."""
        w, w2 = self._w
        self._update.bind(0, w2)
        self._update.bind(2, w)
        if self._y is None:
            self._update.bind(4, self._r[1])
        self._w = (w2, w)
        return float(self._update(*weights, 1.0, phi, scale)[0])


def _check_equal(a: Vector, b: Vector, c: Vector, d: Vector, message: str) -> None:
    """Raise ValueError(message) if the dot product of a and b differs from that of c and d by more than eps^(1/3)."""
    s, t = Sweep([Dot(a, b), Dot(c, d)])()
    eps = float(np.finfo(a.dtype).eps)
    if abs(s - t) > (s + eps) * eps ** (1.0 / 3.0):
        raise ValueError(message)


_LIMIT = 6  # SciPy's istop when the iteration limit is reached


class _Scalars:
    """Scalars of the recurrence, under SciPy's names where it has them: rotations, norm estimates, stopping tests."""

    def __init__(self, beta: float, dtype: np.dtype[Any], rtol: float, maxiter: int) -> None:
        info = np.finfo(dtype)
        self._eps, self._gmin, self._gmax = float(info.eps), float(info.max), 0.0
        self.beta, self.beta_before, self._beta1, self._phibar = beta, 0.0, beta, beta
        self._cs, self._sn, self._dbar, self._epsln, self._tnorm2 = -1.0, 0.0, 0.0, 0.0, 0.0
        self._gbar = self._gamma = self._root = 0.0
        self.rtol, self.maxiter, self.n_steps, self.reason = rtol, maxiter, 0, 0
        self.criterion = math.inf  # the solve ends when it is at most rtol

    @property
    def numbers(self) -> tuple[float, ...]:
        """The scalars that iterations change, in the order in which the extension module takes them."""
        return (
            self.beta, self.beta_before, self._phibar, self._cs, self._sn, self._dbar, self._epsln, self._tnorm2,
            self._gbar, self._gamma, self._root, self._gmax, self._gmin, self.criterion,
        )  # fmt: skip

    @property
    def constants(self) -> tuple[float, float, float]:
        """The first beta, the machine epsilon, and the tolerance."""
        return self._beta1, self._eps, self.rtol

    def renew(self, numbers: tuple[float, ...], n: int) -> None:
        """Take over `numbers` after `n` iterations."""
        self.n_steps += n
        (
            self.beta, self.beta_before, self._phibar, self._cs, self._sn, self._dbar, self._epsln, self._tnorm2,
            self._gbar, self._gamma, self._root, self._gmax, self._gmin, self.criterion,
        ) = numbers  # fmt: skip

    def rotate(self, alpha: float, beta: float) -> tuple[tuple[float, float, float], float]:
        """Apply the last plane rotation and compute the next; return the weights of the new w and the step of x."""
        self.n_steps += 1
        self.beta_before, self.beta = self.beta, beta
        self._tnorm2 += alpha * alpha + self.beta_before * self.beta_before + beta * beta
        if self.n_steps == 1 and beta / self._beta1 <= 10 * self._eps:
            self.reason = -1  # b and x are eigenvectors
        epsln_before, delta = self._epsln, self._cs * self._dbar + self._sn * alpha
        self._gbar = self._sn * self._dbar - self._cs * alpha
        self._epsln, self._dbar = self._sn * beta, -self._cs * beta
        self._root = math.sqrt(self._gbar * self._gbar + self._dbar * self._dbar)
        self._gamma = max(math.sqrt(self._gbar * self._gbar + beta * beta), self._eps)
        self._cs, self._sn = self._gbar / self._gamma, beta / self._gamma
        phi, self._phibar = self._cs * self._phibar, self._sn * self._phibar
        factor = 1.0 / self._gamma
        return (factor, -epsln_before * factor, -delta * factor), phi

    def judge(self, square: float) -> None:
        """Set `reason`, SciPy's istop, if a stopping test holds; `square` is |x|^2."""
        norm_of_A, norm_of_x, eps = math.sqrt(self._tnorm2), math.sqrt(square), self._eps
        self._gmax, self._gmin = max(self._gmax, self._gamma), min(self._gmin, self._gamma)
        if self.reason:
            return
        product = norm_of_A * norm_of_x
        is_zero = norm_of_x == 0 or norm_of_A == 0
        test1 = math.inf if is_zero else float(divided(self._phibar, product).real)
        test2 = math.inf if norm_of_A == 0 else self._root / norm_of_A
        self.criterion = min(test1, test2)
        outcomes = (
            (1 + test2 <= 1, 2),
            (1 + test1 <= 1, 1),
            (self.n_steps >= self.maxiter, _LIMIT),
            (self._gmax / self._gmin >= 0.1 / eps, 4),
            (product * eps >= self._beta1, 3),
            (test2 <= self.rtol, 2),
            (test1 <= self.rtol, 1),
        )
        self.reason = next((reason for holds, reason in reversed(outcomes) if holds), 0)
