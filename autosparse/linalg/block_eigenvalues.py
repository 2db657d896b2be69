"""`lobpcg`: SciPy's algorithm with autosparse's block products, reused memory, and fused passes over the blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, eigh, inv
from scipy.sparse.linalg import LinearOperator

from autosparse._native import runtime_api
from autosparse.arrays import construct
from autosparse.arrays.family import AutoSparseMatrix
from autosparse.core.dtypes import NativeIndex
from autosparse.light.construct import has_own_product
from autosparse.linalg.arguments import scipys
from autosparse.linalg.encoded_sweeps import ColumnSweep
from autosparse.linalg.operators import BlockProduct
from autosparse.linalg.solves import Solve
from autosparse.linalg.sweeps import Combine, Dot
from autosparse.linalg.tall import Block, combine, gram, grams
from autosparse.notices import warn_at

Operator = Callable[[Block], Block]
_MIN_ROWS_PER_COLUMN: Final = 5
"""Minimum number of rows per column; smaller problems go to a dense eigensolver through SciPy."""
MIN_ELEMENTS: Final = 1 << 14
"""Minimum number of elements of X; passes over smaller blocks take less time than the calls that begin them.

SciPy's function is 1.25 and 1.07 times as fast as these passes with eight columns of 100 and 1,000 rows, and takes 1.12
times their time with 3,000.
"""
_CALLER: Final = 4
"""Number of stack frames from a warning to the caller of `lobpcg`."""


def lobpcg(  # noqa: PLR0917 - SciPy's signature
    A: Any, X: Any, B: Any = None, M: Any = None, Y: Any = None, tol: Any = None, maxiter: int | None = None,
    largest: bool = True, verbosityLevel: int = 0, retLambdaHistory: bool = False,
    retResidualNormsHistory: bool = False, restartControl: int = 20,
) -> Any:  # fmt: skip  # Any: whatever SciPy takes and returns
    """Compute eigenvalues and eigenvectors of a Hermitian A, or of A x = lambda B x, at one end of the spectrum.

    Parameters, results and algorithm are those of `scipy.sparse.linalg.lobpcg` (Knyazev 2001). X is not changed. The
    results have the common dtype of A, B and X. Problems with fewer than five rows per column (which LAPACK solves),
    small X, verbose calls, integer X and long double are passed to SciPy.

    >>> A = asp.csr(sps.diags_array(np.arange(1.0, 101.0)))
    >>> values, _ = asp.linalg.lobpcg(A, np.random.default_rng(0).standard_normal((100, 2)), maxiter=60)
    >>> np.allclose(values, [100, 99])
    True
    """
    if not _is_ours(A, B, X, Y) or verbosityLevel:
        A, B = _wrapped(A), B if B is None else _wrapped(B)
        return scipys("lobpcg")(
            A, X, B, M, Y, tol, maxiter, largest, verbosityLevel, retLambdaHistory, retResidualNormsHistory,
            restartControl,
        )  # fmt: skip
    given, X = X.dtype, np.array(X, dtype=_common_dtype(A, B, X), order="C")
    tol = np.sqrt(np.finfo(given).eps) * len(X) if tol is None or tol <= 0.0 else tol
    run = _Lobpcg(X, largest=largest, tol=tol, maxiter=20 if maxiter is None else maxiter, control=restartControl)
    run.of_A = _applied(A, X.dtype)
    run.of_B, run.of_M = (None if one is None else _applied(one, X.dtype) for one in (B, M))
    with Solve("lobpcg", A) as solve:
        values, vectors = run.run(solve, Y)
    asked = (retLambdaHistory, run.lambdas), (retResidualNormsHistory, run.residuals)
    found = [
        [np.squeeze(row) for row in (rows if given.kind == "c" else rows.real)[: run.best_at + 2].astype(given)]
        for is_asked, rows in asked if is_asked
    ]  # fmt: skip
    return values, vectors, *found


def _wrapped(A: Any) -> Any:
    """Return our array for SciPy's csr and csc; return anything else unchanged."""
    is_scipys = not isinstance(A, AutoSparseMatrix) and type(A).__module__.startswith("scipy.") and sps.issparse(A)
    return construct.wrapped(A) if is_scipys and A.format in ("csr", "csc") and runtime_api.available else A


def _is_ours(A: Any, B: Any, X: Any, Y: Any) -> bool:
    """Return whether the iteration supports a call: the dtypes of its sweeps, and enough rows."""
    if type(X) is not np.ndarray or X.size < MIN_ELEMENTS or not runtime_api.available:
        return False
    if X.ndim != 2 or X.dtype.char not in "fdFD" or any(map(has_own_product, (A, B))):
        return False
    n_constraints = 0
    if Y is not None:
        if type(Y) is not np.ndarray or Y.ndim != 2 or np.result_type(Y.dtype, X.dtype) != X.dtype:
            return False
        n_constraints = Y.shape[1]
    if X.shape[0] - n_constraints < _MIN_ROWS_PER_COLUMN * X.shape[1]:
        return False
    return all(one is None or _fits(one, X) for one in (A, B)) and _common_dtype(A, B, X).char in "fdFD"


def _fits(A: Any, X: Block) -> bool:
    """Return whether A has the shape for products with X; callables are checked by their first product."""
    if not (sps.issparse(A) or isinstance(A, np.ndarray | LinearOperator)):
        return callable(A)
    return A.shape == (X.shape[0],) * 2 and A.dtype is not None


def _common_dtype(A: Any, B: Any, X: Block) -> np.dtype[Any]:
    """Return the common dtype of A, B and X, the dtype of the eigenvectors; callables do not count."""
    given = [one.dtype for one in (A, B) if one is not None and hasattr(one, "dtype")]
    return np.result_type(X.dtype, *given)


def _applied(A: Any, dtype: np.dtype[Any]) -> Operator:
    """Return a function that computes A X for blocks of `dtype`, as a new C-ordered array of that dtype."""
    if sps.issparse(A) and A.format in ("csr", "csc"):
        product = BlockProduct(A, dtype)

        def apply(X: Block) -> Block:
            out = np.empty_like(X)
            product(X, out)
            return out

        return apply

    def call(X: Block) -> Block:
        found = A(X) if callable(A) else A @ X
        if np.shape(found) != X.shape:
            raise ValueError(
                f"The shape {X.shape} of a block of iterates not preserved\n"
                f"and changed to {np.shape(found)} after multiplying by the matrix.\n"
            )
        return np.array(found, dtype=dtype, order="C")

    return call


class _CholeskyError(Exception):
    """Exception raised if a Cholesky factorization does not exist."""


class _Lobpcg:
    """State of one solve by LOBPCG: the blocks X, R and P, and their products with A and B.

    Without B, the products with B are the blocks themselves.
    """

    of_A: Operator  # noqa: N815 - the products with A, B and M
    of_B: Operator | None  # noqa: N815
    of_M: Operator | None  # noqa: N815

    def __init__(self, X: Block, *, largest: bool, tol: Any, maxiter: int, control: int) -> None:
        self.X, self.largest, self.maxiter, self.control = X, largest, maxiter, control
        self.n, self.size = X.shape
        self.tol = tol
        self.lambdas, self.residuals = np.zeros((2, maxiter + 3, self.size), X.dtype)
        self.best, self.best_at, self.best_norm = X, maxiter, float(np.finfo(X.dtype).max)
        self.other, self.R, self.free_P, self.free_AP = (np.empty_like(X) for _ in range(4))
        self.P: Block | None = None
        self.AP: Block | None = None
        self.BP: Block | None = None
        self.is_explicit = self.is_restarted = False
        self.active = np.ones(self.size, bool)

    def run(self, solve: Solve, Y: Block | None) -> tuple[NDArray[Any], Block]:
        self._begin(Y)
        at = -1
        while at < self.maxiter:
            at += 1
            norms = self._residual_norms(at)
            solve.step(float(norms.max()))
            self._keep_best(norms, at)
            self.active = self.active & (norms > self.tol)
            if not self.active.any() or not self._step(norms, at):
                break
        self._note_last(at)
        return self._finish()

    def _begin(self, Y: Block | None) -> None:
        self.Y = Y
        if Y is not None:
            Y = self.Y = np.ascontiguousarray(Y, self.X.dtype)
            self.BY = Y if self.of_B is None else self.of_B(Y)
            try:
                self.gram_Y = cho_factor(gram(Y, self.BY), overwrite_a=True)
            except LinAlgError as error:
                raise ValueError("Linearly dependent constraints") from error
            self._constrain(self.X)
        try:
            self.BX, _ = self._orthonormalize(self.X)
        except _CholeskyError:
            raise ValueError("Linearly dependent initial approximations") from None
        self.AX = self.of_A(self.X)
        values, vectors = eigh(gram(self.X, self.AX), check_finite=False)
        self.values, vectors = self._chosen(values, vectors)
        self.lambdas[0] = self.values
        for block in {id(one): one for one in (self.X, self.AX, self.BX)}.values():
            combine(block, (block, vectors))

    def _chosen(self, values: NDArray[Any], vectors: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return as many eigenvalues as X has columns, from the requested end of the spectrum, and their vectors."""
        order = np.argsort(values)
        order = order[: -self.size - 1 : -1] if self.largest else order[: self.size]
        return values[order], vectors[:, order]

    def _constrain(self, V: Block) -> None:
        """Make V B-orthogonal to the constraints."""
        if self.Y is not None:
            combine(V, (V, None), (self.Y, -cho_solve(self.gram_Y, gram(self.BY, V))))

    def _orthonormalize(self, V: Block, BV: Block | None = None) -> tuple[Block, NDArray[Any]]:
        """Make V B-orthonormal in place; return B V, and the factor by which V was multiplied."""
        BV = V if self.of_B is None else self.of_B(V) if BV is None else BV
        try:
            factor = inv(cholesky(gram(V, BV), overwrite_a=True), overwrite_a=True)
        except LinAlgError:
            raise _CholeskyError from None
        combine(V, (V, factor))
        if BV is not V:
            combine(BV, (BV, factor))
        return BV, factor

    def _residual_norms(self, at: int) -> NDArray[Any]:
        """Write R = A X - B X diag(values); return its columns' norms, stored in row `at` of the history, too."""
        sweep = ColumnSweep([Combine(self.R, (self.AX, self.BX)), Dot(self.R, self.R)])
        norms = np.sqrt(np.abs(sweep(1.0, -self.values)[0]))
        self.residuals[at] = norms
        return norms  # type: ignore[no-any-return]

    def _keep_best(self, norms: NDArray[Any], at: int) -> None:
        norm = float(norms.sum() / self.size)
        if norm < self.best_norm:
            self.best_norm, self.best_at, self.best = norm, at, self.X
        elif norm > 2**self.control * self.best_norm:
            self.is_restarted = True
            self.AX = self.of_A(self.X)
            self.BX = self.X if self.of_B is None else self.of_B(self.X)

    def _step(self, norms: NDArray[Any], at: int) -> bool:
        """Compute the next X by the Rayleigh-Ritz method; return False if the step failed."""
        kept = np.flatnonzero(self.active)
        R = self.R if kept.size == self.size else np.take(self.R, kept, axis=1)
        if self.of_M is not None:
            R = self.of_M(R)
        self._constrain(R)
        combine(R, (R, None), (self.X, -gram(self.BX, R)))
        try:
            BR, _ = self._orthonormalize(R)
        except _CholeskyError:
            self._warn(
                f"Failed at iteration {at} with accuracies {norms}\n not reaching the requested tolerance {self.tol}."
            )
            return False
        blocks = [(self.X, self.AX, self.BX), (R, self.of_A(R), BR)]
        directions = self._directions(kept)
        if not (norms.max() > (1 if R.dtype.char == "f" else np.sqrt(np.finfo(R.dtype).eps)) and not self.is_explicit):
            self.is_explicit = True
        for chosen in ([*blocks, directions], blocks) if directions else (blocks,):
            try:
                values, vectors = eigh(*self._grams(chosen), check_finite=False)
            except LinAlgError as error:
                failure = error
                continue
            self.values, vectors = self._chosen(values, vectors)
            self.lambdas[at + 1] = self.values
            self._combine(chosen, vectors)
            return True
        self._warn(f"eigh failed at iteration {at} with error\n{failure}\n")
        return False

    def _directions(self, kept: NDArray[NativeIndex]) -> tuple[Block, Block, Block] | None:
        """Return the B-orthonormal active columns of P, A P and B P; None if the step continues without them."""
        if self.P is None or self.AP is None or self.BP is None:
            return None
        P, AP, BP = self.P, self.AP, self.BP
        if kept.size < self.size:
            is_one = BP is P
            P, AP = (np.take(one, kept, axis=1) for one in (P, AP))
            BP = P if is_one else np.take(BP, kept, axis=1)
        try:
            BP, factor = self._orthonormalize(P, BP)
        except _CholeskyError:
            return None
        combine(AP, (AP, factor))
        return None if self.is_restarted else (P, AP, BP)

    def _grams(self, blocks: list[tuple[Block, Block, Block]]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return [X R P]^H A [X R P] and [X R P]^H B [X R P]; known parts are computed only if `is_explicit`."""
        count = len(blocks)
        at = [(i, j) for i in range(count) for j in range(i, count)]
        known = {(i, j) for i, j in at if not self.is_explicit and (i == j or (i, j) == (0, 1))}
        # X^H A X is diagonal and stays known. All other products with A are computed, and the unknown ones with B.
        with_A = [pair for pair in at if pair not in known or pair[1]]
        with_B = [pair for pair in at if pair not in known]
        found = grams(
            [(blocks[i][0], blocks[j][1]) for i, j in with_A] + [(blocks[i][0], blocks[j][2]) for i, j in with_B]
        )
        of_A, of_B = dict(zip(with_A, found, strict=False)), dict(zip(with_B, found[len(with_A) :], strict=True))
        dtype = self.X.dtype
        for i, j in known:
            of_B[i, j] = np.eye(blocks[i][0].shape[1], blocks[j][0].shape[1], dtype=dtype) * (i == j)
        of_A.setdefault((0, 0), np.diag(self.values).astype(dtype))
        return self._hermitian(of_A, count), self._hermitian(of_B, count)

    def _hermitian(self, blocks: dict[tuple[int, int], NDArray[Any]], count: int) -> NDArray[Any]:
        """Return the Hermitian matrix whose upper triangle of blocks is given."""
        if self.is_explicit:
            blocks |= {(i, i): (blocks[i, i] + blocks[i, i].T.conj()) / 2 for i in range(count)}
        return np.block([
            [blocks[i, j] if i <= j else blocks[j, i].T.conj() for j in range(count)] for i in range(count)
        ])  # fmt: skip

    def _combine(self, blocks: list[tuple[Block, Block, Block]], vectors: NDArray[Any]) -> None:
        """Replace X by the Ritz vectors, P by their part from R and P, and the products with A and B likewise."""
        limits = np.cumsum([one.shape[1] for one, _, _ in blocks])[:-1]
        of_X, *others = np.split(vectors, limits)
        is_standard = self.of_B is None
        self.P, self.free_P = self._sum(blocks, others, 0, self.free_P), self._free(self.P)
        self.AP, self.free_AP = self._sum(blocks, others, 1, self.free_AP), self._free(self.AP)
        self.BP = self.P if is_standard else self._sum(blocks, others, 2, np.empty_like(self.X))
        target = self.other if self.best is self.X else self.X
        if self.best is self.X:
            self.other = self.X
        self.X = combine(target, (self.X, of_X), (self.P, None))
        combine(self.AX, (self.AX, of_X), (self.AP, None))
        self.BX = self.X if is_standard else combine(self.BX, (self.BX, of_X), (self.BP, None))

    def _free(self, block: Block | None) -> Block:
        return np.empty_like(self.X) if block is None else block

    @staticmethod
    def _sum(blocks: list[tuple[Block, Block, Block]], factors: list[NDArray[Any]], which: int, out: Block) -> Block:
        return combine(out, *((one[which], factor) for one, factor in zip(blocks[1:], factors, strict=True)))

    def _note_last(self, at: int) -> None:
        norms = self._residual_norms(at + 1)
        self.lambdas[at + 1] = self.values
        norm = float(norms.sum() / self.size)
        if norm < self.best_norm:
            self.best_norm, self.best_at, self.best = norm, at + 1, self.X
        if norms.max() > self.tol:
            self._warn(
                f"Exited at iteration {at} with accuracies \n{norms}\nnot reaching the requested tolerance "
                f"{self.tol}.\nUse iteration {self.best_at} instead with accuracy \n{self.best_norm}.\n"
            )

    def _finish(self) -> tuple[NDArray[Any], Block]:
        """Return the best X after one more Rayleigh-Ritz step."""
        X = self.X = self.best
        self._constrain(X)
        self.AX = self.of_A(X)
        self.BX = X if self.of_B is None else self.of_B(X)
        of_A, of_B = gram(X, self.AX), gram(X, self.BX)
        try:
            values, vectors = eigh((of_A + of_A.T.conj()) / 2, (of_B + of_B.T.conj()) / 2, check_finite=False)
        except LinAlgError as error:
            raise ValueError("eigh has failed in lobpcg postprocessing") from error
        self.values, vectors = self._chosen(values, vectors)
        for block in {id(one): one for one in (X, self.AX, self.BX)}.values():
            combine(block, (block, vectors))
        norms = self._residual_norms(self.best_at + 1)
        self.lambdas[self.best_at + 1] = self.values
        if norms.max() > self.tol:
            self._warn(
                f"Exited postprocessing with accuracies \n{norms}\nnot reaching the requested tolerance {self.tol}."
            )
        return self.values, X

    @staticmethod
    def _warn(what: str) -> None:
        warn_at(_CALLER + 1, what, UserWarning)
