"""Public function `einsum`. Products and sums of light matrices need no other module; the library computes the rest."""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from numpy.typing import DTypeLike, NDArray

from autosparse import light
from autosparse.light.construct import wrapped_if_scipys
from autosparse.light.matrices import csr_array

_PLUS_TIMES: Final = "plus_times"  # `contraction.expressions.semirings.PLUS_TIMES`, which is not loaded yet

EXACT: Final = 0
"""The computation is einsum's for infinities and NaNs, too."""
FINITE_RESULT: Final = 1
"""The computation also multiplies by entries that are not stored, or sums: it is einsum's where the result is finite.
"""
FOR_FINITE: Final = 2
"""The computation is einsum's for finite operands: it drops sums that are zero, or multiplies such entries before."""

Step = tuple[str, tuple[Any, ...], tuple[int, ...]]
"""Function of one or two values, by name and with options, and the positions of these values."""
Plan = tuple[tuple[Step, ...], int]
"""Steps, each of which appends its result to the values, and the values for which the last one is einsum's."""
_ROWS: Final = "rows", (False,)
_PLANS: Final[Mapping[tuple[str, str], Plan]] = {
    ("ab,bc->ac", "ss"): ((("product", (False, False, False), (0, 1)), (*_ROWS, (2,))), EXACT),
    ("ab,cb->ac", "ss"): ((("product", (False, True, False), (0, 1)), (*_ROWS, (2,))), EXACT),
    ("ab,ac->bc", "ss"): ((("product", (True, False, False), (0, 1)), (*_ROWS, (2,))), EXACT),
    ("ab,bc->ac", "sd"): ((("contract", (False, 0), (0, 1)),), EXACT),
    ("ab,cb->ac", "sd"): ((("contract", (False, 1), (0, 1)),), EXACT),
    ("ab,ac->bc", "sd"): ((("contract", (True, 0), (0, 1)),), EXACT),
    ("ab,b->a", "sd"): ((("contract", (False, 0), (0, 1)),), EXACT),
    ("ab,a->b", "sd"): ((("contract", (True, 0), (0, 1)),), EXACT),
    ("ab,a,b->", "sdd"): ((("contract", (False, 0), (0, 2)), ("arrays", ("a,a->", False), (1, 3))), FINITE_RESULT),
    ("ab,ab->ab", "ss"): ((("multiply", (False,), (0, 1)), (*_ROWS, (2,))), FINITE_RESULT),
    ("ab,ab->a", "ss"): ((("multiply", (False,), (0, 1)), ("sums", (False,), (2,))), FINITE_RESULT),
    ("ab,ab->", "ss"): ((("multiply", (False,), (0, 1)), ("total", (), (2,))), FINITE_RESULT),
    ("ab,ab->ab", "sd"): ((("entries", (False,), (0, 1)), (*_ROWS, (2,))), EXACT),
    ("ab,a->ab", "sd"): ((("scale", (True,), (0, 1)), (*_ROWS, (2,))), EXACT),
    ("ab,b->ab", "sd"): ((("scale", (False,), (0, 1)), (*_ROWS, (2,))), EXACT),
    ("ab,bc,ca->", "sss"): (
        (("product", (False, False, True), (0, 1)), ("multiply", (True,), (2, 3)), ("total", (), (4,))),
        FOR_FINITE,
    ),
    ("ab->ba", "s"): ((("rows", (True,), (0,)),), EXACT),
    ("ab->a", "s"): ((("sums", (False,), (0,)),), EXACT),
    ("ab->b", "s"): ((("sums", (True,), (0,)),), EXACT),
    ("ab->", "s"): ((("total", (), (0,)),), EXACT),
    ("aa->a", "s"): ((("diagonal", (), (0,)),), EXACT),
    ("aa->", "s"): ((("diagonal", (), (0,)), ("array", ("a->", (0,)), (1,))), EXACT),
}
"""Plans that `pairs.plan` finds, whose import takes 0.3 ms, by subscripts with letters in order of appearance, and "s"
or "d" for each sparse or dense operand. They do not depend on extents and numbers of entries, except with three sparse
operands, where these are equal."""


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
    evaluate = importlib.import_module("autosparse.contraction.surface").evaluate  # it loads the library
    return evaluate(arguments, format=format, out=out, dtype=dtype, casting=casting, semiring=semiring)


def _by_rows(A: Any, is_turned: bool = False) -> Any:
    """Return A, or its transpose with sorted and distinct entries, as a csr_array, as einsum's results are."""
    rows = _turned(A) if is_turned else A.tocsr()
    rows = A.T.tocsr(copy=True) if rows is None else rows
    rows = rows if type(rows) is csr_array else csr_array(rows)
    if is_turned:
        rows.sum_duplicates()
    return rows


def _turned(A: Any) -> Any:
    """Return the transpose of a long light matrix by the C runtime's threads; None where SciPy should compute it."""
    rows = light.rows_of(A)
    is_long = rows is not None and not A._transposed and rows.arrays[1].size >= light.LONG_SUM
    runtime = light.runtime() if is_long else None
    made = None if runtime is None else runtime.turned(rows)
    return None if made is None else csr_array(made[::-1], shape=A.shape[::-1])


def _product(A: Any, B: Any, is_left_turned: bool, is_right_turned: bool, is_inner: bool) -> Any:
    return (A.T if is_left_turned else A) @ (B.T if is_right_turned else B)


def _planner() -> Any:
    """Return the module `pairs`, which imports this one."""
    return importlib.import_module("autosparse.light.pairs")


def _planned(name: str, *given: Any) -> Any:
    """Return the result of a function of `pairs` whose step is in no common plan."""
    start_ns = perf_counter_ns()
    made = getattr(_planner(), name)(*given)
    light.count(start_ns, share=1)
    return made


def contract(A: Any, X: Any, is_turned: bool, axis: int) -> Any:
    """Return the product of A, or of its transpose, with an array whose `axis` is summed over."""
    M = A.T if is_turned else A
    if X.ndim == 1:
        return M @ X
    columns = np.moveaxis(X, axis, 0) if axis else X
    if X.ndim == 2:
        return M @ columns
    return (M @ columns.reshape(len(columns), -1)).reshape(-1, *columns.shape[1:])


def arrays(X: Any, Y: Any, text: str, by_blas: bool) -> Any:
    """Return an einsum of two arrays. By NumPy's loop, if the arrays are small or vectors.

    A BLAS's threads would occupy the cores of later products for 50 ms.
    """
    return np.einsum(text, X, Y, optimize=["einsum_path", (0, 1)] if by_blas else False)


COMMON: Final[Mapping[str, Callable[..., Any]]] = {
    "array": lambda X, text, summed: np.add.reduce(X, axis=summed) if summed else np.einsum(text, X),
    "arrays": arrays,
    "contract": contract,
    "dense": lambda v: v.toarray(),
    "turn": np.transpose,
    "diagonal": lambda A: A.diagonal(),
}
"""Functions of steps that are the same for light and complete matrices."""


def _values(found: Any) -> Any:
    """Return the values of the entries of a sparse matrix; return other results unchanged."""
    rows = light.rows_of(found)
    values = found if rows is None else rows.arrays[2]
    return values.data if sps.issparse(values) else values


KERNEL_SHARE: Final = 64
"""Divisor of the time of a call before it counts towards `LOADING_NS`, besides what its products count themselves: the
library saves nothing before it compiles a kernel, and first waits for `paid.COMPILE_S` of calls."""

_STEPS: Final[Mapping[str, Callable[..., Any]]] = {
    **COMMON,
    "sums": lambda A, of_columns: np.asarray((A.T if of_columns else A).sum(axis=1)).reshape(-1),
    "total": lambda A: _values(A).sum(),
    "product": _product,
    "multiply": lambda A, B, is_turned: A.multiply(B.T if is_turned else B),
    "entries": lambda A, X, is_turned: A.multiply(X.T if is_turned else X).tocsr(),
    "scale": lambda A, x, of_rows: A.multiply(x[:, None] if of_rows else x).tocsr(),
    "sampled": functools.partial(_planned, "sampled"),
    "outer": functools.partial(_planned, "outer"),
    "rows": _by_rows,
}
"""Functions of the steps of plans, for light matrices."""


def _by_products(arguments: tuple[Any, ...]) -> Any:
    """Return the einsum of light matrices and arrays by products of pairs; None where those do not compute it."""
    text, given = arguments[0], arguments[1:]
    if type(text) is not str or not text.isascii() or not light.may_be_light():
        return None
    operands = [wrapped_if_scipys(one) for one in given]
    inputs, arrow, output = (part.replace(" ", "") for part in text.partition("->"))
    if arrow and not {"+", "-"}.isdisjoint(inputs):
        return _of_terms(inputs, output, operands)
    n_bits = tuple(map(_n_bits, operands))
    if not arrow or None in n_bits or len(names := tuple(inputs.split(","))) != len(operands):
        return None
    plan = _plan(names, output, tuple(one.shape for one in operands), n_bits)
    return None if plan is None else _computed(plan, operands)


def _of_terms(inputs: str, output: str, operands: list[Any]) -> Any:
    """Return the sum of terms of one dtype that are all matrices or all arrays; None where they are not."""
    terms = inputs.replace("-", "+-").removeprefix("+").split("+")
    names = [term.removeprefix("-").split(",") for term in terms]
    letters, n_bits = [one for term in names for one in term], set(map(_n_bits, operands))
    is_plain = None not in n_bits and all(sps.issparse(one) <= (one.ndim == 2) for one in operands)
    is_plain = is_plain and (not output or output.isalpha()) and len(set(output)) == len(output)
    shapes = [one.shape for one in operands] if is_plain else []
    if len(letters) != len(shapes) or len(terms) < 2 or not (min(map(len, terms)) and fits(letters, shapes)):
        return None
    dtype, total, at = operands[0].dtype, None, 0
    if dtype.char not in light.KERNEL_TYPES or any(one.dtype != dtype for one in operands):
        return None
    for term, own in zip(terms, names, strict=True):
        given = operands[at : (at := at + len(own))]
        made = given[0] if own == [output] else _by_products((f"{','.join(own)}->{output}", *given))
        if sps.issparse(made) and made is not given[0]:
            made.sort_indices()  # of a product
        total = None if made is None else _added(total, made, is_negative=term.startswith("-"))
        if total is None:
            return None
    return csr_array(total[::-1], shape=made.shape) if type(total) is tuple else total


def _added(total: Any, made: Any, *, is_negative: bool) -> Any:
    """Return the sum of a total (None: nothing yet) and a term, where both are arrays or matrices; else None.

    The sum of matrices is (indptr, indices, data), with an entry where one of them has an entry.
    """
    if not (sps.issparse(made) or type(total) is tuple):
        with np.errstate(all="ignore"):
            return (-made if is_negative else made) if total is None else total - made if is_negative else total + made
    start_ns, runtime = perf_counter_ns(), light.runtime()
    rows = light.rows_of(_by_rows(made)) if sps.issparse(made) else None
    found = None if rows is None else rows.sound()
    if found is None or runtime is None or not (total is None or type(total) is tuple):
        return None
    part = (*found[0], found[1])
    if total is None:
        return (*found[0], -found[1]) if is_negative else part
    if any(one.dtype != other.dtype for one, other in zip(total, part, strict=True)):
        return None
    total = runtime.sum_of("-" if is_negative else "+", (total, part), runtime.empty, 0)
    light.count(start_ns, share=KERNEL_SHARE)
    return total


@functools.lru_cache(maxsize=1024)
def _plan(
    names: tuple[str, ...], output: str, shapes: tuple[tuple[int, ...], ...], n_bits: tuple[int, ...]
) -> Plan | None:
    """Return the plan of `pairs.plan`, from `_PLANS` where possible."""
    kinds = ["d" if bits < 0 else "s" for bits in n_bits]
    are_equal = len({*n_bits}) == len({*shapes}) == 1
    if len(names) <= 3 and fits(names, shapes) and (are_equal or kinds != ["s"] * 3):
        for order in itertools.permutations(range(len(names))):
            key = renamed([names[n] for n in order], output), "".join(kinds[n] for n in order)
            if key in _PLANS:
                steps, values = _PLANS[key]
                places = *order, *range(len(order), len(order) + len(steps))
                return tuple((name, how, tuple(places[n] for n in at)) for name, how, at in steps), values
    made: Plan | None = _planner().plan(names, output, shapes, n_bits)
    return made


def fits(names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> bool:
    """Return whether each letter has one extent, which is not 0."""
    extents: dict[str, int] = {}
    return all(
        len(letters) == len(shape)
        and all(n and extents.setdefault(name, n) == n for name, n in zip(letters, shape, strict=True))
        for letters, shape in zip(names, shapes, strict=True)
    )


def renamed(inputs: Sequence[str], output: str) -> str:
    """Return the text of subscripts with letters renamed in order of appearance."""
    names: dict[str, str] = {}
    text = f"{','.join(inputs)}->{output}"
    return "".join(names.setdefault(one, chr(97 + len(names))) if one.isalpha() else one for one in text)


def run(plan: Plan, operands: Sequence[Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
    """Return the result of the last step of a plan."""
    made = list(operands)
    for name, options, at in plan[0]:
        given = [made[n] for n in at]
        for n in at:
            made[n] = None
        made.append(functions[name](*given, *options))
    return made[-1]


def _computed(plan: Plan, operands: list[Any]) -> Any:
    """Return the result of a plan; None where it might not be einsum's."""
    kept = [(rows, rows.checked) for one in operands if (rows := light.rows_of(one)) is not None]
    spent_ns, start_ns = light._spent_ns, perf_counter_ns()
    (steps, values), n = plan, len(operands)
    try:
        with np.errstate(all="ignore"):  # as the library's
            dtype = operands[0].dtype
            if any(one.dtype != dtype for one in operands):
                dtype = np.result_type(*(one.dtype for one in operands))
                if len(steps[0][2]) != n or n > 2:  # else the product promotes them
                    operands = [one if one.dtype == dtype else one.astype(dtype) for one in operands]
            if values == FOR_FINITE and not all(map(_is_finite, operands)):
                return None
            found = run(plan, operands, _STEPS)
            if found.dtype != dtype:  # sums of narrow integers and booleans
                found = found.astype(dtype)
            return found if values == EXACT or _is_finite(found) else None
    finally:
        light.restore(kept, None)  # SciPy's methods keep no array that they fetch
        light._spent_ns = max(light._spent_ns, spent_ns + (perf_counter_ns() - start_ns) // KERNEL_SHARE)


def _is_finite(found: Any) -> bool:
    """Return whether no value is infinite or NaN, judged by the sum of all values, which may also overflow."""
    return bool(np.isfinite(np.add.reduce(_values(found), axis=None)))


def _n_bits(operand: Any) -> int | None:
    """Return the number of bits of the number of entries of a light matrix or a vector whose indices are in bounds.

    Return -1 for an array, and None for other operands, and types of values that these steps do not compute.
    """
    rows = light.rows_of(operand)
    if rows is not None:
        is_plain = rows.arrays[2].dtype.char in light.PLAIN_TYPES
        is_light = is_plain and operand._twin._twin is type(operand) and rows.sound()
        return rows.arrays[1].size.bit_length() if is_light else None
    kind = type(operand)
    if kind not in (np.ndarray, sps.coo_array) or operand.dtype.char not in light.PLAIN_TYPES:
        return None
    if kind is np.ndarray:
        return -1 if operand.dtype.isnative else None
    at = operand.coords[0]
    is_vector = operand.ndim == 1 and at.size == operand.data.size and operand.dtype.isnative
    return at.size.bit_length() if is_vector and not np.count_nonzero((at < 0) | (at >= operand.shape[0])) else None
