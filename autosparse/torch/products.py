"""Choice of the path for a product A B or Aᵀ B: executor (plans, tuning), built transpose, or direct kernel call."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

import torch

from autosparse.torch import native, thresholds
from autosparse.torch.operand import Gathered, operand_of, run
from autosparse.torch.structure import Structure


class Home(Protocol):
    """Interface of an owner of index arrays and their structure: `IndexArrays`, or entries of a sparse tensor."""

    @property
    def structure(self) -> Structure:
        """Structure of the index arrays, with everything derived from them."""

    @property
    def arrays(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Index arrays (crow, col)."""


n_recorders: Final[Callable[[], int]] = torch._C._len_torch_dispatch_stack
"""Return the number of modes of PyTorch that see operators (make_fx, `torch.func.linearize`), but not writes to memory.

Products then call the operators of `autograd.operators`, which such a mode records.
"""


def mm(home: Home, values: torch.Tensor, B: torch.Tensor, *, transposed: bool = False) -> torch.Tensor:
    """Return A B or Aᵀ B; values (nnz,) contiguous, B (k,) or (k, m) of the same dtype → (n,) or (n, m).

    `home` holds the index arrays of A. Large products go through the executor, others to the default kernel.
    """
    structure, B = home.structure, native.rows_of(B)
    if not structure.is_sound:  # first use of a tensor that PyTorch did not check
        structure.check()
    if structure.nnz * (B.shape[1] if B.dim() == 2 else 1) < thresholds.DIRECT_PRODUCT or native.flags():
        return native.mm(structure, values, B, transposed=transposed)
    return of_structure(structure, values, B, owner=home.arrays, transposed=transposed)


def multiply(home: Home, values: torch.Tensor, X: torch.Tensor, *, transposed: bool = False) -> torch.Tensor:
    """Return `mm`, or with heads (values (nnz, H), X (m, H, F)) the product of each head: (n, H, F)."""
    if n_recorders():
        structure, (crow, col) = home.structure, home.arrays
        recorded: torch.Tensor = torch.ops.autosparse.csr_product(
            crow, col, values, X, structure.n_rows, structure.n_cols, transposed
        )
        return recorded
    if X.dim() < 3:
        return mm(home, native.whole(values), X, transposed=transposed)
    structure = home.structure
    return native.heads_mm(structure.transposed() if transposed else structure, native.whole(values), X)


def of_structure(
    structure: Structure,
    values: torch.Tensor,
    B: torch.Tensor,
    *,
    owner: tuple[torch.Tensor, ...],
    transposed: bool = False,
) -> torch.Tensor:
    """Return A B or Aᵀ B, computed by the executor, for `B` with contiguous rows.

    `owner`: tensors that hold the memory of the index arrays, kept alive meanwhile.
    """
    if transposed:
        return _transposed_mm(structure, values, B)
    operand = operand_of(structure, B.dtype)
    if not operand.busy.acquire(blocking=False):  # another thread multiplies with this structure
        return native.mm(structure, values, B)
    try:
        operand.point_at(values, owner)
        return run(operand, B, native.empty((structure.n_rows, *B.shape[1:]), B.dtype))
    finally:
        operand.busy.release()


def _transposed_mm(structure: Structure, values: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    turned = structure.turned_when_it_pays()
    if turned is None:
        start_s = time.perf_counter()
        out = native.mm(structure, values, B, transposed=True)
        structure.untransposed_s += time.perf_counter() - start_s
        return out
    operand = operand_of(turned, B.dtype)
    assert isinstance(operand, Gathered)
    if not operand.busy.acquire(blocking=False):
        return native.mm(structure, values, B, transposed=True)
    try:
        operand.collect(values)
        return run(operand, B, native.empty((turned.n_rows, *B.shape[1:]), B.dtype))
    finally:
        operand.busy.release()
