"""`expm_multiply`: compute exp(t A) B by truncated Taylor series, with one pass over memory besides each product.

The algorithm and its parameters are those of `scipy.sparse.linalg.expm_multiply`: A. H. Al-Mohy and N. J. Higham,
"Computing the action of the matrix exponential", SIAM J. Sci. Comput. 33 (2011). A - mu I is formed only if mu is so
large that subtracting mu B from A B would lose digits.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, aslinearoperator, onenormest

from autosparse import light
from autosparse._native import python_objects
from autosparse._native.python_objects import ffi, lib
from autosparse.core.dtypes import Real
from autosparse.light.construct import has_own_product
from autosparse.light.matrices import Slots
from autosparse.linalg import sweeps
from autosparse.linalg.arguments import scipys
from autosparse.linalg.operators import BlockProduct
from autosparse.linalg.solves import NotFiniteError, Solve
from autosparse.linalg.solves.conversions import remembered
from autosparse.scalar import DOUBLE, VALUE_CODES

Block = NDArray[Any]  # (n,) or (n, k)
_PAIR: Final = f"{DOUBLE.c}[2]"
TOLERANCE: Final = 2.0**-53
"""Unit roundoff of float64, which SciPy uses for every dtype."""
MAX_TERMS: Final = 55
"""Maximum number of terms of a series (m_max of the paper)."""
ONENORM_COLUMNS: Final = 2
"""Number of columns with which norms of powers of A are estimated."""
MAX_SHIFT_RATIO: Final = 4.0
"""Minimum ratio of |mu| to |A - mu I| for which A - mu I is formed; the fused shift would lose more than two bits."""
COLUMN_SUM_BLOCK: Final = 1 << 16
"""Minimum number of entries whose absolute values are added at a time: temporary arrays of new pages take longer."""
# fmt: off
THETA: Final = {
    1: 2.29e-16, 2: 2.58e-8, 3: 1.39e-5, 4: 3.40e-4, 5: 2.40e-3, 6: 9.07e-3, 7: 2.38e-2, 8: 5.00e-2, 9: 8.96e-2,
    10: 1.44e-1, 11: 2.14e-1, 12: 3.00e-1, 13: 4.00e-1, 14: 5.14e-1, 15: 6.41e-1, 16: 7.81e-1, 17: 9.31e-1, 18: 1.09,
    19: 1.26, 20: 1.44, 21: 1.62, 22: 1.82, 23: 2.01, 24: 2.22, 25: 2.43, 26: 2.64, 27: 2.86, 28: 3.08, 29: 3.31,
    30: 3.54, 35: 4.7, 40: 6.0, 45: 7.2, 50: 8.5, 55: 9.9,
}
# fmt: on
"""Number of terms -> maximum norm for which the series is accurate (tables A.3 and 3.1 of the papers, as in SciPy)."""


def expm_multiply(  # noqa: PLR0917 - SciPy's signature
    A: Any, B: Any, start: Any = None, stop: Any = None, num: Any = None, endpoint: Any = None, traceA: Any = None
) -> Any:  # Any: whatever SciPy takes and returns
    """Compute exp(t A) B for t = 1, or for evenly spaced times.

    Parameters
    ----------
    A
        autosparse array, sparse or dense array, or LinearOperator, of shape (n, n).
    B
        Block of shape (n,) or (n, k).
    start, stop, num, endpoint
        Times as `numpy.linspace` takes them; all None: t = 1.
    traceA
        Trace of A, by which A is shifted; None: computed, and estimated with a warning for a LinearOperator.

    Returns
    -------
    Array of the shape of B, with a first axis of times where they are given.

    Raises
    ------
    ValueError where shapes do not fit. Sparse B and dtypes beyond complex128 are passed to SciPy.

    >>> A = asp.csr([[0.0, 1.0], [0.0, 0.0]])
    >>> asp.linalg.expm_multiply(A, np.array([2.0, 3.0]))  # exp(A) = I + A
    array([5., 3.])
    """
    times = (start, stop, num, endpoint)
    is_single = all(one is None for one in times)
    if _is_ours(A, B) and (is_single or _are_real(start, stop)):
        with suppress(NotFiniteError), Solve("expm_multiply", A) as solve:
            shifted = _Shifted.of(A, traceA, n_probes=1 if is_single else 5)
            if is_single:
                of_terms = [shifted.dtype] if shifted.one_norm else []  # none are added to B
                dtype = np.result_type(*of_terms, B.dtype, np.exp(shifted.mu))
                return _at_one_time(shifted, B, dtype, solve)
            how = {name: value for name, value in (("num", num), ("endpoint", endpoint)) if value is not None}
            return _at_times(shifted, B, solve, *np.linspace(start, stop, retstep=True, **how))
    return scipys("expm_multiply")(A, B, *times, traceA=traceA)


def _are_real(start: Any, stop: Any) -> bool:
    """Return whether start and stop are real numbers in increasing order."""
    return all(np.ndim(one) == 0 and np.asarray(one).dtype.kind in "biuf" for one in (start, stop)) and start <= stop


def _is_ours(A: Any, B: Any) -> bool:
    """Return whether the fused steps support the types, dtypes and shapes of A and B."""
    is_known = (sps.issparse(A) and not has_own_product(A)) or type(A) is np.ndarray or isinstance(A, LinearOperator)
    if not (python_objects.has_runtime and is_known and type(B) is np.ndarray and B.ndim in (1, 2) and B.size):
        return False
    if len(A.shape) != 2 or A.shape != B.shape[:1] * 2 or A.dtype is None:
        return False
    return all(dtype.char in "fdFD" or dtype.kind in "biu" for dtype in (np.dtype(A.dtype), B.dtype))


class _Shifted:
    """A - mu I, represented by A and a remaining shift, which is 0 if the difference was formed.

    A plain class: the methods of a named tuple would be compiled at each import.
    """

    __slots__ = ("A", "dtype", "mu", "one_norm", "shift")

    def __init__(self, A: Any, mu: Any, shift: complex, one_norm: float, dtype: np.dtype[Any]) -> None:
        self.A, self.mu = A, mu  # Any: whatever `aslinearoperator` takes, a real or complex scalar
        self.shift, self.one_norm, self.dtype = shift, one_norm, dtype  # dtype of A - mu I

    def of_matrix(self, A: Any) -> _Shifted:
        """Return the same shift and norm with another representation of A."""
        return _Shifted(A, self.mu, self.shift, self.one_norm, self.dtype)

    @classmethod
    def of(cls, A: Any, trace: Any, *, n_probes: int) -> _Shifted:
        """Return A shifted by its trace over n.

        `n_probes`: a third of the products that estimate an operator's trace.
        """
        if trace is None and isinstance(A, Slots):
            kept = remembered(A, "expm_multiply", lambda: cls._without(A))
            return kept.of_matrix(A) if kept.A is None else kept
        return cls._found(A, trace, n_probes=n_probes)

    @classmethod
    def _without(cls, A: Any) -> _Shifted:
        """Return A shifted by its trace over n; None takes the place of A, so that A can keep the result."""
        made = cls._found(A, None, n_probes=0)
        return made.of_matrix(None) if made.A is A else made

    @classmethod
    def _found(cls, A: Any, trace: Any, *, n_probes: int) -> _Shifted:
        if trace is None and isinstance(A, LinearOperator):
            what = (
                "Trace of LinearOperator not available, it will be estimated. Provide `traceA` to ensure performance."
            )
            from autosparse.notices import warn_at  # few calls warn

            warn_at(4, what, UserWarning)
            trace = _estimated_trace(A, n_probes)
        if sps.issparse(A) and (A.format not in ("csr", "csc") or not A.has_canonical_format):
            A = sps.csr_array(sps.coo_array(A))
        diagonal = None if isinstance(A, LinearOperator) else np.asarray(A.diagonal())
        if trace is None:
            trace = diagonal.sum() if diagonal is not None and sps.issparse(A) else A.trace()
        mu = trace / float(A.shape[0])
        dtype = np.result_type(A.dtype, mu, *([] if A.dtype.kind in "fc" else [Real]))
        if A.dtype.kind not in "fc" and not isinstance(A, LinearOperator):
            A = A.astype(dtype)
        shift = complex(mu)
        norm = _one_norm(A, mu, dtype, diagonal)
        if abs(shift) > MAX_SHIFT_RATIO * norm and not isinstance(A, LinearOperator):
            identity = (
                sps.eye(*A.shape, dtype=dtype, format="csr") if sps.issparse(A) else np.eye(*A.shape, dtype=dtype)
            )
            A, shift = A - mu * identity, 0j
        return cls(A, mu, shift, norm, dtype)

    def power(self, p: int, scale: float) -> LinearOperator:
        """Return (scale (A - mu I))^p as a LinearOperator."""
        return _operator(self.A, self.shift, self.dtype, scale) ** p


def _operator(A: Any, shift: complex, dtype: np.dtype[Any], scale: float = 1.0) -> LinearOperator:
    """Return scale (A - shift I) as a LinearOperator."""
    of_A = aslinearoperator(A)
    of_shift = shift.real if not shift.imag else shift

    def product(X: Block) -> Block:
        return scale * (of_A.dot(X) - of_shift * X)  # type: ignore[no-any-return]

    def adjoint(X: Block) -> Block:
        return scale * (of_A.H.dot(X) - np.conj(of_shift) * X)  # type: ignore[no-any-return]

    return LinearOperator(of_A.shape, product, adjoint, product, dtype, adjoint)


def _one_norm(A: Any, mu: Any, dtype: np.dtype[Any], diagonal: NDArray[Any] | None) -> float:
    """Return the 1-norm of A - mu I, estimated for operators, which have no `diagonal`."""
    if diagonal is None:
        return float(onenormest(_operator(A, complex(mu), dtype)))
    sums, diagonal = _column_sums(A), diagonal.astype(dtype, copy=False)
    return float((sums - np.abs(diagonal) + np.abs(diagonal - mu)).max())


def _column_sums(A: Any) -> NDArray[Real]:
    """Return the sums of absolute values of the columns of a sparse or dense matrix."""
    matrix: Any = A
    if isinstance(A, Slots) and matrix.format == "csr":
        (indices, data), n_columns = _entries(matrix), matrix.shape[1]
        sums, step = np.zeros(n_columns, Real), max(COLUMN_SUM_BLOCK, 2 * n_columns)
        for at in range(0, matrix.nnz, step):
            part = slice(at, min(at + step, matrix.nnz))
            sums += np.bincount(indices[part], np.abs(data[part]), n_columns)
        return sums
    return np.asarray(abs(A).sum(axis=0), dtype=Real).reshape(-1)


def _entries(matrix: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the indices and values of an autosparse array, without recording that they are handed out."""
    rows = light.rows_of(matrix)
    if rows is not None and (found := rows.sound()) is not None:
        return found[0][1], found[1]
    light.complete()
    return matrix._cell.indices, matrix._cell.data


def _estimated_trace(A: LinearOperator, n_probes: int) -> Any:
    """Return an estimate of the trace by the algorithm Hutch++, as SciPy does."""
    rng = np.random.default_rng()
    n = A.shape[0]
    Q, _ = np.linalg.qr(A.matmat(rng.choice([-1.0, 1.0], [n, n_probes])))
    G = rng.choice([-1, 1], [n, n_probes])
    rest = G - Q @ (Q.conj().T @ G)
    return np.trace(Q.conj().T @ A.matmat(Q)) + np.trace(rest.conj().T @ A.matmat(rest)) / n_probes


class _Norms:
    """Bounds d_p = |(t A)^p|^(1/p) of a shifted matrix, estimated on first use and multiplied by `scale`."""

    def __init__(self, shifted: _Shifted, t: float) -> None:
        self.shifted, self.t, self.scale = shifted, t, 1.0
        self._d: dict[int, float] = {}

    @property
    def one_norm(self) -> float:
        """The 1-norm of scale t (A - mu I)."""
        return self.scale * self.t * self.shifted.one_norm

    def alpha(self, p: int) -> float:
        """Return max(d_p, d_{p+1})."""
        for power in (p, p + 1):
            if power not in self._d:
                estimate = onenormest(self.shifted.power(power, self.t), t=ONENORM_COLUMNS)
                self._d[power] = float(estimate) ** (1 / power)
        return self.scale * max(self._d[p], self._d[p + 1])


def _terms_and_steps(norms: _Norms, n_columns: int) -> tuple[int, int]:
    """Return the number of terms of a series and the number of time steps (fragment 3.1 of the paper)."""
    if norms.one_norm == 0:
        return 0, 1
    p_max = max(p for p in range(1, MAX_TERMS) if p * (p - 1) <= MAX_TERMS + 1)
    bound = 2 * ONENORM_COLUMNS * p_max * (p_max + 3) * THETA[MAX_TERMS] / float(n_columns * MAX_TERMS)
    if norms.one_norm <= bound:  # estimating further norms would cost more than it saves
        found = [(m, math.ceil(norms.one_norm / theta)) for m, theta in THETA.items()]
        return min(found, key=lambda one: one[0] * one[1])
    found = [
        (m, math.ceil(norms.alpha(p) / THETA[m]))
        for p in range(2, p_max + 1)
        for m in range(p * (p - 1) - 1, MAX_TERMS + 1)
        if m in THETA
    ]
    m, s = min(found, key=lambda one: one[0] * one[1])
    return m, max(s, 1)


class _Series:
    """Taylor series for blocks of one shape and dtype; the blocks of the terms are reused in turn."""

    def __init__(self, shifted: _Shifted, like: Block, dtype: np.dtype[Any], solve: Solve) -> None:
        self._terms, self._step = solve.workspace(like.shape, dtype, 2), solve.step
        self.n, self.k = like.shape[0], 1 if like.ndim == 1 else like.shape[1]
        self.mu, self.dtype = shifted.mu, dtype
        self._product = BlockProduct(shifted.A, dtype)
        self._code = VALUE_CODES[dtype.name]
        self._shift = ffi.new(_PAIR, [shifted.shift.real, shifted.shift.imag])
        self._norms = ffi.new(_PAIR)
        self._threads = sweeps.decisive_options()[1] or max(1, lib.asp_max_threads())

    def term(self, source: Block, target: Block, total: Block, scale: float) -> tuple[float, float]:
        """Write target = scale (A - mu I) source, add it to total, and return the infinity norms of both."""
        self._step(1.0)  # a series has no residual, so the value is constant
        self._product(source, target)
        pointers = map(ffi.from_buffer, (target, source, total))
        _check(
            lib.asp_taylor_step(self._code, self.n, self.k, *pointers, scale, self._shift, self._norms, self._threads)
        )
        return self._norms[0], self._norms[1]

    def add(self, term: Block, factor: float, before: Block, total: Block) -> float:
        """Write total = before + factor term; return its infinity norm."""
        pointers = map(ffi.from_buffer, (term, before, total))
        _check(lib.asp_taylor_add(self._code, self.n, self.k, *pointers, factor, self._norms, self._threads))
        return float(self._norms[0])

    def advance(self, F: Block, t: float, n_terms: int, n_steps: int) -> None:
        """Replace F by exp(t A) F; raise NotFiniteError if SciPy's function must run for its RuntimeWarnings."""
        eta = np.exp(t * self.mu / float(n_steps))
        first, second = self._terms
        before = infinity_norm(F)
        if not math.isfinite(before):
            raise NotFiniteError
        for _ in range(n_steps):
            source, target, free = F, first, second
            for j in range(n_terms):
                size, total = self.term(source, target, F, t / float(n_steps * (j + 1)))
                if before + size <= TOLERANCE * total:
                    break
                before = size
                source, target, free = target, free, target
            np.multiply(F, eta, out=F)
            before = infinity_norm(F)


def _check(status: int) -> None:
    """Raise MemoryError or ValueError for a status of the runtime that is not 0."""
    if status:
        from autosparse._native.runtime_api import raise_for  # light matrices do without it

        raise_for(status)


def infinity_norm(F: Block) -> float:
    """Return the largest absolute value of a vector, or the largest row sum of absolute values of a block."""
    return float(np.linalg.norm(F, np.inf))


def _at_one_time(shifted: _Shifted, B: Block, dtype: np.dtype[Any], solve: Solve) -> Block:
    series = _Series(shifted, B, dtype, solve)
    terms, steps = _terms_and_steps(_Norms(shifted, 1.0), series.k)
    F = np.array(B, dtype=dtype, order="C")
    series.advance(F, 1.0, terms, steps)
    return F


def _at_times(shifted: _Shifted, B: Block, solve: Solve, samples: NDArray[Any], h: Any) -> Block:
    """Return exp(t A) B for evenly spaced samples t (algorithm 5.2 of the paper)."""
    if samples.size < 2:
        raise ValueError("at least two time points are required")
    dtype = np.result_type(shifted.dtype, B.dtype, float)
    series, q = _Series(shifted, B, dtype, solve), samples.size - 1
    X = np.empty((samples.size, *B.shape), dtype)
    norms = _Norms(shifted, float(samples[q] - samples[0]))
    terms, steps = _terms_and_steps(norms, series.k)
    X[0] = B
    series.advance(X[0], float(samples[0]), terms, steps)
    if q > steps:
        _fill_between(series, X, float(h), terms, steps)
        return X
    norms.scale = 1.0 / q
    terms, steps = _terms_and_steps(norms, series.k)
    for k in range(q):
        X[k + 1] = X[k]
        series.advance(X[k + 1], float(h), terms, steps)
    return X


def _fill_between(series: _Series, X: Block, h: float, n_terms: int, n_steps: int) -> None:
    """Fill X[1:], given X[0], if a step of the series spans several times, which share the terms."""
    q = len(X) - 1
    d = q // n_steps
    K = np.empty((n_terms + 1, *X.shape[1:]), X.dtype)
    spare = np.zeros_like(K[0])
    for begin in range(0, q, d):
        K[0] = X[begin]
        sizes = [infinity_norm(K[0])]
        for k in range(1, min(d, q - begin) + 1):
            F, before = X[begin + k], sizes[0]
            F[...] = K[0]
            for p in range(1, n_terms + 1):
                is_new = p == len(sizes)
                if is_new:
                    size, total = series.term(K[p - 1], K[p], F if k == 1 else spare, h / p)
                    sizes.append(size)
                factor = float(k) ** p
                if k > 1 or not is_new:
                    total = series.add(K[p], factor, F, F)
                size = factor * sizes[p]
                if before + size <= TOLERANCE * total:
                    break
                before = size
            np.multiply(F, np.exp(k * h * series.mu), out=F)
