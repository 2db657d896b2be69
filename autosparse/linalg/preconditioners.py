"""Vectorized preconditioners: `jacobi`, `block_jacobi` and `chebyshev`.

Each function returns a `scipy.sparse.linalg.LinearOperator` that approximates the inverse of A. Pass it as ``M`` to a
solver of `autosparse.linalg`, SciPy or pyamg. The solvers of `autosparse.linalg` fuse the diagonal of `jacobi` with
their own vector steps.

>>> M = asp.linalg.jacobi(A)
>>> x, info = asp.linalg.cg(A, b, M=M)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray
from scipy.linalg import eigvalsh_tridiagonal
from scipy.sparse.linalg import LinearOperator

from autosparse.arrays import construct
from autosparse.core.dtypes import Real
from autosparse.errors import InputError, InputTypeError, ShapeError
from autosparse.linalg.encoded_sweeps import ColumnSweep
from autosparse.linalg.operators import BlockProduct, matrix_of, product_of
from autosparse.linalg.sweeps import Combine, Sweep

AnyArray = NDArray[Any]  # any dtype of a solver
KNOWN_DTYPES: Final = "fdFD"
"""dtype characters that the solvers compute in."""
LANCZOS_STEPS: Final = 10
"""Number of Lanczos steps, hence products with A, that estimate its largest eigenvalue."""
ABOVE_ESTIMATE: Final = 1.1
"""Upper bound of the spectrum as a multiple of the Lanczos estimate, which is too small."""
SPECTRUM_RATIO: Final = 30.0
"""Ratio of the estimate to the default lower bound; smaller eigenvalues are left to the solver."""


def jacobi(A: Any) -> LinearOperator:
    """Return the inverse of the diagonal of A as a LinearOperator.

    A is square, sparse or dense. The attribute `inverse_diagonal` holds the factors of the rows. InputError (a
    ValueError) is raised if the diagonal has a zero, ShapeError if A is not square, and InputTypeError (a TypeError)
    for an operator without entries.

    >>> A = asp.csr(sps.diags_array([2.0, 4.0]))
    >>> asp.linalg.jacobi(A) @ np.ones(2)
    array([0.5 , 0.25])
    """
    diagonal = inexact(np.asarray(entries_of(A, "jacobi").diagonal()))
    zeros = np.flatnonzero(diagonal == 0)
    if zeros.size:
        raise InputError.refused(
            "jacobi: the diagonal of A has zeros, which have no inverse",
            given=f"{zeros.size} zeros among {diagonal.size} entries of the diagonal, the first in row {zeros[0]}",
            hint="use block_jacobi with blocks that are not singular, or add a shift to the diagonal",
        )
    return DiagonalInverse(1 / diagonal)


def block_jacobi(A: Any, size: int) -> LinearOperator:
    """Return the inverse of the diagonal blocks of `size` rows and columns of A as a LinearOperator.

    A is square, sparse or dense. The last block is smaller if `size` does not divide the number of rows. The inverse is
    stored as a sparse matrix with `size` entries per row. InputError (a ValueError) is raised if a block is singular or
    `size` is below 1, ShapeError if A is not square, and InputTypeError (a TypeError) for an operator without entries.

    >>> A = asp.csr(sps.csr_array([[2.0, 1.0, 9.0], [1.0, 1.0, 9.0], [9.0, 9.0, 4.0]]))
    >>> asp.linalg.block_jacobi(A, 2) @ np.ones(3)
    array([0.  , 1.  , 0.25])
    """
    entries = entries_of(A, "block_jacobi")
    if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 1:
        raise InputError.refused(
            "block_jacobi: size must be a positive integer",
            given=f"size={size!r} for {entries.shape[0]} rows",
            hint="pass the number of unknowns per mesh point, such as size=3",
        )
    return BlockInverse(_inverted_blocks(entries, min(int(size), max(1, entries.shape[0]))))


def chebyshev(A: Any, degree: int, bounds: tuple[float, float] | None = None) -> LinearOperator:
    """Return a Chebyshev polynomial in A that approximates the inverse of A as a LinearOperator.

    A is sparse, dense or an operator; it must be Hermitian and positive definite, which is not checked. `degree` is the
    number of products with A per application. `bounds` are the limits of the eigenvalues that are damped, by default
    (e/30, 1.1 e), where e is the largest eigenvalue estimated by ten Lanczos steps from a random vector of seed 0.
    InputError (a ValueError) is raised for a `degree` below 1 and for bounds that are not positive and increasing, and
    ShapeError if A is not square.

    >>> A = asp.csr(sps.diags_array([1.0, 2.0]))
    >>> np.allclose(asp.linalg.chebyshev(A, 8, bounds=(1.0, 2.0)) @ np.ones(2), [1.0, 0.5])
    True
    """
    A = A if hasattr(A, "shape") else np.asarray(A)
    _check_square(A, "chebyshev")
    if not isinstance(degree, int | np.integer) or isinstance(degree, bool) or degree < 1:
        raise InputError.refused(
            "chebyshev: degree must be a positive integer",
            given=f"degree={degree!r}; a degree is a number of products with A",
            hint="pass degree=3, or use jacobi(A), which computes no product",
        )
    dtype = inexact(np.empty(0, getattr(A, "dtype", None) or Real)).dtype
    if bounds is None:
        largest = _largest_eigenvalue(A, dtype)
        low, high = largest / SPECTRUM_RATIO, largest * ABOVE_ESTIMATE
    else:
        low, high = map(float, bounds)
    if not 0 < low < high < np.inf:
        raise InputError.refused(
            "chebyshev: bounds must be positive and increasing",
            given=f"bounds ({low:g}, {high:g}){'' if bounds else ', estimated from A by Lanczos steps'}",
            hint="pass a positive definite A, or bounds=(low, high) with 0 < low < high",
        )
    return ChebyshevInverse(A, dtype, int(degree), low, high)


class DiagonalInverse(LinearOperator):  # type: ignore[misc]  # SciPy's classes carry no types
    """Operator that multiplies row i by ``inverse_diagonal[i]``."""

    def __init__(self, inverse_diagonal: AnyArray) -> None:
        super().__init__(inverse_diagonal.dtype, (inverse_diagonal.size,) * 2)
        self.inverse_diagonal = inverse_diagonal

    def diagonal(self) -> AnyArray:
        """Return the diagonal: the factors by which rows are multiplied."""
        return self.inverse_diagonal

    def _matvec(self, x: AnyArray) -> AnyArray:
        return self.inverse_diagonal * x.reshape(-1)

    def _matmat(self, X: AnyArray) -> AnyArray:
        return self.inverse_diagonal[:, None] * X

    def _adjoint(self) -> LinearOperator:
        return DiagonalInverse(self.inverse_diagonal.conj())

    def _transpose(self) -> LinearOperator:
        return self


class BlockInverse(LinearOperator):  # type: ignore[misc]
    """Operator that multiplies by a sparse matrix of inverted diagonal blocks."""

    def __init__(self, blocks: Any) -> None:
        super().__init__(blocks.dtype, blocks.shape)
        self.blocks = blocks

    def _matvec(self, x: AnyArray) -> AnyArray:
        return self.blocks @ x.reshape(-1)  # type: ignore[no-any-return]

    def _matmat(self, X: AnyArray) -> AnyArray:
        return self.blocks @ X  # type: ignore[no-any-return]

    def _adjoint(self) -> LinearOperator:
        return BlockInverse(self.blocks.conj().T.tocsr())

    def _transpose(self) -> LinearOperator:
        return BlockInverse(self.blocks.T.tocsr())


class ChebyshevInverse(LinearOperator):  # type: ignore[misc]
    """Chebyshev polynomial of A by the three-term recurrence, with one sweep over the vectors per product."""

    def __init__(self, A: Any, dtype: np.dtype[Any], degree: int, low: float, high: float) -> None:
        super().__init__(dtype, A.shape)
        self.A, self.degree, self.bounds = A, degree, (low, high)
        # taken and returned by one atomic operation each, so that no two threads share one
        self._idle: list[_Recurrence] = []

    def _matvec(self, x: AnyArray) -> AnyArray:
        return self._applied(x.reshape(-1))

    def _matmat(self, X: AnyArray) -> AnyArray:
        return self._applied(X) if X.shape[1] else X.astype(np.result_type(self.dtype, X.dtype))

    def _applied(self, x: AnyArray) -> AnyArray:
        """Return the polynomial times a vector or a block."""
        x = np.ascontiguousarray(x, dtype=np.result_type(self.dtype, x.dtype))
        recurrence = self._recurrence(x)
        try:
            return recurrence.apply(x, *self._coefficients())
        finally:
            self._idle.append(recurrence)

    def _recurrence(self, like: AnyArray) -> _Recurrence:
        while self._idle:
            try:
                recurrence = self._idle.pop()
            except IndexError:  # another thread took it after the test
                break
            if recurrence.r.dtype == like.dtype and recurrence.r.shape == like.shape:
                return recurrence
        return _Recurrence(self.A, like)

    def _coefficients(self) -> tuple[float, list[tuple[float, float]]]:
        """Return the factor of the first direction, and the factors of direction and residual after each product."""
        low, high = self.bounds
        middle, half = (high + low) / 2, (high - low) / 2
        rho, factors = half / middle, []
        for _ in range(self.degree):
            following = 1 / (2 * middle / half - rho)
            factors.append((following * rho, 2 * following / half))
            rho = following
        return 1 / middle, factors

    def _adjoint(self) -> LinearOperator:
        return self  # the coefficients are real and A is Hermitian


class _Recurrence:
    """Buffers of one application at a time (residual, direction, product), and the sweep over them."""

    def __init__(self, A: Any, like: AnyArray) -> None:
        of_A, sweep = (product_of, Sweep) if like.ndim == 1 else (BlockProduct, ColumnSweep)
        self.product: Callable[[AnyArray, AnyArray], Any] = of_A(A, like.dtype)
        self.r, self.d, self.q, x = (np.zeros_like(like) for _ in range(4))
        steps = [Combine(self.r, (self.r, self.q)), Combine(self.d, (self.d, self.r)), Combine(x, (x, self.d))]
        self.sweep = sweep(steps)

    def apply(self, b: AnyArray, first: float, factors: list[tuple[float, float]]) -> AnyArray:
        np.copyto(self.r, b)
        np.multiply(b, first, out=self.d)
        x = self.d.copy()
        self.sweep.bind(3, x)
        for of_direction, of_residual in factors:
            self.product(self.d, self.q)
            self.sweep(1.0, -1.0, of_direction, of_residual, 1.0, 1.0)
        return x  # type: ignore[no-any-return]


def inexact(values: AnyArray) -> AnyArray:
    """Return `values` in a dtype of the solvers; other dtypes become float64."""
    return values if values.dtype.char in KNOWN_DTYPES else values.astype(Real)


def _check_square(A: Any, name: str) -> None:
    if len(A.shape) != 2 or A.shape[0] != A.shape[1]:
        raise ShapeError.unfit(name, wanted="a square A", A=A.shape)


def entries_of(A: Any, name: str) -> Any:
    """Return A as a square sparse matrix or ndarray; raise an error if it has no entries to read."""
    A = matrix_of(A)
    if isinstance(A, LinearOperator) or callable(A):
        raise InputTypeError.refused(
            f"{name}: A must be a matrix whose entries can be read",
            given=f"an operator of the type {type(A).__name__}, which has products only",
            hint="pass the matrix itself, or use chebyshev(A, degree), which takes operators",
        )
    entries = A if sps.issparse(A) else np.asarray(A)
    _check_square(entries, name)
    return entries


def _inverted_blocks(entries: Any, size: int) -> Any:
    """Return the inverted diagonal blocks as one autosparse csr array."""
    n = entries.shape[0]
    coo = construct.wrapped(entries).tocoo()  # without spare room, whose coordinates SciPy leaves uninitialised
    rows, columns = coo.coords
    inside = np.flatnonzero(rows // size == columns // size)
    rows, columns = rows[inside], columns[inside]
    n_blocks = -(-n // size)
    values = inexact(coo.data[inside])
    blocks = np.zeros((n_blocks, size, size), values.dtype)
    np.add.at(blocks, (rows // size, rows % size, columns % size), values)
    padding = np.arange(n - n_blocks * size, 0) + size
    blocks[-1:, padding, padding] = 1  # pads the last block if it is smaller
    inverse = _inverses(blocks)
    indices = np.arange(n_blocks)[:, None, None] * size + np.arange(size)
    indices = np.broadcast_to(indices, blocks.shape).reshape(-1, size)[:n]
    kept = indices < n
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    data = inverse.reshape(-1, size)[:n][kept]
    return construct.csr(sps.csr_array((data, indices[kept], indptr), shape=(n, n)), copy=False)


def _inverses(blocks: AnyArray) -> AnyArray:
    try:
        with np.errstate(all="ignore"):
            return np.linalg.inv(blocks)
    except np.linalg.LinAlgError as error:
        size = blocks.shape[-1]
        ranks = np.linalg.matrix_rank(blocks)
        at = int(np.argmin(ranks))
        raise InputError.refused(
            "block_jacobi: a block on the diagonal of A is singular",
            given=f"block {at} (rows from {at * size}) has rank {ranks[at]} of {size}",
            hint="pass another size, or add a shift to the diagonal",
        ) from error


def _largest_eigenvalue(A: Any, dtype: np.dtype[Any]) -> float:
    """Return the largest Ritz value of Lanczos steps from a random vector of seed 0; 0.0 if A has no rows."""
    n = A.shape[0]
    product = product_of(A, dtype)
    v = np.random.default_rng(0).standard_normal(n).astype(dtype)
    if not n:
        return 0.0
    v /= np.linalg.norm(v)
    before, w = np.zeros(n, dtype), np.empty(n, dtype)
    alphas: list[float] = []
    betas: list[float] = []
    for _ in range(min(n, LANCZOS_STEPS)):
        product(v, w)
        alphas.append(float(np.vdot(v, w).real))
        w -= alphas[-1] * v
        if betas:
            w -= betas[-1] * before
        betas.append(float(np.linalg.norm(w)))
        if not betas[-1] > np.finfo(dtype).eps * abs(alphas[0]):  # invariant subspace, or NaN
            break
        before, v = v, w / betas[-1]
    if not np.isfinite(alphas + betas).all():
        return float("nan")
    return float(eigvalsh_tridiagonal(np.array(alphas), np.array(betas[: len(alphas) - 1]))[-1])
