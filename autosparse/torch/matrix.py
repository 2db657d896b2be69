"""Csr: a sparse matrix for torch code, whose structure, plan and transpose are kept from product to product."""

# mypy: allow-untyped-calls
# (torch's functions are not all typed, its autograd classes not at all)
from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from autosparse import executor
from autosparse.errors import InputError, InputTypeError
from autosparse.operand import Operand
from autosparse.plan import Plan
from autosparse.torch import cells, coo, functional, native
from autosparse.torch.compiled import run_as_is
from autosparse.torch.structure import INDEX_CODES, Rows

if TYPE_CHECKING:
    from autosparse.explain import Explanation


class Csr:
    """``n × m`` matrix by compressed rows: values (nnz,) of a real or complex floating dtype, on the CPU.

    Values are read at every product and may require gradients; `with_values` puts others into the same structure.
    The transpose shares everything. Made by `autosparse.torch.csr`.
    """

    __slots__ = ("_transposed", "rows", "values")

    def __init__(self, rows: Rows, values: torch.Tensor, *, transposed: bool = False) -> None:
        self.rows, self.values, self._transposed = rows, values, transposed

    @property
    def shape(self) -> torch.Size:
        """(n, m) of this matrix, or (m, n) of a transpose."""
        n, m = self.rows.n_rows, self.rows.n_cols
        return torch.Size((m, n) if self._transposed else (n, m))

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the values."""
        return self.values.dtype

    @property
    def nnz(self) -> int:
        """Stored entries."""
        return self.values.shape[0]

    @property
    def requires_grad(self) -> bool:
        """Whether products give gradients to the values."""
        return self.values.requires_grad

    @property
    def is_transposed(self) -> bool:
        """Whether rows of the shared structure are columns of this matrix."""
        return self._transposed

    @property
    def T(self) -> Csr:
        """The transpose; nothing is copied."""
        return Csr(self.rows, self.values, transposed=not self._transposed)

    def t(self) -> Csr:
        """The transpose, as a method."""
        return self.T

    def with_values(self, values: torch.Tensor) -> Csr:
        """The same structure with other values, (nnz,)."""
        return Csr(self.rows, values, transposed=self._transposed)

    def to(self, dtype: torch.dtype) -> Csr:
        """The same structure with values of another dtype."""
        return self.with_values(self.values.to(dtype))

    def to_torch(self) -> torch.Tensor:
        """A torch tensor of layout sparse_csr (sparse_csc for a transpose) that shares indices and values."""
        layout = torch.sparse_csc if self._transposed else torch.sparse_csr
        return torch.sparse_compressed_tensor(
            self.rows.crow, self.rows.col, self.values, self.shape, layout=layout, check_invariants=False
        )

    def matmul(self, X: torch.Tensor) -> torch.Tensor:
        """A X for X (m,) or (m, k)."""
        return functional.spmm(self, X)

    @run_as_is
    def __matmul__(self, X: torch.Tensor) -> torch.Tensor:
        return functional.spmm(self, X)

    @run_as_is
    def __rmatmul__(self, X: torch.Tensor) -> torch.Tensor:
        return functional.spmm(self.T, X.T).T if X.dim() == 2 else functional.spmm(self.T, X)

    def tune(self, columns: int = 1, **hints: Any) -> Plan:
        """Find a faster kernel for ``A @ X`` with X of `columns` columns now; products of this structure then use it.

        Hints as in ``autosparse.csr(...).tune``: runs, effort, budget_s, progress. ``A.T.tune(columns)`` serves the
        backward pass.
        """
        with self._as_operand() as operand:
            return executor.tune(operand, columns=columns, **hints)

    def explain(self, X: torch.Tensor | int = 1) -> Explanation:
        """What runs for ``A @ X`` and why; X: the dense operand or its number of columns."""
        from autosparse.explain import explain

        if isinstance(X, torch.Tensor):
            X = X.shape[1] if X.dim() == 2 else 1
        with self._as_operand() as operand:
            return explain(operand, X)

    def _as_operand(self) -> AbstractContextManager[Operand]:
        values = native.whole(self.values.detach())
        values = values.float() if values.dtype in functional.HALF else values
        return cells.held(self.rows, values, transposed=self._transposed)

    def __repr__(self) -> str:
        n, m = self.shape
        grad = ", requires_grad=True" if self.requires_grad else ""
        return f"autosparse.torch.Csr({n} x {m}, nnz={self.nnz}, {self.dtype}, {self.rows.col.dtype} indices{grad})"

    @classmethod
    @run_as_is
    def __torch_function__(
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # Any: torch's protocol; the functions that we serve are the keys of SERVED.
        served = SERVED.get(function)
        return NotImplemented if served is None else served(*args, **(kwargs or {}))


def _torch_matmul(A: Any, X: Any) -> torch.Tensor:
    """torch.matmul, mm and mv with a Csr on one side (Any: the other is a tensor)."""
    product: torch.Tensor = A.__matmul__(X) if isinstance(A, Csr) else X.__rmatmul__(A)
    return product


def _torch_sparse_mm(A: Csr, X: torch.Tensor, reduce: str = "sum") -> torch.Tensor:
    return functional.spmm(A, X, reduce={"amax": "max", "amin": "min"}.get(reduce, reduce))


SERVED: Final[dict[Any, Callable[..., torch.Tensor]]] = {
    torch.matmul: _torch_matmul,
    torch.mm: _torch_matmul,
    torch.mv: _torch_matmul,
    torch.Tensor.matmul: _torch_matmul,
    torch.Tensor.mm: _torch_matmul,
    torch.Tensor.__matmul__: _torch_matmul,
    torch.Tensor.__rmatmul__: lambda X, A: _torch_matmul(A, X),
    torch.sparse.mm: _torch_sparse_mm,
}


@run_as_is
def csr(obj: Any, values: torch.Tensor | None = None, shape: tuple[int, int] | None = None) -> Csr:
    """A `Csr` of: a torch tensor (CSR, CSC, COO, dense), a SciPy matrix, a `Csr`, or an edge index (2, E).

    CSR and CSC are taken without copies. An edge index (row i, column j of each entry; for message passing from
    source j to target i put targets first) is sorted by rows, its `values` (default: ones) with it. Duplicate entries
    are kept. Raises InputError for what is no matrix, InputTypeError for other objects.
    """
    if isinstance(obj, Csr):
        return obj if values is None else obj.with_values(values)
    if not isinstance(obj, torch.Tensor):
        return _from_scipy(obj)
    if type(obj) is not torch.Tensor and hasattr(obj, "as_tensor"):  # torch_geometric.EdgeIndex
        obj = obj.as_tensor()
    if not obj.is_cpu:
        raise InputError.refused("csr() takes matrices on the CPU", given=f"a tensor on {obj.device}", cure="A.cpu()")
    if obj.layout == torch.strided and obj.dim() == 2 and obj.shape[0] == 2 and obj.dtype in INDEX_CODES:
        return _from_edges(obj, values, shape)
    if obj.dim() != 2 or (obj.layout != torch.strided and obj.dense_dim()):
        raise InputError.refused(
            "csr() takes a matrix: two dimensions, values that are numbers",
            given=f"a tensor of shape {tuple(obj.shape)} with {obj.dense_dim()} dense dimensions",
            cure="one matrix of the batch at a time",
        )
    return _LAYOUTS.get(obj.layout, _from_other)(obj)


def _from_compressed_rows(A: torch.Tensor) -> Csr:
    return Csr(_rows(A.crow_indices(), A.col_indices(), *A.shape), A.values())


def _from_compressed_columns(A: torch.Tensor) -> Csr:
    n, m = A.shape
    return Csr(_rows(A.ccol_indices(), A.row_indices(), m, n), A.values(), transposed=True)


def _rows(crow: torch.Tensor, col: torch.Tensor, n: int, m: int) -> Rows:
    return Rows(crow.to(col.dtype).contiguous(), col.contiguous(), n, m)


def _from_other(A: torch.Tensor) -> Csr:
    return _from_compressed_rows(A.to_sparse_csr() if A.layout == torch.strided else A.to_sparse_coo().to_sparse_csr())


def _from_coo(A: torch.Tensor) -> Csr:
    if not A.is_coalesced():
        A = A.coalesce()
    starts = coo.starts_of(A.detach())
    assert starts.crow is not None  # coalesced: sorted by rows
    return Csr(Rows(starts.crow, A.indices()[1].contiguous(), *A.shape), A.values())


_LAYOUTS: Final[dict[torch.layout, Callable[[torch.Tensor], Csr]]] = {
    torch.sparse_csr: _from_compressed_rows,
    torch.sparse_csc: _from_compressed_columns,
    torch.sparse_coo: _from_coo,
}


def _from_edges(edges: torch.Tensor, values: torch.Tensor | None, shape: tuple[int, int] | None) -> Csr:
    row, col = edges.unbind(0)
    if shape is None:
        n = int(edges.max()) + 1 if edges.numel() else 0
        shape = (n, n)
    order = torch.argsort(row, stable=True)
    crow = torch._convert_indices_from_coo_to_csr(row[order], shape[0], out_int32=row.dtype == torch.int32)
    values = torch.ones(row.numel()) if values is None else values[order]
    return Csr(Rows(crow, col[order], *shape), values)


def _from_scipy(obj: Any) -> Csr:
    try:
        matrix = obj.tocsr()
    except AttributeError:
        raise InputTypeError.refused(
            "csr() takes a torch tensor, a SciPy sparse matrix or an edge index",
            given=f"an object of type {type(obj).__name__}",
            cure="torch.as_tensor(...) or scipy.sparse.csr_array(...)",
        ) from None
    dtype = np.promote_types(matrix.indptr.dtype, matrix.indices.dtype)
    crow, col = (torch.from_numpy(np.ascontiguousarray(a, dtype=dtype)) for a in (matrix.indptr, matrix.indices))
    return Csr(Rows(crow, col, *matrix.shape), torch.from_numpy(np.ascontiguousarray(matrix.data)))
