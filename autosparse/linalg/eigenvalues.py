"""`eigsh`, `eigs` and `svds`: SciPy's functions (ARPACK) with the products of autosparse.

If A is used for products only, SciPy's function receives an operator with autosparse's products. For factorizations of
shift-invert modes and for dense fallbacks it receives the matrix itself.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import scipy.sparse as sps
import scipy.sparse.linalg
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from autosparse._native import python_objects
from autosparse.interop.relocated import scipys
from autosparse.light.construct import has_own_product, wrapped

AnyArray = NDArray[Any]


class MatrixOperator(LinearOperator):  # type: ignore[misc]  # SciPy's classes carry no types
    """An autosparse array as an operator whose products are one call each, without LinearOperator's checks."""

    def __init__(self, A: Any) -> None:
        super().__init__(A.dtype, A.shape)
        self.matrix = A

    @functools.cached_property
    def _adjoint_matrix(self) -> Any:
        transposed = self.matrix.T
        return transposed.conj() if self.dtype.kind == "c" else transposed

    def matvec(self, x: AnyArray) -> AnyArray:
        """Return A x, for a vector x or a matrix."""
        return self.matrix @ np.asarray(x)  # type: ignore[no-any-return]

    def rmatvec(self, x: AnyArray) -> AnyArray:
        """Return A^H x, for a vector x or a matrix."""
        return self._adjoint_matrix @ np.asarray(x)  # type: ignore[no-any-return]

    _matvec = _matmat = matmat = matvec
    _rmatvec = _rmatmat = rmatmat = rmatvec

    def _adjoint(self) -> LinearOperator:
        return MatrixOperator(self._adjoint_matrix)

    def _transpose(self) -> LinearOperator:
        return MatrixOperator(self.matrix.T)


def _products(A: Any) -> Any:
    """Return the operator of a compressed matrix; return anything else unchanged."""
    is_compressed = sps.issparse(A) and A.ndim == 2 and A.format in ("csr", "csc")
    if not (python_objects.has_runtime and is_compressed) or has_own_product(A):
        return A
    return MatrixOperator(wrapped(A) if type(A).__module__.startswith("scipy.") else A)


def _of_square(A: Any, k: Any, M: Any = None, sigma: Any = None, **how: Any) -> Any:
    """Return the operand for SciPy's eigs and eigsh: A itself if they factorize or copy it, else its operator."""
    is_factorised = sigma is not None and how.get("OPinv") is None
    if is_factorised or not sps.issparse(A) or A.shape[0] != A.shape[1] or not 0 < k < A.shape[0] - 1:
        return A
    return _products(A)


@functools.wraps(scipy.sparse.linalg.eigsh, assigned=("__name__", "__qualname__"))
def eigsh(A: Any, k: int = 6, *how: Any, **named: Any) -> Any:
    """Compute k eigenvalues and eigenvectors of a Hermitian A, with the arguments of `scipy.sparse.linalg.eigsh`.

    >>> A = asp.csr(sps.diags_array(np.arange(1.0, 101.0)))
    >>> np.allclose(asp.linalg.eigsh(A, 2, return_eigenvectors=False), [99, 100])
    True
    """
    return scipys("eigsh")(_of_square(A, k, *how[:2], **named), k, *how, **named)


@functools.wraps(scipy.sparse.linalg.eigs, assigned=("__name__", "__qualname__"))
def eigs(A: Any, k: int = 6, *how: Any, **named: Any) -> Any:
    """Compute k eigenvalues and eigenvectors of A, with the arguments of `scipy.sparse.linalg.eigs`.

    >>> A = asp.csr(sps.diags_array(np.arange(1.0, 101.0)))
    >>> np.allclose(sorted(asp.linalg.eigs(A, 2, return_eigenvectors=False).real), [99, 100])
    True
    """
    return scipys("eigs")(_of_square(A, k, *how[:2], **named), k, *how, **named)


@functools.wraps(scipy.sparse.linalg.svds, assigned=("__name__", "__qualname__"))
def svds(A: Any, k: int = 6, *how: Any, **named: Any) -> Any:
    """Compute k singular values and vectors of A, with the arguments of `scipy.sparse.linalg.svds`.

    >>> A = asp.csr(sps.diags_array(np.arange(1.0, 101.0)))
    >>> np.allclose(asp.linalg.svds(A, 2, return_singular_vectors=False), [99, 100])
    True
    """
    return scipys("svds")(_products(A), k, *how, **named)
