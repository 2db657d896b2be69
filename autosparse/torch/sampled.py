"""Products sampled at the entries of a matrix (SDDMM): alpha ⟨X[i], Y[j]⟩ + beta base by default kernel or executor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from autosparse._native import runtime_api
from autosparse.config import get_options
from autosparse.dispatch import executor
from autosparse.operands.dense import by_rows
from autosparse.operands.native_rows import NativeRows
from autosparse.ops import SDDMM
from autosparse.torch import native, products, thresholds
from autosparse.torch.operand import array_over, sampling_of
from autosparse.torch.structure import INDEX_CODES, VALUE_CODES, lib, structure_of

if TYPE_CHECKING:
    from autosparse.dispatch.protocols import Bound
    from autosparse.torch.products import Home


@dataclass(slots=True)
class SampledAddmm:
    """Call of a sampled product: out[p] = alpha ⟨X[i], Y[:, j]⟩ + beta base[p] for entry p = (i, j), real dtypes.

    X (n, K) lies by rows, Y is (K, m), `base` and `out` are (nnz,). `given` holds the default kernel's arguments except
    the number of threads. `new_col`, when given, receives a copy of the columns. Implements `dispatch.protocols.Call`.
    """

    given: tuple[Any, ...]  # Any: addresses, codes, and numbers
    arrays: tuple[torch.Tensor, torch.Tensor]  # crow, col
    X: torch.Tensor
    Y: torch.Tensor
    out: torch.Tensor
    alpha: float = 1.0
    beta: float = 0.0
    base: torch.Tensor | None = None
    new_col: torch.Tensor | None = None
    rows: NativeRows | None = None  # view of the matrix for the executor, with all values 1
    kept: None = None
    n_vecs: int = field(init=False)  # K

    def __post_init__(self) -> None:
        self.n_vecs = self.X.shape[1]

    @property
    def suits_generated(self) -> bool:
        """Return whether generated kernels can compute this call: whether X has columns (K > 0)."""
        return self.n_vecs > 0

    def by_default(self, n_threads: int, flags: int) -> int:
        """Run the default kernel and return its status; one pass covers alpha, beta and `new_col`."""
        status: int = lib.asp_sddmm_at(*self.given, native.threads())
        return status

    def by(self, bound: Bound, n_threads: int) -> bool:
        """Run the tuned kernel `bound`, and return whether it could; see `protocols.Call`.

        Alpha, beta and `new_col` take separate passes.
        """
        X, Y, rows, threads = self.X, self.Y.t(), self.rows, min(n_threads, native.threads())
        assert rows is not None
        if Y.stride(1) != 1 or Y.stride(0) < Y.shape[1]:
            Y = torch.from_numpy(by_rows(array_over(Y), threads=threads))
        ones = int(runtime_api.ffi.cast("intptr_t", rows.data[0]))
        places = X.data_ptr(), X.stride(0), Y.data_ptr(), Y.stride(0), ones, self.out.data_ptr()
        if bound.run(*places, self.n_vecs, threads) is False:
            return False
        if self.alpha != 1:
            self.out.mul_(self.alpha)
        if self.base is not None:  # also where beta is 0: 0 · nan is nan, as in PyTorch
            self.out.add_(self.base, alpha=self.beta)
        if self.new_col is not None:
            self.new_col.copy_(self.arrays[1])
        return True


def dots(home: Home, X: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
    """Return ⟨X[i], Y[j]⟩ for each entry (i, j), as `native.sddmm`; large products go through the executor."""
    (crow, col), nnz, dtype = home.arrays, home.arrays[1].shape[0], X.dtype
    if products.n_recorders():
        n_rows, n_cols = home.structure.n_rows, home.structure.n_cols
        recorded: torch.Tensor = torch.ops.autosparse.csr_sampled_product(crow, col, X, Y, n_rows, n_cols)
        return recorded
    if X.dim() != 2 or dtype.is_complex or nnz * X.shape[1] < thresholds.DIRECT_SAMPLE:
        return native.sddmm(home.structure, X, Y)
    X, Y = native.rows_of(X), (native.resolved(Y) if Y.is_neg() or Y._is_zerotensor() else Y).t()
    out = native.empty((nnz,), dtype)
    given = (
        VALUE_CODES[dtype], INDEX_CODES[col.dtype], X.shape[0], Y.shape[1], crow.data_ptr(), col.data_ptr(), nnz,
        X.data_ptr(), X.stride(0), Y.data_ptr(), *Y.stride(), X.shape[1], 1.0, 0.0, 0, out.data_ptr(), 0,
    )  # fmt: skip
    runtime_api.raise_for(compute(SampledAddmm(given, (crow, col), X, Y, out)))
    return out


def compute(sample: SampledAddmm) -> int:
    """Write the result to ``sample.out``, by the executor where possible; return the kernel's status (0: success)."""
    if native.flags() or not get_options().extra_memory:
        return sample.by_default(0, 0)
    (crow, col), X = sample.arrays, sample.X
    structure = structure_of(crow, col, X.shape[0], sample.Y.shape[1])
    if not structure.is_sound:  # first use of a tensor that PyTorch did not check
        structure.check()
    operand = sampling_of(structure, X.dtype)
    if not operand.busy.acquire(blocking=False):  # another thread samples at these entries
        return sample.by_default(0, 0)
    try:
        operand.point_at(operand.ones, sample.arrays)
        sample.rows = operand.rows
        executor.serve(SDDMM.name, operand, operand.rows, X.shape[1], lambda threads: sample)
    finally:
        operand.let_go()
        operand.busy.release()
    return 0
