"""Map common einsum expressions to existing products of this library and elementwise operations of SciPy and NumPy.

No kernel is generated for these expressions. Routes with `begins` serve only the first calls: a generated kernel does
in one pass what such a route does in several, and is compiled once calls have paid for it (`routes.paid`).
"""

# No `from __future__ import annotations`: a NamedTuple would then compile each annotation string at import.

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import scipy.sparse as sps

from autosparse.arrays import construct
from autosparse.arrays.family import csr_array, csr_matrix
from autosparse.contraction.kinds import OperandKind, arrays_of, entries
from autosparse.contraction.routes import elementwise as by_entry
from autosparse.contraction.subscripts import Subscripts
from autosparse.core.dtypes import Real
from autosparse.light.expressions import renamed

BY_ROWS: Final[dict[type, type]] = {
    csr_array: csr_array,
    csr_matrix: csr_matrix,
    sps.csr_array: csr_array,
    sps.csr_matrix: csr_matrix,
}
"""CSR classes, and the class of a product that has such a matrix on the left."""
OF_SCIPY: Final = "?bBhHiIlLqQfdgFDG"
"""Characters of the dtypes that SciPy's matrices support; half precision and objects are not included."""
MAX_OPERANDS: Final = 4
"""Maximum number of operands of a row of `ROUTES`."""
MAX_PLACES: Final = 1 << 27
"""Maximum extent for which routes apply. Routes allocate arrays of that length; kernels and joins scale with nnz."""
MAX_PRODUCTS: Final = 1 << 25
"""Maximum number of multiplications at which a whole sparse product is computed though only some entries are needed."""


def ours(A: Any) -> Any:
    """Return `A` as a CSR matrix of this library: `A` itself if it is one, else over shared arrays where possible."""
    return A if type(A) in (csr_array, csr_matrix) else construct.csr(A, copy=False)


def product(A: Any, B: Any) -> Any:
    """Return ``A @ B`` for sparse A and sparse or dense B."""
    if type(A) in BY_ROWS and type(B) in BY_ROWS:
        from autosparse.arrays import sparse_product  # imported late: products with dense operands do not need it

        made = sparse_product.multiply_rows(BY_ROWS[type(A)], A, B)
        if made is not None:
            return made
    left = ours(A)
    return left @ (left if B is A else ours(B) if sps.issparse(B) else B)


def _turned(A: Any) -> Any:
    """Return the transpose of `A` as CSR."""
    return ours(A).T.tocsr()


def sampled(A: Any, X: Any, Y: Any) -> Any:
    """Return the sampled dense product ``asp.sddmm(A, X, Y)``."""
    from autosparse.arrays.sampled import sddmm

    return sddmm(ours(A), X, Y)


def factors(T: Any, *matrices: Any) -> Any:
    """Return the tensor product ``asp.mttkrp(T, [None, *matrices], 0)``."""
    from autosparse.arrays.sparse_tensor import mttkrp

    return mttkrp(T, [None, *matrices], 0)


def batched(T: Any, X: Any) -> Any:
    """Return the products of the matrices T[n] and X[n], as one product of a block diagonal matrix."""
    (n, rows, cols), ((at, row, col), values) = T.shape, entries(T)
    places = (at * rows + row, at * cols + col)
    blocks = sps.coo_array((values.astype(X.dtype, copy=False), places), shape=(n * rows, n * cols)).tocsr()
    return product(blocks, X.reshape(n * cols, -1)).reshape(n, rows, -1)


def chain(A: Any, B: Any, C: Any) -> Any:
    """Return ``A @ B @ C``, multiplied in the cheaper order."""
    from autosparse.contraction.routes.chain import product as of_three

    return of_three(A, B, C)


def masked(A: Any, B: Any, C: Any) -> Any:
    """Return ``B @ C`` times `A` elementwise."""
    return by_entry.product(A, product(B, C))


def is_finite(operand: Any) -> bool:
    """Return whether no value is infinite or NaN, judged by the sum of all values, which may also overflow."""
    values = operand if not sps.issparse(operand) else arrays_of(operand)[2] if operand.ndim == 2 else operand.data
    return values.dtype.kind not in "fc" or bool(np.isfinite(np.add.reduce(values, axis=None)))


def n_products(A: Any, B: Any) -> float:
    """Return the number of scalar multiplications in ``A @ B`` of two sparse matrices."""
    lengths = np.diff(arrays_of(B if B.format == "csr" else B.tocsr())[0])
    if A.format == "csc":
        return float(np.diff(arrays_of(A)[0]) @ lengths)
    return float(lengths[arrays_of(A if A.format == "csr" else A.tocsr())[1]].sum(dtype=Real))


class Route(NamedTuple):
    """Existing operation that computes an expression instead of a generated kernel.

    Some operations disagree with einsum on infinite and NaN values. A sparse product drops sums that are zero, a dense
    intermediate holds zeros without an entry and sums that are multiplied later, and SciPy's elementwise product
    multiplies by entries that are not stored. `for_finite` and `finite_result` mark such routes (see `joins` for the
    rule). Routes with `finite_result` check the result, which is shorter than the operands.
    """

    run: Callable[..., Any]  # called with the operands in the order of the table row
    says: str
    begins: bool = False  # a kernel that is compiled later may be faster
    finite_result: bool = False  # multiplies by entries not stored: a result that is not finite is recomputed otherwise
    for_finite: bool = False  # drops zero sums or multiplies by entries not stored: operands must be finite
    pairs: tuple[int, int] | None = None  # positions of the sparse operands whose whole product is computed
    is_turned: bool = False  # the second of `pairs` is transposed before

    def fits(self, operands: Sequence[Any]) -> bool:
        """Return whether these operands are finite, if required, and the route's product has few multiplications."""
        if self.for_finite and not all(map(is_finite, operands)):
            return False
        if self.pairs is None:
            return True
        left, right = (operands[n] for n in self.pairs)
        return n_products(left, right.T if self.is_turned else right) <= MAX_PRODUCTS


PRODUCT: Final = Route(product, "The library's product, A @ B")
OF_ROWS: Final = Route(lambda A, B: product(A, _turned(B)), "The library's product, A @ B.T")
OF_COLUMNS: Final = Route(lambda A, B: product(_turned(A), B), "The library's product, A.T @ B")
SAMPLED: Final = Route(sampled, "The library's sampled product, asp.sddmm(A, X, Y)")
FACTORS: Final = Route(factors, "The library's product of a tensor with factors, asp.mttkrp(T, [None, ...], 0)")
CHAIN: Final = "the library's products, from right to left"
"""Text for routes that multiply from right to left, shown by `explain`."""
DOTS: Final = "elementwise product by SciPy, then sums"
"""Text for routes that sum an elementwise product, shown by `explain`."""
AT_ENTRIES: Final = "NumPy, at the entries of A"
"""Text for routes that read a dense operand at the entries of A, shown by `explain`."""
DOTTED: Final[Any] = {"begins": True, "finite_result": True}
"""Properties of routes that call SciPy's elementwise product."""
TRIANGLES: Final[Any] = {"begins": True, "for_finite": True, "pairs": (0, 1)}
"""Properties of routes that sum over triangles, whose first two operands are multiplied completely."""
MASKED: Final[Any] = {"begins": True, "for_finite": True, "pairs": (1, 2)}
"""Properties of routes that multiply the last two operands completely, and keep entries of the first one."""
ROUTES: Final[dict[tuple[str, str], Route]] = {
    ("ab,bc->ac", "ss"): PRODUCT,
    ("ab,cb->ac", "ss"): OF_ROWS,
    ("ab,ac->bc", "ss"): OF_COLUMNS,
    ("ab,bc->ac", "sd"): PRODUCT,
    ("ab,b->a", "sd"): PRODUCT,
    ("ab,cb->ac", "sd"): Route(lambda A, X: product(A, X.T), "The library's product, A @ X.T"),
    ("ab,ac->bc", "sd"): Route(lambda A, X: ours(A).T @ X, "The library's product, A.T @ X"),
    ("ab,a->b", "sd"): Route(lambda A, x: ours(A).T @ x, "The library's product, A.T @ x"),
    ("ab,bc->ca", "sd"): Route(lambda A, X: product(A, X).T, "The library's product, (A @ X).T"),
    ("ab,ca->cb", "sd"): Route(lambda A, X: (ours(A).T @ X.T).T, "The library's product, X @ A"),
    ("ab,cb->ca", "sd"): Route(lambda A, X: product(A, X.T).T, "The library's product, X @ A.T"),
    ("ab,bc,cd->ad", "sss"): Route(
        chain, "two of the library's products, A @ B @ C in the cheaper order", for_finite=True
    ),
    ("ab,bc,cd->ad", "ssd"): Route(lambda A, B, X: product(A, product(B, X)), CHAIN, finite_result=True),
    ("ab,bc,c->a", "ssd"): Route(lambda A, B, x: product(A, product(B, x)), CHAIN, finite_result=True),
    ("ab,ac,cb->ab", "sdd"): SAMPLED,
    ("ab,ac,bc->ab", "sdd"): SAMPLED._replace(run=lambda A, X, Y: sampled(A, X, Y.T)),
    ("abc,bd,cd->ad", "sdd"): FACTORS,
    ("abcd,be,ce,de->ae", "sddd"): FACTORS,
    ("abc,acd->abd", "sd"): Route(batched, "The library's product of a block diagonal matrix with X"),
    ("ab,a,b->", "sdd"): Route(  # by NumPy's own loop: see `light.expressions`
        lambda A, x, y: np.einsum("i,i->", x, product(A, y)), "The library's product, x @ (A @ y)", finite_result=True
    ),
    ("ab,ab->ab", "ss"): Route(by_entry.product, "elementwise product by SciPy, A.multiply(B)", **DOTTED),
    ("ab,ab,ab->ab", "sss"): Route(
        lambda A, B, C: by_entry.product(by_entry.product(A, B), C), "elementwise products by SciPy", **DOTTED
    ),
    ("ab,ab->a", "ss"): Route(lambda A, B: by_entry.row_sums(by_entry.product(A, B)), DOTS, **DOTTED),
    ("ab,ab->b", "ss"): Route(lambda A, B: by_entry.column_sums(by_entry.product(A, B)), DOTS, **DOTTED),
    ("ab,ab->", "ss"): Route(by_entry.inner, DOTS, **DOTTED),
    ("ab,ba->", "ss"): Route(lambda A, B: by_entry.inner(A, _turned(B)), DOTS, **DOTTED),
    ("ab,ab->ab", "sd"): Route(by_entry.at_entries, AT_ENTRIES, begins=True),
    ("ab,ab->a", "sd"): Route(lambda A, X: by_entry.row_sums(by_entry.at_entries(A, X)), AT_ENTRIES, begins=True),
    ("ab,ab->", "sd"): Route(lambda A, X: by_entry.total(by_entry.at_entries(A, X)), AT_ENTRIES, begins=True),
    ("ab,a->ab", "sd"): Route(by_entry.rows_scaled, "rows scaled by NumPy", begins=True),
    ("ab,b->ab", "sd"): Route(by_entry.columns_scaled, "columns scaled by NumPy", begins=True),
    ("ab,a,b->ab", "sdd"): Route(
        lambda A, x, y: by_entry.columns_scaled(by_entry.rows_scaled(A, x), y),
        "rows and columns scaled by NumPy",
        begins=True,
    ),
    ("ab,ac,cb->ab", "sss"): Route(masked, "(B @ C).multiply(A)", **MASKED),
    ("ab,ac,bc->ab", "sss"): Route(
        lambda A, B, C: masked(A, B, _turned(C)), "(B @ C.T).multiply(A)", **MASKED, is_turned=True
    ),
    ("ab,bc,ca->", "sss"): Route(
        lambda A, B, C: by_entry.inner(_turned(C), product(A, B)), "(A @ B).multiply(C.T).sum()", **TRIANGLES
    ),
    ("ab,bc,ac->", "sss"): Route(
        lambda A, B, C: by_entry.inner(C, product(A, B)), "(A @ B).multiply(C).sum()", **TRIANGLES
    ),
    ("ab->ab", "s"): Route(by_entry.copied, "a copy"),
    ("ab->ba", "s"): Route(lambda A: ours(by_entry.by_rows(_turned(A))), "the library's transpose"),
    ("ab->a", "s"): Route(by_entry.row_sums, "NumPy's sums of rows"),
    ("ab->b", "s"): Route(by_entry.column_sums, "NumPy's sums of columns"),
    ("ab->", "s"): Route(by_entry.total, "NumPy's sum of the entries"),
    ("aa->a", "s"): Route(by_entry.diagonal, "SciPy's diagonal"),
    ("aa->", "s"): Route(by_entry.trace, "the sum of SciPy's diagonal"),
}  # fmt: skip
"""Routes by (subscripts with letters in order of appearance, "s" or "d" for each sparse or dense operand)."""


class Direct(NamedTuple):
    """Route chosen for an expression, with the order and dtype in which it takes the operands."""

    route: Route
    order: tuple[int, ...]  # position of the operand for each position of the table row
    dtype: np.dtype[Any]

    def arguments(self, operands: Sequence[Any]) -> list[Any]:
        """Return the operands in the row's order, matrices as CSR or CSC, all in one dtype."""
        made: dict[int, Any] = {}
        for one in operands:
            if id(one) not in made:
                made[id(one)] = _typed(one, self.dtype)
        return [made[id(operands[n])] for n in self.order]


def direct(kinds: Sequence[OperandKind], subscripts: Subscripts, dtype: np.dtype[Any]) -> Direct | None:
    """Return the route for operands of these kinds, or None if no existing operation computes the einsum."""
    if 0 in subscripts.extents.values() or _is_broadcast(kinds, subscripts) or dtype.char not in OF_SCIPY:
        return None
    if any(kind.is_sparse and len(kind.shape) == 1 for kind in kinds):
        return None
    if max(subscripts.extents.values(), default=0) > MAX_PLACES:
        return None
    for order in itertools.permutations(range(len(kinds))) if len(kinds) <= MAX_OPERANDS else ():
        chosen = [kinds[n] for n in order]
        inputs = tuple(subscripts.inputs[n] for n in order)
        key = renamed(inputs, subscripts.output), "".join("s" if kind.is_sparse else "d" for kind in chosen)
        route = ROUTES.get(key)
        if route is not None and _takes(route, chosen, dtype):
            return Direct(route, order, dtype)
    return None


def _takes(route: Route, kinds: Sequence[OperandKind], dtype: np.dtype[Any]) -> bool:
    """Return whether the route supports operands of these classes and this dtype."""
    if route.run in (factors, sampled) and not (dtype.char in "fd" and all(kind.dtype == dtype for kind in kinds)):
        return False
    return kinds[0].is_tensor is (route.run in (factors, batched)) and not any(kind.is_tensor for kind in kinds[1:])


def _typed(operand: Any, dtype: np.dtype[Any]) -> Any:
    if sps.issparse(operand) and operand.ndim == 2 and operand.format not in ("csr", "csc"):
        operand = operand.tocsr()
    return operand if operand.dtype == dtype else operand.astype(dtype)


def _is_broadcast(kinds: Sequence[OperandKind], subscripts: Subscripts) -> bool:
    """Return whether an operand's extent of 1 is broadcast to a larger one."""
    return any(
        tuple(subscripts.extents[index] for index in letters) != kind.shape
        for kind, letters in zip(kinds, subscripts.inputs, strict=True)
    )
