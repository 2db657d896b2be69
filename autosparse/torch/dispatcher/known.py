"""Record of a compressed tensor whose indices the C++ module of `extension` has checked."""

# mypy: allow-untyped-calls
from __future__ import annotations

import torch

from autosparse.torch import native, products, results
from autosparse.torch.structure import Structure, checked, index_arrays, renewed


class KnownIndices:
    """Structure of a tensor's index arrays, made when it is first needed.

    The C++ module finds the record by the arrays. It holds weak references to their storages, so that no other storage
    gets their addresses.
    """

    __slots__ = ("_structure",)

    def __init__(self, A: torch.Tensor) -> None:
        results.keep_out(*index_arrays(A))
        self._structure: Structure | None = None

    def multiply(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """Return A B by the executor for the tensor A of this record; the module has checked both operands."""
        by_columns = A.layout is torch.sparse_csc
        structure = self._structure
        if structure is None:
            n_rows, n_cols = A.shape[::-1] if by_columns else A.shape
            structure = checked(index_arrays(A), n_rows, n_cols, of=A)
            if structure.has_other_content():  # the module has found it by counters that Python does not see
                structure = renewed(structure, index_arrays(A))
                structure.check()
            self._structure = structure
        return products.of_structure(structure, A.values(), native.rows_of(B), owner=(A,), transposed=by_columns)
