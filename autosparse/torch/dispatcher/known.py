"""Known: what is remembered about a compressed tensor that the builtin of `small_operands` has checked."""

# mypy: allow-untyped-calls
from __future__ import annotations

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from autosparse.torch import products, results
from autosparse.torch.structure import Structure, checked, index_arrays


class KnownIndices:
    """The storages of a tensor's index arrays, whose addresses identify them, and its structure when it is asked for.

    Their addresses are not given to other storages while this lives. It does not keep their memory.
    """

    __slots__ = ("_structure", "_watched")

    def __init__(self, A: torch.Tensor) -> None:
        arrays = index_arrays(A)
        results.keep_out(*arrays)
        self._watched = tuple(StorageWeakRef(array.untyped_storage()) for array in arrays)
        self._structure: Structure | None = None

    def multiply(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """A B by the executor for the A that this is of, B by rows; the builtin has looked at both."""
        by_columns = A.layout is torch.sparse_csc
        structure = self._structure
        if structure is None:
            n_rows, n_cols = A.shape[::-1] if by_columns else A.shape
            structure = self._structure = checked(index_arrays(A), n_rows, n_cols, of=A)
        return products.of_structure(structure, A.values(), B, owner=(A,), transposed=by_columns)
