"""Record of a compressed tensor whose indices the builtin of `small_operands` has checked."""

# mypy: allow-untyped-calls
from __future__ import annotations

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from autosparse.torch import products, results
from autosparse.torch.structure import Structure, checked, index_arrays


class KnownIndices:
    """Weak references to the storages of a tensor's index arrays, and the tensor's structure once it is needed.

    While this object lives, no other storage gets their addresses, which identify the arrays. Their memory may be
    freed.
    """

    __slots__ = ("_structure", "_watched")

    def __init__(self, A: torch.Tensor) -> None:
        arrays = index_arrays(A)
        results.keep_out(*arrays)
        self._watched = tuple(StorageWeakRef(array.untyped_storage()) for array in arrays)
        self._structure: Structure | None = None

    def multiply(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """Return A B by the executor for the tensor A of this record; the builtin has checked both operands."""
        by_columns = A.layout is torch.sparse_csc
        structure = self._structure
        if structure is None:
            n_rows, n_cols = A.shape[::-1] if by_columns else A.shape
            structure = self._structure = checked(index_arrays(A), n_rows, n_cols, of=A)
        return products.of_structure(structure, A.values(), B, owner=(A,), transposed=by_columns)
