"""Sparse matrix `Csr` for torch code; its structure, plan and transpose are kept from product to product."""

# mypy: allow-untyped-calls
# (torch's functions are not all typed, its autograd classes not at all)
from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import torch

from autosparse.core.plan import Plan
from autosparse.dispatch import executor
from autosparse.errors import InputError, InputTypeError, OptionError, ShapeError
from autosparse.operands.csr import Operand
from autosparse.scalar.tensors import narrow_index
from autosparse.torch import buffers, coordinates, native, operand
from autosparse.torch.autograd import functions, in_graph
from autosparse.torch.autograd.compiled import run_as_is
from autosparse.torch.autograd.derivatives import has_tangent
from autosparse.torch.checks import (
    NUMBERS,
    REAL,
    autocast,
    check_blocks,
    check_ids,
    common,
    in_memory,
    matrix_shape,
    tensor,
)
from autosparse.torch.structure import INDEX_CODES, IndexArrays

if TYPE_CHECKING:
    from autosparse.explain.explanation import Explanation

Sparse: TypeAlias = "Csr | torch.Tensor"

ORDERED: Final = ("max", "min")
"""Reductions that compare values, and so need real dtypes."""
REDUCTIONS: Final = ("sum", "mean", *ORDERED)


class Csr(buffers.Buffer):
    """Sparse ``n × m`` matrix by compressed rows on the CPU; values (nnz,) have a real or complex floating dtype.

    Each product reads the current values, which may require gradients. `with_values` replaces the values and shares the
    structure. The transpose shares structure and values. Create it with `autosparse.torch.csr`. A `Csr` can be pickled
    and copied like the tensors in it, ``torch.load`` accepts it, and it can be a buffer of a ``torch.nn.Module``.

    >>> A = asp.torch.csr(torch.eye(2).to_sparse_csr())
    >>> A.with_values(torch.tensor([2.0, 3.0])) @ torch.ones(2)
    tensor([2., 3.])
    """

    __slots__ = ("__weakref__", "_transposed", "is_traceable", "rows", "values")
    __array_ufunc__ = None  # NumPy then calls __rmatmul__ for ``array @ A``

    def __init__(self, rows: IndexArrays, values: torch.Tensor, *, transposed: bool = False) -> None:
        self.rows, self.values, self._transposed = rows, in_memory("Csr", rows.fit(values)), transposed
        base = None if torch.compiler.is_compiling() else values._base  # torch.compile reads no view of a sparse tensor
        self.is_traceable = base is None or base.layout is torch.strided

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_again, (self.rows, self.values, self._transposed)

    def __deepcopy__(self, memo: dict[int, Any]) -> Csr:
        values = self.values
        if not values.is_leaf:  # e.g. the values of a sparse tensor that requires gradients: the copy becomes a leaf
            values = memo.setdefault(id(values), values.detach().clone().requires_grad_())
        else:
            values = copy.deepcopy(values, memo)
        return Csr(copy.deepcopy(self.rows, memo), values, transposed=self._transposed)

    @property
    def shape(self) -> torch.Size:
        """Shape (n, m), or (m, n) for a transpose."""
        n, m = self.rows.n_rows, self.rows.n_cols
        return torch.Size((m, n) if self._transposed else (n, m))

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the values."""
        return self.values.dtype

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return self.rows.col.shape[0]

    @property
    def requires_grad(self) -> bool:
        """Return whether the values require gradients."""
        return self.values.requires_grad

    @property
    def is_transposed(self) -> bool:
        """Return whether this matrix is the transpose of the stored one: its columns are the rows of `structure`."""
        return self._transposed

    @property
    def T(self) -> Csr:
        """Transposed matrix, a view that copies nothing."""
        return _turned(self) if self.is_traceable else _turned_as_is(self)

    def t(self) -> Csr:
        """Return the transpose, a view that copies nothing."""
        return self.T

    def with_values(self, values: torch.Tensor) -> Csr:
        """Return a matrix with this structure and other values, (nnz,)."""
        return Csr(self.rows, values, transposed=self._transposed)

    def has_entries_of(self, other: Any) -> bool:
        """Return whether `other` is a `Csr` with the same entries."""
        same = isinstance(other, Csr) and self.shape == other.shape and self._transposed == other._transposed
        return same and all(map(torch.equal, self.rows.arrays, other.rows.arrays))

    def to_torch(self) -> torch.Tensor:
        """Return a torch tensor of layout sparse_csr (sparse_csc for a transpose) that shares indices and values."""
        layout = torch.sparse_csc if self._transposed else torch.sparse_csr
        return torch.sparse_compressed_tensor(
            self.rows.crow, self.rows.col, self.rows.fit(self.values), self.shape, layout=layout,
            check_invariants=False, device=self.values.device,
        )  # fmt: skip

    def matmul(self, X: torch.Tensor) -> torch.Tensor:
        """Return A X for X (m,) or (m, k)."""
        return spmm(self, X)

    def __matmul__(self, X: torch.Tensor) -> torch.Tensor:
        return spmm(self, X)

    def __rmatmul__(self, X: torch.Tensor) -> torch.Tensor:
        two = isinstance(X, torch.Tensor) and X.dim() == 2
        return spmm(self.T, X.T).T if two else spmm(self.T, X)

    def tune(self, columns: int = 1, **hints: Any) -> Plan:
        """Search for a faster kernel for ``A @ X``, X of `columns` columns; later products of this structure use it.

        Hints are those of ``autosparse.csr(...).tune``: runs, effort, budget_s, progress. ``A.T.tune(columns)`` tunes
        the product of the backward pass.
        """
        with self._as_operand() as operand:
            return executor.tune(operand, columns=columns, **hints)

    def explain(self, X: torch.Tensor | int = 1) -> Explanation:
        """Explain which kernel computes ``A @ X`` and why; X is the dense operand or its number of columns."""
        from autosparse.explain.explanation import explain

        if isinstance(X, torch.Tensor):
            if X.dim() not in (1, 2) or X.shape[0] != self.shape[1]:
                raise ShapeError.explained(X.shape, n_rows=self.shape[1])
            X = X.shape[1] if X.dim() == 2 else 1
        with self._as_operand() as operand:
            return explain(operand, X)

    def _as_operand(self) -> AbstractContextManager[Operand]:
        values = native.whole(self.rows.fit(self.values).detach())
        values = values.to(common("Csr", values))
        return operand.held(self.rows, values, transposed=self._transposed)

    def __repr__(self) -> str:
        n, m = self.shape
        grad = ", requires_grad=True" if self.requires_grad else ""
        return f"autosparse.torch.Csr({n} x {m}, nnz={self.nnz}, {self.dtype}, {self.rows.col.dtype} indices{grad})"

    @classmethod
    @run_as_is  # torch.compile passes the operands of ``A @ X`` in the order of ``X @ A``
    def __torch_function__(
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # Any: torch's protocol. SERVED lists the torch functions that accept a Csr.
        served = SERVED.get(function)
        return NotImplemented if served is None else served(*args, **(kwargs or {}))


def _turned(A: Csr) -> Csr:
    return Csr(A.rows, A.values, transposed=not A.is_transposed)


@run_as_is
def _turned_as_is(A: Csr) -> Csr:
    return _turned(A)


def upright(A: Csr, what: str) -> IndexArrays:
    """Return the index arrays of A by rows; raise InputError for a transposed matrix, naming the caller `what`."""
    if A.is_transposed:
        raise InputError.refused(
            f"{what} works on rows, and a transposed matrix is stored by columns",
            given=f"a transposed Csr of shape {tuple(A.shape)}",
            hint="pass autosparse.torch.csr(A.to_torch().to_sparse_csr())",
        )
    return A.rows


def spmm(A: Sparse, X: torch.Tensor, reduce: str = "sum") -> torch.Tensor:
    """Reduce A[i, j] · X[j] over the entries (i, j) of each row i; A (n, m), X (m,) or (m, k) → (n,) or (n, k).

    `reduce`: "sum" (A @ X), "mean" (over a row's entries), "max", "min". Rows without entries give 0. Raises
    ShapeError, OptionError; DtypeError for "max" and "min" of complex numbers.

    >>> A = torch.tensor([[1.0, 1.0], [0.0, 4.0]]).to_sparse_csr()
    >>> asp.torch.spmm(A, torch.tensor([2.0, 4.0]), reduce="mean")
    tensor([ 3., 16.])
    """
    if torch.compiler.is_compiling() and isinstance(A, Csr) and A.is_traceable and in_graph.takes(A, X, reduce):
        return in_graph.spmm(A, X, reduce)
    return _spmm(A, X, reduce)


@run_as_is
def _spmm(A: Sparse, X: torch.Tensor, reduce: str) -> torch.Tensor:
    A = as_csr(A)
    if reduce not in REDUCTIONS:
        raise OptionError.bad_value("reduce", reduce, domain=f"one of {', '.join(REDUCTIONS)}", source="argument")
    (values, dense), result = autocast(A.rows.fit(A.values), X)
    dtype = common("spmm", values, dense, known=REAL if reduce in ORDERED else NUMBERS)
    if X.dim() not in (1, 2) or X.shape[0] != A.shape[1]:
        raise ShapeError.matmul(tuple(A.shape), tuple(X.shape))
    if dtype is not dense.dtype:
        values, dense = values.to(dtype), dense.to(dtype)
    if reduce == "sum":
        product = functions.product(A.rows, values, dense, transposed=A.is_transposed)
        return product if product.dtype is result else product.to(result)
    rows = upright(A, f"spmm(reduce={reduce!r})")
    flat = dense.unsqueeze(1) if X.dim() == 1 else dense
    found = functions.reduction(rows, values, flat, reduce)
    return (found.squeeze(1) if X.dim() == 1 else found).to(result)


def _torch_matmul(A: Any, X: Any) -> torch.Tensor:
    """Compute torch.matmul, mm and mv with a Csr on one side (Any: the other side is a tensor)."""
    product: torch.Tensor = A.__matmul__(X) if isinstance(A, Csr) else X.__rmatmul__(A)
    return product


def _torch_addmm(base: torch.Tensor, A: Any, X: Any, *, beta: Any = 1, alpha: Any = 1) -> torch.Tensor:
    """Compute torch.addmm and addmv: beta · base + alpha · A X; base is not read when beta is 0."""
    product = _torch_matmul(A, X)
    product = product if alpha == 1 else alpha * product
    return product if beta == 0 else product + beta * torch.Tensor.expand(base, product.shape)


def _torch_linear(X: Any, weight: Any, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Compute torch.nn.functional.linear: X weightᵀ + bias, for X of any number of dimensions."""
    rows = X if isinstance(X, Csr) else X.reshape(-1, X.shape[-1])
    product = _torch_matmul(rows, weight.T).reshape(*X.shape[:-1], weight.shape[0])
    return product if bias is None else product + bias


def _torch_sparse_mm(A: Csr, X: torch.Tensor, reduce: str = "sum") -> torch.Tensor:
    return spmm(A, X, reduce={"amax": "max", "amin": "min"}.get(reduce, reduce))


SERVED: Final[dict[Any, Callable[..., torch.Tensor]]] = {
    **dict.fromkeys((torch.matmul, torch.mm, torch.mv), _torch_matmul),
    **dict.fromkeys((torch.Tensor.matmul, torch.Tensor.mm, torch.Tensor.__matmul__), _torch_matmul),
    torch.Tensor.__rmatmul__: lambda X, A: _torch_matmul(A, X),
    torch.sparse.mm: _torch_sparse_mm,
    **dict.fromkeys((torch.addmm, torch.addmv, torch.sparse.addmm), _torch_addmm),
    torch.nn.functional.linear: _torch_linear,
}
"""Implementations of torch functions with a `Csr` among the arguments."""


def _made_again(rows: IndexArrays, values: torch.Tensor, transposed: bool) -> Csr:
    """Return a `Csr` from the parts that were pickled or copied; raise InputTypeError if `rows` is another object."""
    if not isinstance(rows, IndexArrays):
        raise InputTypeError.refused(
            "a Csr in a file is made of rows and values", given=f"an object of type {type(rows).__name__}",
            hint="pass a file written by torch.save",
        )  # fmt: skip
    return Csr(rows, values, transposed=transposed)


if hasattr(torch.serialization, "add_safe_globals"):  # both functions check their arguments
    torch.serialization.add_safe_globals([IndexArrays, _made_again])


@run_as_is
def csr(obj: Any, values: torch.Tensor | None = None, shape: tuple[int, int] | None = None) -> Csr:
    """Return a `Csr` made of a torch tensor (CSR, CSC, COO, dense), a SciPy matrix, a `Csr`, or an edge index (2, E).

    `obj` in CSR or CSC is taken without copies. An edge index lists row i and column j of each entry; for message
    passing from source j to target i put targets first. It is sorted by rows together with `values` (default: ones).
    Duplicate entries are kept. For a matrix, `values` (nnz,) replace its own values, and `shape` must equal its own
    shape. Raises InputError for a tensor that is no matrix, InputTypeError for other objects, StructureError for
    indices outside the shape, ShapeError for values of another length.

    >>> A = asp.torch.csr(torch.tensor([[0, 1, 1], [1, 0, 1]]), shape=(2, 2))  # edges (0, 1), (1, 0), (1, 1)
    >>> A @ torch.ones(2)
    tensor([1., 2.])
    """
    A = as_csr(obj, values, shape)
    if not A.is_traceable and not A.values.requires_grad and not has_tangent(A.values):
        A = A.with_values(A.values.detach())  # shares memory and is no view
    return A


def as_csr(obj: Any, values: torch.Tensor | None = None, shape: tuple[int, int] | None = None) -> Csr:
    """Do what `csr` does, for one product."""
    if type(obj) is not torch.Tensor and hasattr(obj, "as_tensor"):  # torch_geometric.EdgeIndex
        obj = obj.as_tensor()
    if isinstance(obj, torch.Tensor):
        if not obj.is_cpu:
            raise InputError.refused(
                "csr() takes matrices on the CPU", given=f"a tensor on {obj.device}", hint="pass A.cpu()"
            )
        if obj.layout == torch.strided and obj.dim() == 2 and obj.shape[0] == 2 and obj.dtype in INDEX_CODES:
            return _from_edges(obj, values, shape)
    A = obj if isinstance(obj, Csr) else _from_tensor(obj) if isinstance(obj, torch.Tensor) else _from_scipy(obj)
    if shape is not None and tuple(shape) != tuple(A.shape):
        raise ShapeError.unfit("csr", wanted="the matrix's own shape, or none", A=A.shape, shape=shape)
    return A if values is None else A.with_values(values)


def _from_tensor(A: torch.Tensor) -> Csr:
    if A.dim() != 2 or (A.layout != torch.strided and A.dense_dim()):
        raise InputError.refused(
            "csr() takes a matrix: two dimensions, values that are numbers",
            given=f"a tensor of shape {tuple(A.shape)} with {A.dense_dim()} dense dimensions",
            hint="pass one matrix of the batch at a time",
        )
    return _LAYOUTS.get(A.layout, _from_other)(A)


def _from_compressed_rows(A: torch.Tensor) -> Csr:
    return Csr(_rows(A.crow_indices(), A.col_indices(), *A.shape), A.values())


def _from_compressed_columns(A: torch.Tensor) -> Csr:
    n, m = A.shape
    return Csr(_rows(A.ccol_indices(), A.row_indices(), m, n), A.values(), transposed=True)


def _rows(crow: torch.Tensor, col: torch.Tensor, n: int, m: int) -> IndexArrays:
    return IndexArrays(crow.to(col.dtype).contiguous(), col.contiguous(), n, m)


def _from_other(A: torch.Tensor) -> Csr:
    if A.layout == torch.strided:
        return _from_compressed_rows(A.to_sparse_csr())
    if A.layout in (torch.sparse_bsr, torch.sparse_bsc):
        check_blocks(A)
    return _from_compressed_rows(A.to_sparse_coo().to_sparse_csr())


def _from_coo(A: torch.Tensor) -> Csr:
    if not A.is_coalesced():
        check_ids(A._indices(), A.shape)
        A = A.coalesce()
    rows, ids = coordinates.rows_of(A.detach()).rows, A._indices()
    if rows is None or rows.order is not None:
        check_ids(ids, A.shape)
        if bool((ids[0, 1:] < ids[0, :-1]).any()):  # the tensor is marked as coalesced but is not sorted
            return _from_coo(torch.sparse_coo_tensor(ids, A._values(), A.shape, is_coalesced=False, device=A.device))
    crow = torch._convert_indices_from_coo_to_csr(ids[0].contiguous(), A.shape[0]) if rows is None else rows.wide_crow
    return Csr(IndexArrays(crow, ids[1].contiguous(), *A.shape), A.values())


_LAYOUTS: Final[dict[torch.layout, Callable[[torch.Tensor], Csr]]] = {
    torch.sparse_csr: _from_compressed_rows,
    torch.sparse_csc: _from_compressed_columns,
    torch.sparse_coo: _from_coo,
}


def _from_edges(edges: torch.Tensor, values: torch.Tensor | None, shape: tuple[int, int] | None) -> Csr:
    row, col = edges.unbind(0)
    if shape is None:
        n = int(edges.max()) + 1 if edges.numel() else 0
        shape = (max(n, 0), max(n, 0))
    shape = matrix_shape(shape)
    check_ids(edges, shape)
    if values is not None and tensor("csr", values).shape != row.shape:
        wanted = f"values of shape ({row.shape[0]},), one for each edge"
        raise ShapeError.unfit("csr", wanted=wanted, edges=edges.shape, values=values.shape)
    order = torch.argsort(row, stable=True)
    crow = torch._convert_indices_from_coo_to_csr(row[order], shape[0], out_int32=row.dtype == narrow_index)
    values = torch.ones(row.numel(), device=row.device) if values is None else values[order]
    return Csr(IndexArrays(crow, col[order], *shape), values)


def _from_scipy(obj: Any) -> Csr:
    matrix = obj.tocsr() if hasattr(obj, "tocsr") else None
    if matrix is None or len(matrix.shape) != 2:
        raise InputTypeError.refused(
            "csr() takes a torch tensor, a SciPy sparse matrix or an edge index",
            given=f"an object of type {type(obj).__name__}",
            hint="pass torch.as_tensor(...) or scipy.sparse.csr_array(...)",
        )
    dtype = np.promote_types(matrix.indptr.dtype, matrix.indices.dtype)
    indices, data = (array[: int(matrix.indptr[-1])] for array in (matrix.indices, matrix.data))  # may be longer
    crow, col = (torch.from_numpy(np.ascontiguousarray(a, dtype=dtype)) for a in (matrix.indptr, indices))
    return Csr(IndexArrays(crow, col, *matrix.shape), torch.from_numpy(np.ascontiguousarray(data)))
