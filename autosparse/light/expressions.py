"""Public function `einsum`. Products and sums of light matrices need no other module; the library computes the rest."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from numpy.typing import DTypeLike, NDArray

from autosparse import light
from autosparse.light.construct import wrapped_if_scipys
from autosparse.light.matrices import csr_array

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


def _by_rows(A: Any) -> Any:
    """Return A as a csr_array, as einsum's results are."""
    rows = A if A.format == "csr" else A.tocsr()
    return rows if type(rows) is csr_array else csr_array(rows)


def _transposed(A: Any) -> Any:
    rows = csr_array(A.T, copy=True)
    rows.sum_duplicates()
    return rows


def _values(found: Any) -> Any:
    """Return the values of the entries of a sparse matrix; return other results unchanged."""
    rows = light.rows_of(found)
    values = found if rows is None else rows.arrays[2]
    return values.data if sps.issparse(values) else values


def _row_sums(A: Any) -> Any:
    return np.asarray(A.sum(axis=1)).reshape(-1)


KERNEL_SHARE: Final = 64
"""Divisor of the time of a call before it counts towards `LOADING_NS`, besides what its products count themselves: the
library saves nothing before it compiles a kernel, and first waits for `paid.COMPILE_S` of calls."""

_EXACT: Final = 0
"""The computation is einsum's for infinities and NaNs, too."""
_FINITE_RESULT: Final = 1
"""The computation also multiplies by entries that are not stored: it is einsum's where the result is finite."""
_FOR_FINITE: Final = 2
"""The computation is einsum's for finite operands: it drops sums that are zero, or multiplies such entries before."""
_PRODUCTS: Final[Mapping[tuple[str, str], tuple[Callable[..., Any], int]]] = {
    ("ab,bc->ac", "ss"): (lambda A, B: _by_rows(A @ B), _EXACT),
    ("ab,cb->ac", "ss"): (lambda A, B: _by_rows(A @ B.T), _EXACT),
    ("ab,ac->bc", "ss"): (lambda A, B: _by_rows(A.T @ B), _EXACT),
    ("ab,bc->ac", "sd"): (lambda A, X: A @ X, _EXACT),
    ("ab,cb->ac", "sd"): (lambda A, X: A @ X.T, _EXACT),
    ("ab,b->a", "sd"): (lambda A, x: A @ x, _EXACT),
    ("ab,a->b", "sd"): (lambda A, x: A.T @ x, _EXACT),
    ("ab,ac->bc", "sd"): (lambda A, X: A.T @ X, _EXACT),
    # by NumPy's own loop: a BLAS's threads would occupy the cores of later products for 50 ms
    ("ab,a,b->", "sdd"): (lambda A, x, y: np.einsum("i,i->", x, A @ y), _FINITE_RESULT),
    ("ab,ab->ab", "ss"): (lambda A, B: _by_rows(A.multiply(B)), _FINITE_RESULT),
    ("ab,ab,ab->ab", "sss"): (lambda A, B, C: _by_rows(A.multiply(B).multiply(C)), _FINITE_RESULT),
    ("ab,ab->a", "ss"): (lambda A, B: _row_sums(A.multiply(B)), _FINITE_RESULT),
    ("ab,ab->", "ss"): (lambda A, B: _values(A.multiply(B)).sum(), _FINITE_RESULT),
    ("ab,ac,cb->ab", "sss"): (lambda A, B, C: _by_rows(A.multiply(B @ C)), _FOR_FINITE),
    ("ab,bc,ca->", "sss"): (lambda A, B, C: _values((A @ B).multiply(C.T)).sum(), _FOR_FINITE),
    ("ab,bc,ac->", "sss"): (lambda A, B, C: _values((A @ B).multiply(C)).sum(), _FOR_FINITE),
    ("ab,a->ab", "sd"): (lambda A, x: _by_rows(A.multiply(x[:, None])), _EXACT),
    ("ab,b->ab", "sd"): (lambda A, x: _by_rows(A.multiply(x)), _EXACT),
    ("ab->ba", "s"): (_transposed, _EXACT),
    ("ab->a", "s"): (_row_sums, _EXACT),
    ("ab->b", "s"): (lambda A: _row_sums(A.T), _EXACT),
    ("ab->", "s"): (lambda A: _values(A).sum(), _EXACT),
    ("aa->a", "s"): (lambda A: A.diagonal(), _EXACT),
    ("aa->", "s"): (lambda A: A.diagonal().sum(), _EXACT),
}
"""Subscripts and kinds of operands -> the computation, and for which values it is einsum's."""


def _by_products(arguments: tuple[Any, ...]) -> Any:
    """Return the einsum of light matrices and arrays of one dtype by a row of `_PRODUCTS`; None for all others."""
    text, given = arguments[0], arguments[1:]
    if type(text) is not str or not text.isascii() or not 0 < len(given) < 4 or not light.may_be_light():
        return None
    operands = [wrapped_if_scipys(one) for one in given]
    inputs, arrow, output = (part.replace(" ", "") for part in text.partition("->"))
    names = inputs.split(",")
    if not arrow or len(names) != len(operands) or "?" in (kinds := "".join(map(_kind, operands))):
        return None
    if operands[0].dtype.char not in "fd" or len({one.dtype for one in operands}) > 1:
        return None
    extents: dict[str, int] = {}
    for letters, one in zip(names, operands, strict=True):
        if len(letters) != one.ndim:
            return None
        if any(not n or extents.setdefault(name, n) != n for name, n in zip(letters, one.shape, strict=True)):
            return None
    for order in itertools.permutations(range(len(operands))):
        key = _renamed([names[n] for n in order], output), "".join(kinds[n] for n in order)
        if key in _PRODUCTS:
            return _computed(*_PRODUCTS[key], [operands[n] for n in order])
    return None


def _renamed(inputs: list[str], output: str) -> str:
    """Return subscripts with letters renamed in order of appearance; the text unchanged if they are no letters."""
    letters: dict[str, str] = {}
    text = f"{','.join(inputs)}->{output}"
    return "".join(letters.setdefault(one, chr(97 + len(letters))) if one.isalpha() else one for one in text)


def _computed(run: Callable[..., Any], values: int, operands: list[Any]) -> Any:
    """Return the result of a row of `_PRODUCTS`; None where it might not be einsum's."""
    spent_ns, start_ns = light._spent_ns, perf_counter_ns()
    try:
        with np.errstate(all="ignore"):  # as the library's
            if values == _FOR_FINITE and not all(map(_is_finite, operands)):
                return None
            found = run(*operands)
            return found if values != _FINITE_RESULT or _is_finite(found) else None
    finally:
        light._spent_ns = max(light._spent_ns, spent_ns + (perf_counter_ns() - start_ns) // KERNEL_SHARE)


def _is_finite(found: Any) -> bool:
    """Return whether no value is infinite or NaN, judged by the sum of all values, which may also overflow."""
    return bool(np.isfinite(np.add.reduce(_values(found), axis=None)))


def _kind(operand: Any) -> str:
    """Return "s" for a light matrix whose indices are within bounds, "d" for an array, "?" for others."""
    rows = light.rows_of(operand)
    if rows is not None:
        return "s" if operand._twin._twin is type(operand) and rows.sound() else "?"
    return "d" if type(operand) is np.ndarray else "?"
