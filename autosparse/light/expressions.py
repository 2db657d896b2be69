"""Public function `einsum`. Products and sums of light matrices need no other module; the library computes the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from autosparse import light

_PLUS_TIMES: Final = "plus_times"  # `contraction.expressions.semirings.PLUS_TIMES`, which is not loaded yet


def einsum(
    *arguments: Any, format: str | None = None, out: NDArray[Any] | None = None, dtype: DTypeLike | None = None,
    casting: str = "safe", optimize: object = None, semiring: str = _PLUS_TIMES,
) -> Any:  # fmt: skip
    """Evaluate the Einstein summation convention on operands of which some are sparse, as ``np.einsum`` does on arrays.

    Parameters
    ----------
    arguments
        Subscripts, then the operands, or operands and index lists in turn, as for ``np.einsum``. Operands are sparse
        matrices and arrays of SciPy and autosparse, sparse tensors, dense arrays and scalars. Repeated indices, sums,
        ``...``, broadcasting and type promotion follow NumPy. Subscripts may also be a sum of terms, as in
        ``"ij,jk - ik -> ik"``: each term is an einsum, repeated along the output's indices that it lacks.
    format
        Kind of the result: "csr", "csc", "coo", "dense", "tensor", "dcsr" (two dimensions) or "csf". The last two are
        tensors whose entries are distinct and sorted by mode, without memory for empty rows. None: the result is sparse
        if it has two or more dimensions and sparse operands have all of its indices. It is then a `csr_array`, or a
        `tensor` above two dimensions and for dtypes that SciPy's matrices lack.
    out
        ndarray that receives the result and is returned.
    dtype, casting
        Type of the computation (None: the promotion of all operands), and the rule for converting operands to it.
    optimize
        Accepted for compatibility with NumPy, without effect: the sparsity patterns determine the order of products.
    semiring
        Operations in place of addition and multiplication: "plus_times", "min_plus", "max_plus", "max_times" (values
        that are not negative) or "or_and" (booleans). An entry that is not stored is the semiring's zero: infinity for
        "min_plus", minus infinity for "max_plus", 0 or False for the others. Integers are converted to float64 where
        the zero is infinite.

    Returns
    -------
    Sparse or dense array. A sparse result stores an entry wherever a term of the sum exists, even if values cancel.
    With torch tensors (dense, COO, CSR) among the operands, the result is a dense tensor. Gradients then flow to dense
    operands and to the values of sparse operands, with the default semiring only. Dask arrays are computed first
    (`asp.dask.einsum` is lazy).

    Raises
    ------
    EinsumError (ValueError) if subscripts and operands do not fit together, or if `format` is unknown, does not fit the
    number of dimensions, or is sparse although `out` is given.

    >>> A = sps.csr_array([[1.0, 2.0], [0.0, 3.0]])
    >>> asp.einsum("ij,jk->ik", A, A).toarray()
    array([[1., 8.],
           [0., 9.]])
    >>> float(asp.einsum("ij,ij->", A, A))
    14.0
    >>> asp.einsum("ij,jk + ik -> ik", A, A, A, semiring="min_plus").toarray()  # paths of at most two edges
    array([[1., 2.],
           [0., 3.]])

    """
    if format is None and out is None and dtype is None and semiring == _PLUS_TIMES and not light.is_complete:
        found = _by_products(arguments)
        if found is not None:
            return found
    from autosparse.contraction.surface import evaluate  # it loads the library

    return evaluate(arguments, format=format, out=out, dtype=dtype, casting=casting, semiring=semiring)


def _row_sums(A: Any, B: Any) -> Any:
    return np.asarray(A.multiply(B).sum(axis=1)).reshape(-1)


_PRODUCTS: Final[Mapping[tuple[str, str], tuple[Callable[..., Any], bool]]] = {
    ("ab,bc->ac", "sd"): (lambda A, X: A @ X, True),
    ("ab,b->a", "sd"): (lambda A, x: A @ x, True),
    ("ab,a->b", "sd"): (lambda A, x: A.T @ x, True),
    ("ab,ac->bc", "sd"): (lambda A, X: A.T @ X, True),
    ("a,ab,b->", "dsd"): (lambda x, A, y: x @ (A @ y), False),
    ("ab,ab->a", "ss"): (_row_sums, False),
    ("ab,ab->", "ss"): (lambda A, B: A.multiply(B).sum(), False),
    ("aa->", "s"): (lambda A: A.diagonal().sum(), True),
}
"""Subscripts and kinds of operands -> the computation, and whether it is einsum's for infinities and NaNs, too."""


def _by_products(arguments: tuple[Any, ...]) -> Any:
    """Return the einsum of light matrices and arrays of one dtype by a row of `_PRODUCTS`; None for all others."""
    text, operands = arguments[0], arguments[1:]
    if type(text) is not str or not 0 < len(operands) < 4 or not light.may_be_light():
        return None
    kinds = "".join(map(_kind, operands))
    letters: dict[str, str] = {}
    named = "".join(letters.setdefault(one, chr(97 + len(letters))) if one.isalpha() else one for one in text)
    run, is_exact = _PRODUCTS.get((named.replace(" ", ""), kinds), (None, False))
    if run is None or operands[0].dtype.char not in "fd" or len({one.dtype for one in operands}) > 1:
        return None
    extents: dict[str, int] = {}
    for names, one in zip(named.replace(" ", "").partition("->")[0].split(","), operands, strict=True):
        is_whole = len(names) == one.ndim
        if not is_whole or any(extents.setdefault(name, n) != n for name, n in zip(names, one.shape, strict=True)):
            return None
    with np.errstate(all="ignore"):  # as the library's
        found = run(*operands)
    return found if is_exact or np.isfinite(found).all() else None


def _kind(operand: Any) -> str:
    """Return "s" for a light matrix whose indices are within bounds, "d" for an array, "?" for others."""
    rows = light.rows_of(operand)
    if rows is not None:
        return "s" if operand._twin._twin is type(operand) and rows.sound() else "?"
    return "d" if type(operand) is np.ndarray else "?"
